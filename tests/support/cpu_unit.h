/* Units of hand-written C, for tests of the cpu backend. */
#ifndef KILN_TESTS_SUPPORT_CPU_UNIT_H
#define KILN_TESTS_SUPPORT_CPU_UNIT_H

#include "backend/cpu/cpu.h"
#include <string.h>

/* The head of the function that a unit exports. */
#define KILN_TEST_CPU_ENTRY                                                                                     \
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end, " \
    "void *out, const void *const *in);\n"                                                                      \
    "void kiln_cpu(unsigned long long begin, unsigned long long end, void *out, const void *const *in)\n"

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
                        .rule = { .inputs = 2, .element_size = 4, .block = 1, .tile = tile } };
    kiln__target_parse("cpu", 3, &unit.target);
    return unit;
}

#endif
