/* The template compare, on the cpu: the number of wrong elements, the first of them, and the rule of tolerances, which
 * is that of kiln__tolerance_agrees. */
#include "spec/tolerance.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <float.h>
#include <kiln/kernel.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

enum { N = 100003, ROOM = N + 8 };

static kiln_service *service;
static kiln_kernel *kernel;
static kiln__dtype type;
static kiln_tolerance bounds;

static void open_for(const char *dtype)
{
    char text[96];
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    snprintf(text, sizeof(text), "template=compare dtype=%s target=cpu", dtype);
    kernel = kiln_test_get(service, text);
    type = kiln__dtype_parse(dtype, strlen(dtype));
    bounds = (kiln_tolerance)KILN_INIT(kiln_tolerance);
}

static void close_all(void)
{
    kiln_kernel_release(kernel);
    kiln_close(service);
}

static kiln_status launch(uint64_t n, void *found, const void *x, const void *y, kiln_report *report)
{
    const uint64_t bytes = n * kiln__dtype_bytes(type);
    const kiln_arg args[] = { KILN_ARRAY(found, 16),  KILN_ARRAY(x, bytes),        KILN_ARRAY(y, bytes),
                              KILN_VALUE(bounds.ulp), KILN_VALUE(bounds.relative), KILN_VALUE(bounds.absolute) };
    return kiln_launch(kernel, NULL, &n, 1, args, COUNT(args), NULL, report);
}

static uint64_t count_wrong(const void *x, const void *y, uint64_t n, uint64_t *first)
{
    uint64_t found[2] = { 0, UINT64_MAX };
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(launch(n, found, x, y, &report) == KILN_OK, "%s", report.message);
    *first = found[1];
    return found[0];
}

START_TEST(test_compare__finds_each_difference_and_the_first)
{
    static float x[ROOM], y[ROOM];
    uint64_t first;
    open_for("f32");
    bounds.absolute = _i * 0.5;
    for (int i = 0; i < ROOM; i++)
        x[i] = y[i] = (float)i - 5000;
    ck_assert_uint_eq(count_wrong(x, y, N, &first), 0);
    ck_assert_uint_eq(first, UINT64_MAX);
    y[N] = 0; /* behind the last element that is looked at */
    ck_assert_uint_eq(count_wrong(x, y, N, &first), 0);
    static const int places[] = { N - 1, 65536, 65537, 4099, 0 };
    for (uint64_t i = 0; i < COUNT(places); i++) {
        y[places[i]] += 1;
        ck_assert_uint_eq(count_wrong(x, y, N, &first), i + 1);
        ck_assert_uint_eq(first, places[i] == 65537 ? 65536 : (uint64_t)places[i]);
    }
    ck_assert_uint_eq(count_wrong(x, y, 1, &first), 1);
    for (int i = 0; i < N; i++)
        y[i] = x[i] + 1000;
    ck_assert_uint_eq(count_wrong(x, y, N, &first), N);
    ck_assert_uint_eq(first, 0);
    bounds.absolute = 1000;
    ck_assert_uint_eq(count_wrong(x, y, N, &first), 0);
    ck_assert_uint_eq(first, UINT64_MAX);
    close_all();
}
END_TEST

START_TEST(test_compare__adds_to_what_is_there)
{
    static float x[64], y[64];
    uint64_t found[2] = { 40, 3 };
    open_for("f32");
    y[7] = y[9] = 1;
    ck_assert_int_eq(launch(64, found, x, y, NULL), KILN_OK);
    ck_assert_uint_eq(found[0], 42);
    ck_assert_uint_eq(found[1], 3);
    close_all();
}
END_TEST

/* All values of a 16-bit type against themselves, then with the sign of zero and the payload of a NaN changed. */
START_TEST(test_compare__knows_zeros_and_nans)
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
    ck_assert_uint_eq(count_wrong(x, y, 65536, &first), 0);
    y[0] = 0x8000;
    ck_assert_uint_eq(count_wrong(x, y, 65536, &first), 1);
    ck_assert_uint_eq(first, 0);
    y[0] = 0;
    y[types[_i].infinity + 1] = (uint16_t)(types[_i].infinity + 2) | 0x8000; /* a NaN and another */
    ck_assert_uint_eq(count_wrong(x, y, 65536, &first), 0);
    y[types[_i].infinity + 1] = types[_i].infinity;
    ck_assert_uint_eq(count_wrong(x, y, 65536, &first), 1);
    ck_assert_uint_eq(first, types[_i].infinity + 1u);
    y[types[_i].infinity + 1] = x[types[_i].infinity + 1];
    y[1] = 2; /* subnormal */
    ck_assert_uint_eq(count_wrong(x, y, 65536, &first), 1);
    close_all();
}
END_TEST

