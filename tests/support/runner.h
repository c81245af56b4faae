/* The main program that all Check executables share. */
#ifndef KILN_TESTS_SUPPORT_RUNNER_H
#define KILN_TESTS_SUPPORT_RUNNER_H

#include <check.h>
#include <stddef.h>

typedef struct kiln_test_row {
    const char *name;
    Suite *(*make)(void);
} kiln_test_row;

/* Runs the suites named by the arguments, all without arguments. Returns main's value: 0 all passed, 1 not, 2 an
 * unknown name. */
int kiln_test_main(const kiln_test_row *rows, size_t count, int argc, char **argv);

#endif
