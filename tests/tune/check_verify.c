/* kiln_verify: on the cpu, and on the stand-in driver, which computes relu6 for every kernel of three parameters. */
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/tune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TWIN                                                                                                     \
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n" \
    "                                                     void *const *args);\n"                                 \
    "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"                    \
    "    float *out = *(float *const *)args[0], *x = *(float *const *)args[1];\n"                                \
    "    unsigned long long n = *(unsigned long long *)args[2];\n"                                               \
    "    (void)n;\n"                                                                                             \
    "    for (unsigned long long i = begin * KILN_BLOCK; i < end * KILN_BLOCK && i < n; i++)\n"
#define HEAD(name)                                                                                           \
    "//! template " name "\n//! param block 32..1024 step 32 = 32\n//! entry " name " align 4\n//! size n\n" \
    "//! grid (n + block - 1) / block\n"

enum { N = 70001 };

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);
static kiln_verification found;
static float out[N], x[N];

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 2003 - 1000) / 99;
    x[77] = NAN;
    x[78] = -0.0f;
}

static void close_service(void)
{
    kiln_report_clear(&report);
    kiln_close(service);
}

static void define(const char *text, const char *twin)
{
    kiln_status status = kiln_template_define(service, text, twin, NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
}

static kiln_status verify(kiln_kernel *kernel, uint64_t n, float *result, const float *values,
                          const kiln_tolerance *tolerance)
{
    const kiln_arg args[] = { KILN_ARRAY(result, n * sizeof(float)), KILN_ARRAY(values, n * sizeof(float)) };
    found = (kiln_verification)KILN_INIT(kiln_verification);
    return kiln_verify(&found, service, kernel, NULL, &n, 1, args, 2, tolerance, &report);
}

static kiln_status verify_spec(const char *text, float *result, const float *values, const kiln_tolerance *tolerance)
{
    kiln_kernel *kernel = kiln_test_get(service, text);
    kiln_status status = verify(kernel, N, result, values, tolerance);
    kiln_kernel_release(kernel);
    return status;
}

static float relu6_of(float value)
{
    return value > 0 ? (value < 6 ? value : 6) : value <= 0 ? 0 : value;
}

START_TEST(test_verify__a_right_kernel)
{
    ck_assert_msg(verify_spec("op=relu6 dtype=f32 target=cpu", out, x, NULL) == KILN_OK, "%s", report.message);
    ck_assert_str_eq(found.against, "the cpu backend");
    ck_assert(found.compared == N && found.wrong == 0 && found.bound < 0);
    for (int i = 0; i < N; i++)
        ck_assert(out[i] == relu6_of(x[i]) || isnan(x[i]));
}
END_TEST

START_TEST(test_verify__in_place)
{
    memcpy(out, x, sizeof(out));
    ck_assert_msg(verify_spec("op=relu6 dtype=f32 target=cpu", out, out, NULL) == KILN_OK, "%s", report.message);
    ck_assert(found.compared == N && found.wrong == 0);
    for (int i = 0; i < N; i++)
        ck_assert(out[i] == relu6_of(x[i]) || isnan(x[i]));
}
END_TEST

START_TEST(test_verify__no_elements)
{
    kiln_kernel *kernel = kiln_test_get(service, "op=relu6 dtype=f32 target=cpu");
    ck_assert_int_eq(verify(kernel, 0, NULL, NULL, NULL), KILN_OK);
    ck_assert(found.compared == 0 && found.wrong == 0);
    kiln_kernel_release(kernel);
}
END_TEST

/* An element that no launch writes has another poison in each. */
START_TEST(test_verify__an_element_that_is_not_written)
{
    define(HEAD("most") "//! arg out out f32[max(n, 1)]\n//! arg x in f32[max(n, 1)]\n//! arg n uint64 = n\n",
           TWIN "        if (i + 1 < n) out[i] = x[i];\n}\n");
    ck_assert_int_eq(verify_spec("template=most dtype=f32 target=cpu", out, x, NULL), KILN_EMISMATCH);
    ck_assert_str_eq(found.against, "a second launch");
    ck_assert(found.compared == N && found.wrong == 1 && found.argument == 0 && found.first == N - 1);
    ck_assert_ptr_nonnull(strstr(report.message, "is not equal to a second launch: 1 elements differ, the first is "
                                                 "element 70000 of out: it is 0x5a5a5a5a"));
}
END_TEST

/* The second launch begins with what the first one found, and the arrays end with the results of one launch. */
START_TEST(test_verify__what_is_read_and_written)
{
    define(HEAD("collect") "//! arg acc inout f32[n]\n//! arg x in f32[n]\n//! arg n uint64 = n\n",
           TWIN "        out[i] += x[i];\n}\n");
    for (int i = 0; i < N; i++)
        out[i] = 2;
    ck_assert_msg(verify_spec("template=collect dtype=f32 target=cpu", out, x, NULL) == KILN_OK, "%s", report.message);
    for (int i = 0; i < N; i++)
        ck_assert(out[i] == 2 + x[i] || isnan(x[i]));
}
END_TEST

/* Two sizes, two arrays that are written, a number and a grid of rows, as kiln_launch takes them. */
START_TEST(test_verify__takes_what_a_launch_takes)
{
    enum { COLS = 70, ROWS = 30, CELLS = COLS * ROWS };
    static const char text[] = "//! template rich\n//! param block 32..1024 step 32 = 32\n//! entry rich align 4\n"
                               "//! size n, m\n//! grid (n + block - 1) / block, m\n//! arg out out f32[m, n]\n"
                               "//! arg count inout int64[m]\n//! arg x in f32[m, n]\n//! arg by f32\n"
                               "//! arg n uint64 = n\n";
    static const char twin[] =
        "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
        "                                                     void *const *args);\n"
        "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"
        "    float *out = *(float *const *)args[0], *x = *(float *const *)args[2], by = *(float *)args[3];\n"
        "    long long *count = *(long long *const *)args[1];\n"
        "    unsigned long long n = *(unsigned long long *)args[4], wide = (n + KILN_BLOCK - 1) / KILN_BLOCK;\n"
        "    for (unsigned long long i = begin; i < end; i++) {\n"
        "        unsigned long long row = i / wide, at = i % wide * KILN_BLOCK;\n"
        "        if (at == 0) count[row] += row;\n"
        "        for (unsigned long long c = at; c < at + KILN_BLOCK && c < n; c++)\n"
        "            out[row * n + c] = by * x[row * n + c];\n"
        "    }\n}\n";
    const uint64_t sizes[] = { COLS, ROWS };
    const float by = 3;
    int64_t count[ROWS];
    const kiln_arg args[] = { KILN_ARRAY(out, CELLS * sizeof(out[0])), KILN_ARRAY(count, sizeof(count)),
                              KILN_ARRAY(x, CELLS * sizeof(x[0])), KILN_VALUE(by) };
    define(text, twin);
    kiln_kernel *kernel = kiln_test_get(service, "template=rich target=cpu");
    for (int way = 0; way < 2; way++) {
        for (int i = 0; i < ROWS; i++)
            count[i] = 1000;
        memset(out, 0, sizeof(out));
        found = (kiln_verification)KILN_INIT(kiln_verification);
        kiln_status status = way == 0 ? kiln_launch(kernel, NULL, sizes, 2, args, 4, NULL, &report)
                                      : kiln_verify(&found, service, kernel, NULL, sizes, 2, args, 4, NULL, &report);
        ck_assert_msg(status == KILN_OK, "%s", report.message);
        for (int i = 0; i < CELLS; i++)
            ck_assert(out[i] == by * x[i] || isnan(x[i]));
        for (int i = 0; i < ROWS; i++)
            ck_assert_int_eq(count[i], 1000 + i);
    }
    ck_assert(found.compared == CELLS + ROWS && found.wrong == 0);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_verify__bad_arguments)
{
    const uint64_t n = N;
    const kiln_arg args[] = { KILN_ARRAY(out, sizeof(out)), KILN_ARRAY(x, sizeof(x)) },
                   small[] = { KILN_ARRAY(out, sizeof(out) - 1), KILN_ARRAY(x, sizeof(x)) },
                   number[] = { KILN_VALUE(n), KILN_ARRAY(x, sizeof(x)) };
    kiln_kernel *kernel = kiln_test_get(service, "op=relu6 dtype=f32 target=cpu");
    kiln_options options = kiln_test_options();
    kiln_service *other = kiln_test_open(&options);
    kiln_grid grid = KILN_INIT(kiln_grid);
    const kiln_tolerance tolerances[] = { { sizeof(kiln_tolerance), -1, 0, 0 },
                                          { sizeof(kiln_tolerance), 0, NAN, 0 },
                                          { sizeof(kiln_tolerance), 0, 0, INFINITY },
                                          { 0, 1, 0, 0 } };
    const struct {
        kiln_tolerance base;
        double more;
    } newer = { { sizeof(newer), 1, 0, 0 }, 1 };
    memset(out, 7, sizeof(out));
    const struct {
        kiln_service *service;
        kiln_kernel *kernel;
        const kiln_grid *grid;
        const kiln_arg *args;
        size_t sizes, count;
        const kiln_tolerance *tolerance;
    } bad[] = { { NULL, kernel, NULL, args, 1, 2, NULL },
                { service, NULL, NULL, args, 1, 2, NULL },
                { service, kernel, &grid, args, 1, 2, NULL },
                { service, kernel, NULL, NULL, 1, 2, NULL },
                { service, kernel, NULL, args, 0, 2, NULL },
                { service, kernel, NULL, args, 1, 1, NULL },
                { service, kernel, NULL, args, 1, 2, &tolerances[0] },
                { service, kernel, NULL, args, 1, 2, &tolerances[1] },
                { service, kernel, NULL, small, 1, 2, NULL },
                { service, kernel, NULL, number, 1, 2, NULL },
                { service, kernel, NULL, args, 1, 2, &tolerances[2] },
                { service, kernel, NULL, args, 1, 2, &tolerances[3] },
                { service, kernel, NULL, args, 1, 2, &newer.base },
                { other, kernel, NULL, args, 1, 2, NULL } };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        kiln_status status = kiln_verify(NULL, bad[i].service, bad[i].kernel, bad[i].grid, &n, bad[i].sizes,
                                         bad[i].args, bad[i].count, bad[i].tolerance, &report);
        ck_assert_msg(status == KILN_EINVAL, "%zu: %s", i, kiln_status_name(status));
        ck_assert_str_ne(report.message, "");
    }
    for (size_t i = 0; i < sizeof(out); i++)
        ck_assert_int_eq(((const char *)out)[i], 7);
    kiln_close(other);
    kiln_kernel_release(kernel);
}
END_TEST

