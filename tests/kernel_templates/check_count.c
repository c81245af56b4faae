/* The template count, on the cpu: how many elements an op finds, and the first of them. */
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <stdio.h>
#include <string.h>

enum { N = 100003, ROOM = N + 8 };

static kiln_service *service;
static kiln_kernel *kernel;
static size_t element; /* bytes */

static void open_for(const char *dtype)
{
    char text[96];
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    snprintf(text, sizeof(text), "template=count op=differs(x,y) dtype=%s target=cpu", dtype);
    kernel = kiln_test_get(service, text);
    element = strcmp(dtype, "f32") == 0 ? 4 : 2;
}

static void close_all(void)
{
    kiln_kernel_release(kernel);
    kiln_close(service);
}

static kiln_status launch(uint64_t n, void *out, const void *x, const void *y, kiln_report *report)
{
    const kiln_arg args[] = { KILN_ARRAY(out, 16), KILN_ARRAY(x, n * element), KILN_ARRAY(y, n * element) };
    return kiln_launch(kernel, NULL, &n, 1, args, 3, NULL, report);
}

static uint64_t count(const void *x, const void *y, uint64_t n, uint64_t *first)
{
    uint64_t out[2] = { 0, UINT64_MAX };
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(launch(n, out, x, y, &report) == KILN_OK, "%s", report.message);
    *first = out[1];
    return out[0];
}

START_TEST(test_count__finds_each_difference_and_the_first)
{
    static float x[ROOM], y[ROOM];
    uint64_t first;
    open_for("f32");
    for (int i = 0; i < ROOM; i++)
        x[i] = y[i] = (float)i - 5000;
    ck_assert_uint_eq(count(x, y, N, &first), 0);
    ck_assert_uint_eq(first, UINT64_MAX);
    y[N] = 0; /* behind the last element that is looked at */
    ck_assert_uint_eq(count(x, y, N, &first), 0);
    static const int places[] = { N - 1, 65536, 65537, 4099, 0 };
    for (uint64_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        y[places[i]] += 1;
        ck_assert_uint_eq(count(x, y, N, &first), i + 1);
        ck_assert_uint_eq(first, places[i] == 65537 ? 65536 : (uint64_t)places[i]);
    }
    ck_assert_uint_eq(count(x, y, 1, &first), 1);
    for (int i = 0; i < N; i++)
        y[i] = x[i] + 1000;
    ck_assert_uint_eq(count(x, y, N, &first), N);
    ck_assert_uint_eq(first, 0);
    close_all();
}
END_TEST

START_TEST(test_count__adds_to_what_is_there)
{
    static float x[64], y[64];
    uint64_t out[2] = { 40, 3 };
    open_for("f32");
    y[7] = y[9] = 1;
    ck_assert_int_eq(launch(64, out, x, y, NULL), KILN_OK);
    ck_assert_uint_eq(out[0], 42);
    ck_assert_uint_eq(out[1], 3);
    close_all();
}
END_TEST

/* All values of a 16-bit type against themselves, then with the sign of zero and the payload of a NaN changed. */
START_TEST(test_count__knows_zeros_and_nans)
{
    static const struct {
        const char *dtype;
        uint16_t infinity;
    } types[] = { { "f16", 0x7c00 }, { "bf16", 0x7f80 } };
    static uint16_t x[65536], y[65536];
    uint64_t first;
    open_for(types[_i].dtype);
    for (int i = 0; i < 65536; i++)
        x[i] = y[i] = (uint16_t)i;
    ck_assert_uint_eq(count(x, y, 65536, &first), 0);
    y[0] = 0x8000;
    ck_assert_uint_eq(count(x, y, 65536, &first), 1);
    ck_assert_uint_eq(first, 0);
    y[0] = 0;
    y[types[_i].infinity + 1] = (uint16_t)(types[_i].infinity + 2) | 0x8000; /* a NaN and another */
    ck_assert_uint_eq(count(x, y, 65536, &first), 0);
    y[types[_i].infinity + 1] = types[_i].infinity;
    ck_assert_uint_eq(count(x, y, 65536, &first), 1);
    ck_assert_uint_eq(first, types[_i].infinity + 1u);
    y[types[_i].infinity + 1] = x[types[_i].infinity + 1];
    y[1] = 2; /* subnormal */
    ck_assert_uint_eq(count(x, y, 65536, &first), 1);
    close_all();
}
END_TEST

START_TEST(test_count__refuses_an_output_that_cannot_be)
{
    static float x[64], y[64];
    static uint64_t out[3];
    const uint64_t n = 64;
    const kiln_arg shorter[] = { KILN_ARRAY(out, 8), KILN_ARRAY(x, sizeof(x)), KILN_ARRAY(y, sizeof(y)) };
    const void *const in[2] = { x, y };
    kiln_report report = KILN_INIT(kiln_report);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    open_for("f32");
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    ck_assert_uint_eq(info.signature->param_count, 4);
    ck_assert_int_eq(info.signature->params[0]->role, KILN_ROLE_INOUT);
    ck_assert_str_eq(info.signature->params[0]->shape[0], "2");
    ck_assert_int_eq(launch(n, (char *)out + 4, x, y, &report), KILN_EALIGN);
    ck_assert_msg(strstr(report.message, "8 bytes") != NULL, "%s", report.message);
    ck_assert_int_eq(launch(n, x, x, y, &report), KILN_EOVERLAP);
    ck_assert_int_eq(launch(n, x + 62, x, y, &report), KILN_EOVERLAP);
    ck_assert_int_eq(kiln_launch(kernel, NULL, &n, 1, shorter, 3, NULL, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln_test_launch(kernel, n, out, in, NULL, &report), KILN_EINVAL);
    ck_assert_msg(strstr(report.message, "launch it by its sizes and args") != NULL, "%s", report.message);
    close_all();
}
END_TEST

START_TEST(test_count__compiles_for_each_dtype)
{
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
    static const char *const targets[] = { "sm_75", "sm_90", "sm_121" };
    char text[96];
    kiln_options options = kiln_test_options();
    kiln_report report = KILN_INIT(kiln_report);
    service = kiln_test_open(&options);
    for (int i = 0; i < 12; i++) {
        kiln_program *program = NULL;
        snprintf(text, sizeof(text), "template=count op=differs(x,y) dtype=%s target=%s", dtypes[i % 4],
                 targets[i / 4]);
        kiln_spec *spec = kiln_test_spec(service, text);
        kiln_status status = kiln_test_build_spec(&program, service, spec, &report);
        ck_assert_msg(status == KILN_OK || status == KILN_ENOCOMPILER, "%s: %s", text, report.message);
        kiln_program_release(program);
        kiln_spec_free(spec);
    }
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_kernel_templates_count_suite(void)
{
    Suite *suite = suite_create("count");
    TCase *tcase = tcase_create("count");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_count__finds_each_difference_and_the_first);
    tcase_add_test(tcase, test_count__adds_to_what_is_there);
    tcase_add_loop_test(tcase, test_count__knows_zeros_and_nans, 0, 2);
    tcase_add_test(tcase, test_count__refuses_an_output_that_cannot_be);
    tcase_add_test(tcase, test_count__compiles_for_each_dtype);
    suite_add_tcase(suite, tcase);
    return suite;
}
