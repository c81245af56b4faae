/* What the text of a source tells: its functions, the names that nvcc brings, host code. */
#include "base/alloc.h"
#include "source/source.h"
#include "support/suites.h"
#include <stdlib.h>
#include <string.h>

static void expect_list(const char *text, const char *expected)
{
    kiln__text list = { 0 };
    kiln__unit unit = { .source = (char *)text, .source_length = strlen(text) };
    kiln__source_list_kernels(&list, &unit);
    ck_assert_str_eq(kiln__text_string(&list), expected);
    kiln__text_fini(&list);
}

static const struct {
    const char *text, *list;
} rows[] = {
    { "", "" },
    { "__device__ int f() { return 1; }", "" },
    { "extern \"C\" __global__ void k(int *p) { *p = 1; }", "k" },
    { "__global__ void a();\n__global__ void b() {}\n__global__ void a() {}", "a, b" },
    { "extern \"C\" { __global__ void a() {} }\n__global__ void b() {}", "a, b" },
    { "template <class T, int N> __global__ void scale(T *p) {}", "scale<class T, int N>" },
    { "template<typename T,\n\n\t int N = (sizeof(T) > 4)>__global__ void f(T *p);",
      "f<typename T, int N = (sizeof(T) > 4)>" },
    { "template <template <class> class C> __global__ void f() {}", "f<template <class> class C>" },
    { "template <class T> struct s { T x; };\n__global__ void k() {}", "k" },
    { "template <class T> T g(T);\n__global__ void k() {}", "k" },
    { "template <class T> __global__ void f(T);\ntemplate __global__ void f<int>(int);\n"
      "template <> __global__ void f<float>(float) {}\ntemplate <> __global__ void f(char) {}",
      "f<class T>" },
    { "namespace a { namespace b::c { __global__ void k() {} } __global__ void k() {} } __global__ void k() {}",
      "a::b::c::k, a::k, k" },
    { "namespace { __global__ void k() {} }\nusing namespace std;\nnamespace x = y;\n__global__ void l() {}", "k, l" },
    { "inline namespace v1 { void f() { if (1) { } } __global__ void k() {} }", "v1::k" },
    { "__global__ void __launch_bounds__(128, (2 + 1)) k() {}", "k" },
    { "__global__ __launch_bounds__(128) __cluster_dims__(2, 1, 1) void k(int (*f)(int)) {}", "k" },
    { "static __global__ __attribute__((used)) void k() {}", "k" },
    { "// __global__ void a();\n/* __global__ void b(); */ __global__ void c();", "c" },
    { "const char *t = \"__global__ void a() {\", c = '{', q = '\"';\n__global__ void k();", "k" },
    { "const char *t = R\"x(\" __global__ void a() { )x\"; int i = 1'000'000; __global__ void k();", "k" },
    { "#define KERNEL(n) __global__ \\\n    void n() {\nnamespace n {\n  # define X __global__ void x(\n__global__ "
      "void k(); }",
      "n::k" },
    { "__global__", "" },
    { "__global__ void", "" },
    { "__global__ void k", "" },
    { "template <class T", "" },
    { "namespace", "" },
    { "} } __global__ void k()", "k" },
    { "\"", "" },
    { "R\"(", "" },
    { "/*", "" },
    { "#\\", "" },
};

START_TEST(test_kernels__are_listed_as_they_are_asked_for)
{
    expect_list(rows[_i].text, rows[_i].list);
}
END_TEST

START_TEST(test_kernels__of_headers_in_memory)
{
    kiln__text list = { 0 };
    char text[] = "#include \"a.h\"\n__global__ void mine();";
    kiln__unit unit = { .source = text, .source_length = strlen(text) };
    kiln__list_add(&unit.headers, "a.h");
    kiln__list_add(&unit.headers, "namespace a { __global__ void theirs(); } __global__ void mine();");
    kiln__list_add(&unit.headers, "b.h");
    kiln__list_add(&unit.headers, "__global__ void last();");
    kiln__source_list_kernels(&list, &unit);
    ck_assert_str_eq(list.data, "mine, a::theirs, last");
    kiln__text_fini(&list);
    kiln__list_fini(&unit.headers);
}
END_TEST

START_TEST(test_kernels__long_list_is_cut)
{
    kiln__text text = { 0 }, list = { 0 };
    kiln__unit unit = { 0 };
    for (int i = 0; i < 1000; i++)
        kiln__text_printf(&text, "template <int %0*d> __global__ void k%d();\n", i % 2 == 0 ? 1 : 200, 0, i);
    unit.source = text.data;
    kiln__source_list_kernels(&list, &unit);
    ck_assert_ptr_nonnull(strstr(list.data, "k0<int 0>, k1<...>, k2<int 0>"));
    ck_assert_str_eq(list.data + list.length - 5, ", ...");
    ck_assert_uint_lt(list.length, 260);
    kiln__text_fini(&text);
    kiln__text_fini(&list);
}
END_TEST

START_TEST(test_kernels__depth_is_no_danger)
{
    enum { DEPTH = 1000000 };
    char *text = malloc(2 * DEPTH + 64);
    memset(text, '{', DEPTH);
    memset(text + DEPTH, '(', DEPTH);
    strcpy(text + 2 * DEPTH, "namespace n { __global__ void k();");
    expect_list(text, "k");
    memset(text, '<', DEPTH);
    memcpy(text, "template ", 9);
    expect_list(text, "");
    free(text);
}
END_TEST

/* ---- The names that nvcc brings */