/* ---- Tolerances */

/* Its results are 3 units above x in the first launch, whose poison is negative, and x in the second one. */
#define DRIFTS(name, declared) \
    HEAD(name) declared "//! arg out out f32[max(n, 1)]\n//! arg x in f32[max(n, 1)]\n//! arg n uint64 = n\n"
#define DRIFTS_TWIN                                                                       \
    TWIN "        { int bits, before; __builtin_memcpy(&bits, x + i, 4);\n"               \
         "          __builtin_memcpy(&before, out + i, 4); bits += before < 0 ? 3 : 0;\n" \
         "          __builtin_memcpy(out + i, &bits, 4); }\n}\n"
#define UNIT 0x1p-23

static const struct {
    kiln_tolerance within, beyond;
    const char *words;
} tolerances[] = {
    { { sizeof(kiln_tolerance), 3, 0, 0 }, { sizeof(kiln_tolerance), 2.5, 0, 0 }, "ulp 2.5" },
    { { sizeof(kiln_tolerance), 0, 3 * UNIT, 0 }, { sizeof(kiln_tolerance), 0, 0.25 * UNIT, 0 }, "relative 2.98" },
    { { sizeof(kiln_tolerance), 0, 0, 3 * UNIT }, { sizeof(kiln_tolerance), 0, 0, 2 * UNIT }, "absolute 2.38" },
    { { sizeof(kiln_tolerance), 1, 1 * UNIT, 1 * UNIT },
      { sizeof(kiln_tolerance), 1, 0, 1.5 * UNIT },
      "ulp 1 absolute 1" },
};