/* ---- The rule of tolerances, in each dtype */

/* Writes the number whose bits are the low ones of `bits`. */
static void put_bits(void *array, uint64_t i, uint64_t bits)
{
    const size_t size = kiln__dtype_bytes(type);
    memcpy((char *)array + i * size, &bits, size);
}

static uint64_t bits_of(double value)
{
    static const int fractions[] = { [KILN__DTYPE_F16] = 10, [KILN__DTYPE_BF16] = 7 };
    static const int biases[] = { [KILN__DTYPE_F16] = 15, [KILN__DTYPE_BF16] = 127 };
    float single = (float)value;
    uint64_t bits = 0;
    int exponent;
    if (type == KILN__DTYPE_F64)
        memcpy(&bits, &value, sizeof(value));
    else if (type == KILN__DTYPE_F32)
        memcpy(&bits, &single, sizeof(single));
    else if (value != 0) /* normal powers of two */
        bits = (uint64_t)((ilogb(value) + biases[type]) << fractions[type]) | (value < 0 ? 0x8000 : 0);
    ck_assert(type <= KILN__DTYPE_F32 || type == KILN__DTYPE_F64 || value == 0 || fabs(frexp(value, &exponent)) == 0.5);
    return bits;
}

/* Whether one element agrees, for the kernel and for the host, which must be of one mind. */
static bool agree(uint64_t got, uint64_t want)
{
    uint64_t first, x = 0, y = 0;
    put_bits(&x, 0, got);
    put_bits(&y, 0, want);
    bool here = got == want ||
                kiln__tolerance_agrees(&bounds, kiln__dtype_value(&x, 0, type), kiln__dtype_value(&y, 0, type), type);
    bool there = count_wrong(&x, &y, 1, &first) == 0;
    ck_assert_msg(here == there, "%#llx and %#llx with ulp %g relative %g absolute %g", (unsigned long long)got,
                  (unsigned long long)want, bounds.ulp, bounds.relative, bounds.absolute);
    return here;
}

static void set_bounds(double ulp, double relative, double absolute)
{
    bounds.ulp = ulp;
    bounds.relative = relative;
    bounds.absolute = absolute;
}

static const struct {
    const char *dtype;
    int fraction;
    uint64_t infinity;
} formats[] = { { "f32", 23, UINT64_C(0x7f800000) },
                { "f64", 52, UINT64_C(0x7ff0000000000000) },
                { "f16", 10, UINT64_C(0x7c00) },
                { "bf16", 7, UINT64_C(0x7f80) } };

START_TEST(test_compare__units_of_the_last_place)
{
    open_for(formats[_i].dtype);
    const uint64_t one = bits_of(1), infinity = formats[_i].infinity,
                   sign = infinity + (UINT64_C(1) << formats[_i].fraction);
    set_bounds(3, 0, 0);
    ck_assert(agree(one + 3, one) && !agree(one + 4, one));
    ck_assert(agree((one + 3) | sign, one | sign) && !agree((one + 4) | sign, one | sign));
    ck_assert(!agree(one | sign, one));
    ck_assert(agree(one - 6, one) && !agree(one - 7, one));    /* half the unit below a power of two */
    ck_assert(agree(one, one - 1) && agree(one + 1, one - 1)); /* 1 and 3 units of 1 - unit */
    ck_assert(!agree(one + 2, one - 1));                       /* 5 */
    ck_assert(agree(3, 0) && !agree(4, 0));                    /* subnormal */
    ck_assert(agree(1 | sign, 2) && !agree(2 | sign, 2));      /* across zero: 3 and 4 units */
    ck_assert(agree(9, 12) && !agree(8, 12));
    const uint64_t normal = UINT64_C(1) << formats[_i].fraction; /* the least one */
    ck_assert(agree(normal - 3, normal) && !agree(normal - 4, normal));
    ck_assert(agree(infinity - 4, infinity - 1) && !agree(infinity - 5, infinity - 1)); /* the largest */
    set_bounds(0.5, 0, 0);
    ck_assert(!agree(one + 1, one) && agree(one - 1, one) && !agree(1, 0));
    close_all();
}
END_TEST

