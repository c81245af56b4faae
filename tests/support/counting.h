/* Services whose C compiler is the stand-in, tests/support/counting_cc.c. For tests that include support/temp.h; each
 * test must run in a process of its own, for the environment is the process's. */
#ifndef KILN_TESTS_SUPPORT_COUNTING_H
#define KILN_TESTS_SUPPORT_COUNTING_H

#include <kiln/kiln.h>

/* kiln_test_options with the stand-in. Compiles take `ms` milliseconds. */
kiln_options kiln_test_counting_options(int ms);

/* Compiles that begin from now on do not end before kiln_test_counting_go; with `only` (may be NULL) those whose source
 * has that text. */
void kiln_test_counting_hold(const char *only);
void kiln_test_counting_go(void);

/* Makes compiles fail from now on. */
void kiln_test_counting_break(void);

/* How many compiles have begun, by any process of the test. */
int kiln_test_counting_count(void);

/* Waits until that many have begun, or fails the test. */
void kiln_test_counting_await(int count);

/* Lets this thread and those it starts run on one processor. */
void kiln_test_one_cpu(void);

#endif