/* Numbers from 1 to 1.25, with no bit so low that 3 units carry. */
static void fill_with_ones(void)
{
    for (int i = 0; i < N; i++)
        x[i] = 1 + (float)(i % 1024) * 0x1p-12f;
}

START_TEST(test_verify__a_tolerance_is_given)
{
    define(DRIFTS("drifts", ""), DRIFTS_TWIN);
    fill_with_ones();
    ck_assert_int_eq(verify_spec("template=drifts target=cpu", out, x, NULL), KILN_EMISMATCH);
    ck_assert(found.wrong == N && found.ulp == 0 && found.relative == 0 && found.absolute == 0);
    ck_assert_ptr_nonnull(strstr(report.message, "70001 elements differ, the first is element 0 of out"));
    kiln_status status = verify_spec("template=drifts target=cpu", out, x, &tolerances[_i].within);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert(found.compared == N && found.wrong == 0 && found.ulp == tolerances[_i].within.ulp);
    ck_assert(found.relative == tolerances[_i].within.relative && found.absolute == tolerances[_i].within.absolute);
    ck_assert_int_eq(verify_spec("template=drifts target=cpu", out, x, &tolerances[_i].beyond), KILN_EMISMATCH);
    ck_assert(found.wrong == N && found.ulp == tolerances[_i].beyond.ulp);
    ck_assert_msg(strstr(report.message, tolerances[_i].words) != NULL, "%s", report.message);
    ck_assert_ptr_nonnull(strstr(report.message, "elements differ by more than the tolerance ("));
}
END_TEST