START_TEST(test_compare__relative_and_absolute_bounds)
{
    open_for(formats[_i].dtype);
    const double unit = ldexp(1, -formats[_i].fraction);
    const uint64_t one = bits_of(1), four = bits_of(4), infinity = formats[_i].infinity;
    set_bounds(0, 3 * unit, 0);
    ck_assert(agree(one + 3, one) && !agree(one + 4, one) && agree(four - 6, four) && !agree(four - 7, four));
    ck_assert(!agree(1, 0)); /* nothing of nothing */
    bounds.relative = nextafter(bounds.relative, 0);
    ck_assert(!agree(one + 3, one) && agree(one + 2, one));
    set_bounds(0, 0, 3 * unit);
    ck_assert(agree(one + 3, one) && !agree(one + 4, one) && agree(one - 6, one) && !agree(one - 7, one));
    ck_assert(!agree(four + 1, four) && agree(bits_of(2 * unit), 0) && !agree(bits_of(4 * unit), 0));
    bounds.absolute = nextafter(bounds.absolute, 0);
    ck_assert(!agree(one + 3, one) && agree(one + 2, one));
    set_bounds(1, 2 * unit, 3 * unit); /* 6 units of 1, of 4 less than 4 */
    ck_assert(agree(one + 6, one) && !agree(one + 7, one));
    ck_assert(agree(four + 3, four) && !agree(four + 4, four));
    set_bounds(1e300, 1e300, DBL_MAX); /* all numbers, and no infinity */
    ck_assert(agree(infinity - 1, 1) && !agree(infinity, infinity - 1) && !agree(infinity - 1, infinity));
    close_all();
}
END_TEST

START_TEST(test_compare__special_values_within_a_tolerance)
{
    static const double some[][3] = {
        { 4, 0, 0 }, { 0, 0.5, 0 }, { 0, 0, 0.5 }, { 0, 0, 1e-320 }, { 1e300, 1e300, 1e300 }
    };
    open_for(formats[_i].dtype);
    const uint64_t one = bits_of(1), infinity = formats[_i].infinity, nan = infinity + 1,
                   sign = infinity + (UINT64_C(1) << formats[_i].fraction);
    for (int i = 0; i < COUNT(some); i++) {
        set_bounds(some[i][0], some[i][1], some[i][2]);
        ck_assert(agree(nan, nan + 1) && agree(nan, nan | sign) && !agree(nan, one) && !agree(one, nan));
        ck_assert(!agree(nan, infinity) && !agree(infinity, nan));
        ck_assert(agree(infinity, infinity) && !agree(infinity, infinity | sign));
        ck_assert(!agree(infinity, one) && !agree(one, infinity) && !agree(one, infinity | sign));
        ck_assert(!agree(infinity, infinity - 1) && !agree(infinity - 1, infinity));
        ck_assert(agree(0, sign) && agree(sign, 0));
    }
    set_bounds(0, 0, 0);
    ck_assert(!agree(0, sign) && agree(nan, nan | sign) && !agree(1, 2) && !agree(infinity, infinity | sign));
    close_all();
}
END_TEST

/* Bits at random, near and far: the kernel counts the elements that the host refuses. */
START_TEST(test_compare__has_the_rule_of_the_host)
{
    static const double some[][3] = { { 0, 0, 0 },        { 4, 0, 0 },        { 0.75, 0, 0 },        { 0, 1e-3, 0 },
                                      { 0, 0, 1e-3 },     { 0, 0, 1e-300 },   { 2, 1e-6, 1e-7 },     { 1e300, 0, 0 },
                                      { 0, 1e300, 1e30 }, { 0, 2.5, 5e-324 }, { 100, 1e-310, 1e-40 } };
    static uint64_t x[5000], y[5000];
    uint64_t state = 88172645463325252;
    int refused = 0, accepted = 0;
    open_for(formats[_i].dtype);
    for (uint64_t i = 0; i < 5000; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        uint64_t bits = state >> (64 - 8 * kiln__dtype_bytes(type));
        put_bits(x, i, bits);
        put_bits(y, i, i % 4 == 0 ? state : i % 4 == 1 ? bits ^ (state >> 11 & 15) : bits + (state >> 20 & 7));
    }
    for (int b = 0; b < COUNT(some); b++) {
        uint64_t wrong = 0, least = UINT64_MAX, first;
        set_bounds(some[b][0], some[b][1], some[b][2]);
        for (uint64_t i = 5000; i-- > 0;)
            if (!kiln__tolerance_agrees(&bounds, kiln__dtype_value(x, i, type), kiln__dtype_value(y, i, type), type)) {
                wrong++;
                least = i;
            }
        ck_assert_uint_eq(count_wrong(x, y, 5000, &first), wrong);
        ck_assert_uint_eq(first, least);
        refused += wrong > 0;
        accepted += wrong < 4000;
    }
    ck_assert(refused >= 4 && accepted >= 4); /* else the bounds tell nothing apart */
    close_all();
}
END_TEST

