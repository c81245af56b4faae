/* A compiler of sources in the test's own process, in NVRTC's place: it takes no time, needs no worker and reads
 * what a source includes, as a worker's compiler does. For tests that include support/temp.h. */
#ifndef KILN_TESTS_SUPPORT_READING_H
#define KILN_TESTS_SUPPORT_READING_H

#include <kiln/kiln.h>

/* Gives a service that has compiled nothing yet this compiler for GPUs; it goes with the service. Of a source it
 * understands lines `#include "NAME"` and `#if __has_include("NAME")`, which takes the file in where it is there;
 * NAME is in the first include directory. All texts together are the PTX, and the functions those that the source
 * asks for, or "k". `#error` in them is a failure with a log, `#warning` a log. */
void kiln_test_reading_install(kiln_service *service);

/* Compiles that begin from now on do not end before kiln_test_reading_go. They have read by then. */
void kiln_test_reading_hold(void);
void kiln_test_reading_go(void);

/* How many have read what they include since the compiler was installed; waits for so many, or fails the test. */
int kiln_test_reading_count(void);
void kiln_test_reading_await(int count);

#endif