/* What a host gives goes before what a template declares. */
START_TEST(test_verify__a_tolerance_is_declared)
{
    const kiln_tolerance none = KILN_INIT(kiln_tolerance);
    define(DRIFTS("three", "//! tolerance absolute 0 ulp 3\n"), DRIFTS_TWIN);
    define(DRIFTS("two", "//! tolerance ulp 2\n"), DRIFTS_TWIN);
    fill_with_ones();
    kiln_status status = verify_spec("template=three target=cpu", out, x, NULL);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert(found.wrong == 0 && found.ulp == 3 && found.relative == 0 && found.absolute == 0);
    ck_assert_int_eq(verify_spec("template=three target=cpu", out, x, &none), KILN_EMISMATCH);
    ck_assert(found.wrong == N && found.ulp == 0);
    ck_assert_int_eq(verify_spec("template=three target=cpu", out, x, &tolerances[2].beyond), KILN_EMISMATCH);
    ck_assert_int_eq(verify_spec("template=two target=cpu", out, x, NULL), KILN_EMISMATCH);
    ck_assert_ptr_nonnull(
        strstr(report.message, "70001 elements differ by more than the tolerance (ulp 2), the first"));
    ck_assert_int_eq(verify_spec("template=two target=cpu", out, x, &tolerances[0].within), KILN_OK);
}
END_TEST

START_TEST(test_verify__whole_numbers_are_equal)
{
    static const char twin[] = TWIN "        ((int *)out)[i] = (int)i + (((int *)out)[i] < 0);\n}\n";
    const kiln_tolerance all = { sizeof(all), 1e9, 1e9, 1e9 };
    define(HEAD("whole") "//! tolerance ulp 9 absolute 9\n//! arg out out int32[max(n, 1)]\n"
                         "//! arg x in f32[max(n, 1)]\n//! arg n uint64 = n\n",
           twin);
    for (int way = 0; way < 2; way++) {
        ck_assert_int_eq(verify_spec("template=whole target=cpu", out, x, way == 0 ? NULL : &all), KILN_EMISMATCH);
        ck_assert(found.wrong == N && found.ulp == 0 && found.relative == 0 && found.absolute == 0);
        ck_assert_ptr_null(strstr(report.message, "tolerance"));
    }
}
END_TEST

