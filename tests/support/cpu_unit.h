/* Units of hand-written C, and a compiler for them whose temporary files are in the test's own directory, for the
 * suites of the cpu backend: a checked fixture calls open_compiler and close_compiler. */
#ifndef KILN_TESTS_SUPPORT_CPU_UNIT_H
#define KILN_TESTS_SUPPORT_CPU_UNIT_H

#include "backend/backend.h"
#include "support/temp.h"
#include <stdlib.h>
#include <string.h>

static kiln__compiler *compiler;
static kiln_report report = KILN_INIT(kiln_report);

/* The head of a function that computes elements begin to end - 1 of `out` from in[0] and in[1], and the function
 * that a unit exports, for kernels that kiln_test_launch_flat launches with two inputs. */
#define KILN_TEST_CPU_ENTRY                                                                                       \
    "static void elements(unsigned long long begin, unsigned long long end, void *out, const void *const *in);\n" \
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end, "   \
    "void *const *args);\n"                                                                                       \
    "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"                     \
    "    const unsigned long long n = *(unsigned long long *)args[3], tile = *(unsigned long long *)args[4];\n"   \
    "    const void *in[] = { *(void *const *)args[1], *(void *const *)args[2] };\n"                              \
    "    elements(begin * tile, end * tile < n ? end * tile : n, *(void *const *)args[0], in);\n}\n"              \
    "static void elements(unsigned long long begin, unsigned long long end, void *out, const void *const *in)\n"

/* out[i] = in[0][i] * 2 + in[1][i] */
static const char kiln_test_twice[] = KILN_TEST_CPU_ENTRY "{\n"
                                                          "    float *z = out;\n"
                                                          "    const float *x = in[0], *y = in[1];\n"
                                                          "    for (unsigned long long i = begin; i < end; i++)\n"
                                                          "        z[i] = x[i] * 2 + y[i];\n"
                                                          "}\n";

/* A unit that borrows the source. */
static inline kiln__unit kiln_test_cpu_unit(const char *source, uint64_t tile)
{
    kiln__unit unit = { .spec = (char *)"op=test target=cpu",
                        .source = (char *)source,
                        .source_length = strlen(source),
                        .rule = { .block = { 1, 1, 1 }, .tile = tile, .arg_count = 5 } };
    kiln__target_parse("cpu", 3, &unit.target);
    return unit;
}

static inline void open_compiler(void)
{
    ck_assert_int_eq(setenv("TMPDIR", kiln_test_temp_dir(), 1), 0);
    compiler = kiln__cpu_compiler_open(NULL, NULL);
    ck_assert_ptr_nonnull(compiler);
}

static inline void close_compiler(void)
{
    compiler->vtable->close(compiler);
    kiln_report_clear(&report);
}

static inline kiln__image compile(const char *source)
{
    kiln__image image;
    kiln__unit unit = kiln_test_cpu_unit(source, 1);
    kiln_status status = compiler->vtable->compile(compiler, &unit, &image, &report);
    ck_assert_msg(status == KILN_OK, "%s\n%s", report.message, report.log != NULL ? report.log : "");
    return image;
}

#endif
