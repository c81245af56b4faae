/* Which functions a source offers, as its text tells. */
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

Suite *kiln_test_source_kernels_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("kernels");
    tcase_add_loop_test(tcase, test_kernels__are_listed_as_they_are_asked_for, 0, sizeof(rows) / sizeof(rows[0]));
    tcase_add_test(tcase, test_kernels__of_headers_in_memory);
    tcase_add_test(tcase, test_kernels__long_list_is_cut);
    tcase_add_test(tcase, test_kernels__depth_is_no_danger);
    suite_add_tcase(suite, tcase);
    return suite;
}