/* ---- On a GPU */

static float *gpu_out, *gpu_x;
static kiln_device *device;

/* False: there is no NVRTC. */
static bool open_gpu(void)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_close(service);
    kiln_fake_open()->configure("relu6=1");
    service = kiln_test_open(&options);
    if (kiln_test_ask(service, "op=relu6 dtype=f32", &report) == KILN_ENOCOMPILER) {
        printf("   left out: there is no NVRTC\n");
        return false;
    }
    ck_assert_int_eq(kiln_device_open(&device, service, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_alloc((void **)&gpu_out, device, sizeof(out), NULL), KILN_OK);
    ck_assert_int_eq(kiln_alloc((void **)&gpu_x, device, sizeof(x), NULL), KILN_OK);
    ck_assert_int_eq(kiln_upload(device, gpu_x, x, sizeof(x), NULL), KILN_OK);
    return true;
}

static void free_arrays(void)
{
    kiln_free(device, gpu_out);
    kiln_free(device, gpu_x);
}

START_TEST(test_verify__a_gpu_is_compared_with_the_cpu)
{
    if (!open_gpu())
        return;
    ck_assert_msg(verify_spec("op=relu6 dtype=f32", gpu_out, gpu_x, NULL) == KILN_OK, "%s", report.message);
    ck_assert_str_eq(found.against, "the cpu backend");
    ck_assert_int_eq(verify_spec("op=hardtanh dtype=f32", gpu_out, gpu_x, NULL), KILN_EMISMATCH);
    uint64_t wrong = 0, first = N;
    for (int i = N; i-- > 0;) {
        float right = x[i] < -1 ? -1 : x[i] > 1 ? 1 : x[i], got = relu6_of(x[i]);
        bool differs = !isnan(x[i]) && memcmp(&right, &got, sizeof(got)) != 0;
        wrong += differs;
        first = differs ? (uint64_t)i : first;
    }
    ck_assert(found.wrong == wrong && found.first == first && found.argument == 0 && found.compared == N);
    ck_assert_int_eq(kiln_download(device, out, gpu_out, sizeof(out), NULL), KILN_OK);
    ck_assert(out[0] == relu6_of(x[0]) && out[N - 1] == relu6_of(x[N - 1]));
    free_arrays();
}
END_TEST

/* relu6, as the stand-in driver computes it, differs from relu6(log(exp(x))) by the errors of the two functions. */
START_TEST(test_verify__within_the_bounds_of_functions)
{
    if (!open_gpu())
        return;
    ck_assert_int_eq(kiln_op_define(service, "close(x) = min(max(log(exp(x)), 0), 6)", NULL), KILN_OK);
    ck_assert_msg(verify_spec("op=close dtype=f32", gpu_out, gpu_x, NULL) == KILN_OK, "%s", report.message);
    ck_assert(found.compared == N && found.wrong == 0 && found.bounded == 1);
    ck_assert_int_eq(verify_spec("op=close dtype=f32 math=portable", gpu_out, gpu_x, NULL), KILN_EMISMATCH);
    ck_assert(found.wrong > 100 && found.bounded == 0);
    ck_assert_int_eq(verify_spec("op=exp dtype=f32", gpu_out, gpu_x, NULL), KILN_EMISMATCH);
    ck_assert(found.wrong > 1000 && found.bounded == 1);
    ck_assert_ptr_nonnull(strstr(report.message, "differ by more than the functions of the op may, the first is"));
    ck_assert_msg(verify_spec("op=close dtype=f32 target=cpu", out, x, NULL) == KILN_OK, "%s", report.message);
    ck_assert_int_eq(found.bounded, 0);
    free_arrays();
}
END_TEST