START_TEST(test_compare__refuses_an_output_that_cannot_be)
{
    static float x[64], y[64];
    static uint64_t found[3];
    const uint64_t n = 64;
    const kiln_arg shorter[] = { KILN_ARRAY(found, 8),   KILN_ARRAY(x, sizeof(x)),    KILN_ARRAY(y, sizeof(y)),
                                 KILN_VALUE(bounds.ulp), KILN_VALUE(bounds.relative), KILN_VALUE(bounds.absolute) };
    const void *const in[2] = { x, y };
    kiln_report report = KILN_INIT(kiln_report);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    open_for("f32");
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    ck_assert_uint_eq(info.signature->param_count, 7);
    ck_assert_int_eq(info.signature->params[0]->role, KILN_ROLE_INOUT);
    ck_assert_str_eq(info.signature->params[0]->shape[0], "2");
    ck_assert_int_eq(info.signature->params[4]->role, KILN_ROLE_SCALAR);
    ck_assert_str_eq(info.signature->params[4]->type, "f64");
    ck_assert_int_eq(launch(n, (char *)found + 4, x, y, &report), KILN_EALIGN);
    ck_assert_msg(strstr(report.message, "8 bytes") != NULL, "%s", report.message);
    ck_assert_int_eq(launch(n, x, x, y, &report), KILN_EOVERLAP);
    ck_assert_int_eq(launch(n, x + 62, x, y, &report), KILN_EOVERLAP);
    ck_assert_int_eq(kiln_launch(kernel, NULL, &n, 1, shorter, COUNT(shorter), NULL, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln_test_launch(kernel, n, found, in, NULL, &report), KILN_EINVAL);
    ck_assert_msg(strstr(report.message, "launch it by its sizes and args") != NULL, "%s", report.message);
    close_all();
}
END_TEST

START_TEST(test_compare__compiles_for_each_dtype)
{
    static const char *const targets[] = { "sm_75", "sm_80", "sm_90", "sm_100", "sm_121" };
    char text[96];
    kiln_options options = kiln_test_options();
    kiln_report report = KILN_INIT(kiln_report);
    service = kiln_test_open(&options);
    for (int i = 0; i < COUNT(formats) * COUNT(targets); i++) {
        kiln_program *program = NULL;
        snprintf(text, sizeof(text), "template=compare dtype=%s target=%s", formats[i % COUNT(formats)].dtype,
                 targets[i / COUNT(formats)]);
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

Suite *kiln_test_kernel_templates_compare_suite(void)
{
    Suite *suite = suite_create("compare");
    TCase *tcase = tcase_create("compare");
    kiln_test_temp_use(tcase);
    tcase_add_loop_test(tcase, test_compare__finds_each_difference_and_the_first, 0, 2);
    tcase_add_test(tcase, test_compare__adds_to_what_is_there);
    tcase_add_loop_test(tcase, test_compare__knows_zeros_and_nans, 0, 2);
    tcase_add_loop_test(tcase, test_compare__units_of_the_last_place, 0, COUNT(formats));
    tcase_add_loop_test(tcase, test_compare__relative_and_absolute_bounds, 0, COUNT(formats));
    tcase_add_loop_test(tcase, test_compare__special_values_within_a_tolerance, 0, COUNT(formats));
    tcase_add_loop_test(tcase, test_compare__has_the_rule_of_the_host, 0, COUNT(formats));
    tcase_add_test(tcase, test_compare__refuses_an_output_that_cannot_be);
    tcase_add_test(tcase, test_compare__compiles_for_each_dtype);
    suite_add_tcase(suite, tcase);
    return suite;
}
