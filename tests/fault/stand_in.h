/* The stand-in C compiler, which hands out one kernel that the real one made. For suites that get thousands of kernels
 * through the whole API. */
#ifndef KILN_TESTS_FAULT_STAND_IN_H
#define KILN_TESTS_FAULT_STAND_IN_H

#include "support/harness.h"
#include "support/temp.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STAND_IN_SPEC "op=hardsigmoid dtype=f32 target=cpu"

/* Lets the real compiler make STAND_IN_SPEC's kernel once, in the current test's directory, and gives options with
 * the stand-in as the compiler and a store named "store" that does not exist yet. */
static inline kiln_options stand_in_options(void)
{
    kiln_options options = kiln_test_options();
    const void *object;
    size_t length;
    options.cache_dir = "";
    kiln_service *service = kiln_test_open(&options);
    kiln_program *program = kiln_test_build(service, STAND_IN_SPEC);
    ck_assert_int_eq(kiln_program_section(&object, &length, program, "object"), KILN_OK);
    kiln_test_temp_write("object.so", object, length);
    kiln_program_release(program);
    kiln_close(service);
    ck_assert_int_eq(setenv("KILN_STAND_IN_OBJECT", kiln_test_temp_path("object.so"), 1), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("temporary"), 0700), 0);
    ck_assert_int_eq(setenv("TMPDIR", kiln_test_temp_path("temporary"), 1), 0); /* /tmp is as long as others make it */
    options = kiln_test_options();
    options.cc = getenv("KILN_STAND_IN_CC");
    options.device = "cpu";
    ck_assert_msg(options.cc != NULL, "KILN_STAND_IN_CC must name the stand-in compiler");
    return options;
}

#endif