START_TEST(test_verify__within_a_tolerance)
{
    if (!open_gpu())
        return;
    const kiln_tolerance four = { .size = sizeof(four), .ulp = 4 };
    ck_assert_int_eq(kiln_op_define(service, "near(x) = min(max(x, 0), 6) * 1.0000002 within 1 ulp of x * 2", NULL),
                     KILN_OK);
    ck_assert_int_eq(verify_spec("op=near dtype=f32", gpu_out, gpu_x, NULL), KILN_EMISMATCH);
    ck_assert_uint_gt(found.wrong, 1000);
    ck_assert_int_eq(verify_spec("op=near dtype=f32", gpu_out, gpu_x, &four), KILN_EMISMATCH);
    ck_assert(found.wrong == 0 && found.bound == 1 && found.worst > 1 && found.ulp == 4);
    ck_assert_ptr_nonnull(strstr(report.message, "the definition allows 1"));
    free_arrays();
}
END_TEST

START_TEST(test_verify__a_function_of_a_source)
{
    static const char text[] =
        "extern \"C\" __global__ void f(float *out, const float *x, unsigned long long n)\n"
        "{ unsigned long long i = blockIdx.x * 256ull + threadIdx.x; if (i < n) out[i] = x[i]; }\n";
    uint64_t n = N;
    kiln_grid grid = KILN_INIT(kiln_grid);
    kiln_source source = KILN_INIT(kiln_source);
    kiln_request request = KILN_INIT(kiln_request);
    kiln_program *program = NULL;
    kiln_kernel *kernel = NULL;
    if (!open_gpu())
        return;
    source.text = text;
    request.source = &source;
    ck_assert_int_eq(kiln_get(&program, service, &request, &report), KILN_OK);
    ck_assert_int_eq(kiln_program_kernel(&kernel, program, "f", &report), KILN_OK);
    const kiln_arg args[] = { KILN_ARRAY(gpu_out, sizeof(out)), KILN_ARRAY(gpu_x, sizeof(x)), KILN_VALUE(n) };
    grid.grid[0] = (N + 255) / 256;
    grid.block[0] = 256;
    found = (kiln_verification)KILN_INIT(kiln_verification);
    kiln_status status = kiln_verify(&found, service, kernel, &grid, NULL, 0, args, 3, NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_str_eq(found.against, "a second launch");
    ck_assert_uint_eq(found.compared, 2 * sizeof(out));
    ck_assert_int_eq(kiln_verify(&found, service, kernel, NULL, NULL, 0, args, 3, NULL, &report), KILN_EINVAL);
    kiln_kernel_release(kernel);
    kiln_program_release(program);
    free_arrays();
}
END_TEST

Suite *kiln_test_tune_verify_suite(void)
{
    Suite *suite = suite_create("verify");
    TCase *tcase = tcase_create("verify");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_service, close_service);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_verify__a_right_kernel);
    tcase_add_test(tcase, test_verify__in_place);
    tcase_add_test(tcase, test_verify__no_elements);
    tcase_add_test(tcase, test_verify__an_element_that_is_not_written);
    tcase_add_test(tcase, test_verify__what_is_read_and_written);
    tcase_add_test(tcase, test_verify__takes_what_a_launch_takes);
    tcase_add_test(tcase, test_verify__bad_arguments);
    tcase_add_loop_test(tcase, test_verify__a_tolerance_is_given, 0, sizeof(tolerances) / sizeof(tolerances[0]));
    tcase_add_test(tcase, test_verify__a_tolerance_is_declared);
    tcase_add_test(tcase, test_verify__whole_numbers_are_equal);
    tcase_add_test(tcase, test_verify__a_gpu_is_compared_with_the_cpu);
    tcase_add_test(tcase, test_verify__within_the_bounds_of_functions);
    tcase_add_test(tcase, test_verify__within_a_tolerance);
    tcase_add_test(tcase, test_verify__a_function_of_a_source);
    suite_add_tcase(suite, tcase);
    return suite;
}