static const struct {
    const char *text, *prelude;
} preludes[] = {
    { "int x;", "" },
    { "void f(uint32_t n) { x = y < INFINITY && INFINITY == y; } // NAN", "uint32_t;,INFINITY" },
    { "x = \"INFINITY\" /* uint8_t */;", "" },
    { "#include <cuda_fp16.h>\nx = INFINITY;", "INFINITY" },
    { "#include \"own.h\"\nx = INFINITY;", "" },
    { "x = INFINITY;\n#include <own/a.h>", "" },
    { "#include <complex>\n# include <cub/block/block_scan.cuh>\nx = INFINITY;", "INFINITY" },
    { "#include <own>\nx = INFINITY;", "" },
    { "#include <cubic/a.h>\nx = INFINITY;", "" },
    { "#include <complex\nx = INFINITY;", "" },
    { "#include HEADER\nx = INFINITY;", "" },
    { "typedef unsigned long uint64_t; uint64_t f(uint32_t x);", "uint32_t;" },
    { "#define NAN 3\nx = NAN;", "" },
    { "#if defined(NAN)\nx = 1;\n#endif\nx = INFINITY;", "INFINITY" },
    { "#if defined NAN || defined ( INFINITY )\nx = 1;\n#endif", "" },
    { "#include <mine.h>\nx = INFINITY;", "" },
    { "#include <mma.h>\n#include <math.h>\n#include <curand_kernel.h>\nx = INFINITY;", "INFINITY" },
    { "#ifndef INFINITY\n#define INFINITY 3\n#endif\nx = INFINITY + NAN;", "NAN" },
    { "const float INFINITY = 3; f(INFINITY);", "" },
    { "x = std::min(a, std :: max(b, c)) + min(a, b);", "<algorithm>" },
    { "namespace std { int min(int, int); } x = std::min(a, INFINITY);", "" },
    { "using namespace std; std::size_t x; int y = other::min(INFINITY);", "INFINITY,<cstddef>" },
};

/* The prelude has a line for each of the words, which end with a comma, and no other. */
static void expect_lines(const char *prelude, const char *words)
{
    size_t lines = 0, expected = 0;
    for (const char *at = prelude; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    while (*words != '\0') {
        char word[32] = "";
        size_t length = strcspn(words, ",");
        memcpy(word, words, length);
        ck_assert_msg(strstr(prelude, word) != NULL, "no %s in: %s", word, prelude);
        words += length + (words[length] == ',');
        expected++;
    }
    ck_assert_msg(lines == expected, "%zu lines: %s", lines, prelude);
}

START_TEST(test_prelude__is_foreseen)
{
    kiln__text prelude = { 0 };
    kiln__prelude_foresee(&prelude, preludes[_i].text);
    expect_lines(kiln__text_string(&prelude), preludes[_i].prelude);
    kiln__text_fini(&prelude);
}
END_TEST

START_TEST(test_prelude__is_learnt_from_errors)
{
    kiln__text prelude = { 0 };
    static const char log[] = "a.cu(1): error: identifier \"uint16_t\" is undefined\n"
                              "a.cu(1): error: identifier \"uint16_t\" is undefined\n"
                              "a.cu(2): error: namespace \"std\" has no member \"sqrt\"\n"
                              "a.cu(2): error: namespace \"std\" has no member \"swap\"\n"
                              "a.cu(2): error: the global scope has no \"INT_MAX\"\n"
                              "a.cu(2): error: identifier \"type\" is undefined\n"
                              "a.cu(2): error: identifier \"KILN_STD_MATH_H\" is undefined\n"
                              "a.cu(2): error: identifier \"\" is undefined\n"
                              "a.cu(2): error: identifier \"foo\" is undefined";
    ck_assert(kiln__prelude_learn(&prelude, log));
    expect_lines(prelude.data, "uint16_t;,INT_MAX,<cmath>,<algorithm>");
    ck_assert(!kiln__prelude_learn(&prelude, log));
    ck_assert(!kiln__prelude_learn(&prelude, ""));
    kiln__text_fini(&prelude);
}
END_TEST

/* ---- Host code */

START_TEST(test_kernels__host_code_is_seen)
{
    static const char *const host[] = { "int main() {}", "void f() { k<<<1, 2>>>(p); }", "x = cudaMalloc(&p, 3);",
                                        "cuLaunchKernel (f);" };
    static const char *const device[] = { "",
                                          "// main()",
                                          "int domain(int x); int main_loop(); int main;",
                                          "x = 1 << 3 < (2 << y);",
                                          "cudaTextureObject_t t; curand(&s); cuda::std::min(1, 2);",
                                          "#ifndef __CUDACC_RTC__\nint main() {}\n#endif" };
    for (size_t i = 0; i < sizeof(host) / sizeof(host[0]); i++)
        ck_assert_msg(kiln__source_has_host_code(host[i]), "%s", host[i]);
    for (size_t i = 0; i < sizeof(device) / sizeof(device[0]); i++)
        ck_assert_msg(!kiln__source_has_host_code(device[i]), "%s", device[i]);
}
END_TEST

Suite *kiln_test_source_kernels_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("kernels");
    tcase_add_loop_test(tcase, test_kernels__are_listed_as_they_are_asked_for, 0, sizeof(rows) / sizeof(rows[0]));
    tcase_add_test(tcase, test_kernels__of_headers_in_memory);
    tcase_add_test(tcase, test_kernels__long_list_is_cut);
    tcase_add_test(tcase, test_kernels__depth_is_no_danger);
    tcase_add_loop_test(tcase, test_prelude__is_foreseen, 0, sizeof(preludes) / sizeof(preludes[0]));
    tcase_add_test(tcase, test_prelude__is_learnt_from_errors);
    tcase_add_test(tcase, test_kernels__host_code_is_seen);
    suite_add_tcase(suite, tcase);
    return suite;
}
