#include "spec/bound.h"
#include "support/fields.h"
#include "support/suites.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static kiln__catalog catalog;

static void set_up(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
    ck_assert_int_eq(kiln__op_define(&catalog.ops, "step(x) = exp(x) > 1 ? 100 : 0", NULL), KILN_OK);
    ck_assert_int_eq(kiln__op_define(&catalog.ops, "either(x) = !(exp(x) > 1 && x < 5) || x > 7", NULL), KILN_OK);
    ck_assert_int_eq(kiln__op_define(&catalog.ops, "whole(x) = floor(exp(x))", NULL), KILN_OK);
}

static void tear_down(void)
{
    kiln__catalog_fini(&catalog);
}

/* Whether `got` agrees with `want` at an input, and another result does not. */
static const struct {
    const char *spec;
    double x, want, near, far;
} cases[] = {
    { "op=exp dtype=f32", 0, 1, 1 + 4 * 0x1p-23, 1 + 6 * 0x1p-23 },
    { "op=exp dtype=f64", 0, 1, 1 + 4 * 0x1p-52, 1 + 6 * 0x1p-52 },
    { "op=exp dtype=f16", 0, 1, 1 + 0x1p-10, 1 + 3 * 0x1p-10 },
    { "op=exp dtype=bf16", 0, 1, 1 + 0x1p-7, 1 + 3 * 0x1p-7 },
    /* The step of an argument counts by the slope there: 20 e^20 and a unit of 20. */
    { "op=exp(log(x)) dtype=f32", 1024, 1024, 1024 + 16 * 0x1p-13, 1024 + 64 * 0x1p-13 },
    { "op=mul(exp(x),x) dtype=f32", 1, 2.7182818284590452, 2.718282, 2.71829 },
    /* 1 + erf cancels: far below 0 gelu has few right digits, above 0 all. */
    { "op=gelu dtype=f32", -5, -1.4332e-6, -1.8e-6, -3e-6 },
    { "op=gelu dtype=f32", 5, 4.9999986, 4.9999995, 5.00002 },
    { "op=lgamma dtype=f32", 2, 0, 1e-6, 1e-5 },
    { "op=sigmoid dtype=f32", 0, 0.5, 0.5000001, 0.500001 },
    { "op=tanhshrink dtype=f16", 1, 0.23843, 0.2389, 0.2405 },
    { "op=softplus dtype=f32", 30, 30, 30 + 0x1p-19, 30.001 },
    /* A branch that either device may take, and one that both do. */
    { "op=step dtype=f32", 1e-8, 100, 0, 300 },
    { "op=step dtype=f32", 1, 100, 100, 0 },
    { "op=either dtype=f32", 1e-8, 0, 1, 2 },
    { "op=whole dtype=f32", 0, 1, 0, 3 },
    { "op=whole dtype=f32", 1, 2, 2, 1 },
    { "op=exp dtype=f32", -200, 0, 0x1p-149, 1e-40 },
    /* 2^31 - 1 is 2^31 as a float. */
    { "op=tan dtype=i32", 2147483647, -4.08428955078125, -4.084287643432617, -4.084281921386719 },
    /* CUDA's fast functions in float32: their bounds are wider, and div and sqrt have one. */
    { "op=exp dtype=f32 math=fast", 0, 1, 1 + 4 * 0x1p-23, 1 + 6 * 0x1p-23 },
    { "op=exp dtype=f32 math=fast", 20, 485165195.40979, 485165195.40979 + 27 * 0x1p5, 485165195.40979 + 29 * 0x1p5 },
    { "op=exp dtype=f32 math=fast", -200, 0, 100 * 0x1p-149, 1e-40 },
    { "op=exp dtype=f16 math=fast", 0, 1, 1 + 0x1p-10, 1 + 3 * 0x1p-10 },
    { "op=exp dtype=f64 math=fast", 20, 485165195.40979, 485165195.40979 + 4 * 0x1p-24, 485165195.40979 + 6 * 0x1p-24 },
    { "op=tanh dtype=f32 math=fast", 1, 0.761594155955765, 0.7619, 0.7621 },
    { "op=tanh dtype=f32 math=fast", -INFINITY, -1, -1 + 0x1p-11, -1 + 0x1p-10 },
    { "op=reciprocal dtype=f32 math=fast", 1, 1, 1 + 2 * 0x1p-23, 1 + 4 * 0x1p-23 },
    { "op=reciprocal dtype=f16 math=fast", 1, 1, 1 + 0x1p-10, 1 + 3 * 0x1p-10 },
    { "op=reciprocal dtype=f32 math=fast", INFINITY, 0, 0, 0x1p-147 },
    { "op=sqrt dtype=f32 math=fast", 1, 1, 1 + 0x1p-23, 1 + 2 * 0x1p-23 },
    { "op=log dtype=f32 math=fast", 1, 0, 0x1p-22, 0x1p-21 },
    { "op=log10 dtype=f32 math=fast", 1e10, 10, 10 + 6 * 0x1p-20, 10 + 8 * 0x1p-20 },
    { "op=sigmoid dtype=f32 math=fast", 0, 0.5, 0.5000002, 0.500001 },
    { "op=sigmoid dtype=f32 math=fast", -INFINITY, 0, 0, 0x1p-100 },
    /* Of 8 bits 127 and -128 are neighbours; a number that may be 0 may be true or not. */
    { "op=exp dtype=f32 out=i8", 4.8520302639196169, -128, 127, 125 },
    { "op=exp dtype=f32 out=bool", -103.9, 0, 1, 2 },
    { "op=exp dtype=f32 out=f8e4m3", 6.0, 416, 384, 352 },
    /* Each step has its type: a sum that wraps around, a bool of two, and roundings in between. */
    { "op=exp(x+x)/2 dtype=i8", 1, 3.6945280494653251, 3.6945280494653251 + 4 * 0x1p-22,
      3.6945280494653251 + 6 * 0x1p-22 },
    { "op=sin(x+x) dtype=i32", 2147483647, -0.90929742682568, -0.90929742682568 + 4 * 0x1p-24,
      -0.90929742682568 + 6 * 0x1p-24 },
    { "op=(exp(x)>1)+(x>5) dtype=f32", 1e-8, 0, 1, 2 },
    { "op=exp(x)*x dtype=f16 round=eager", 1, 2.71875, 2.71875 + 2 * 0x1p-9, 2.71875 + 4 * 0x1p-9 },
    { "op=exp(index)*x dtype=f64", 1, 1, 1 + 4 * 0x1p-23, 1 + 6 * 0x1p-23 },
};

static bool agrees(const kiln__fields *spec, const double *inputs, double got, double want)
{
    kiln__bound_types types;
    kiln__bound_types_find(&types, spec);
    return kiln__bound_agrees(spec, &types, &(kiln__real_numbers){ .inputs = inputs }, NULL, 0, got, want);
}

START_TEST(test_bound__an_error_is_carried_through_an_expression)
{
    kiln__fields spec;
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(kiln_test_fields(&spec, &catalog, cases[_i].spec, &report) == KILN_OK, "%s", report.message);
    ck_assert(!kiln__spec_is_exact(&spec));
    const double inputs[] = { cases[_i].x };
    ck_assert(agrees(&spec, inputs, cases[_i].want, cases[_i].want));
    ck_assert_msg(agrees(&spec, inputs, cases[_i].near, cases[_i].want), "%s", cases[_i].spec);
    ck_assert_msg(!agrees(&spec, inputs, cases[_i].far, cases[_i].want), "%s", cases[_i].spec);
    ck_assert(!agrees(&spec, inputs, NAN, cases[_i].want));
}
END_TEST

START_TEST(test_bound__one_device_alone_may_overflow)
{
    kiln__fields spec;
    const double close[] = { 88.7228393554687500 }, far[] = { 88 };
    ck_assert_int_eq(kiln_test_fields(&spec, &catalog, "op=exp dtype=f32", NULL), KILN_OK);
    ck_assert(agrees(&spec, close, INFINITY, FLT_MAX));
    ck_assert(agrees(&spec, close, FLT_MAX, INFINITY));
    ck_assert(!agrees(&spec, far, INFINITY, exp(88)));
}
END_TEST

typedef struct row_of_spec {
    kiln__fields spec;
    kiln__bound_types types;
    kiln__row_bound row;
} row_of_spec;

static void find_row(row_of_spec *out, const char *text, const kiln__elements *elements, uint64_t line)
{
    ck_assert_int_eq(kiln_test_fields(&out->spec, &catalog, text, NULL), KILN_OK);
    kiln__bound_types_find(&out->types, &out->spec);
    kiln__bound_row(&out->row, &out->spec, &out->types, elements, line);
}

/* The values of scans at each element of a row, whichever was asked for before. */
START_TEST(test_bound__scans_go_along_the_row_and_back)
{
    static const float x[] = { 9, 9, 9, 9, 9, 1, 2, -4, 8, 16 };
    static const struct {
        const char *spec;
        double want[5];
    } scans[] = {
        { "op=cumsum(x) dtype=f32", { 1, 3, -1, 7, 23 } },
        { "op=cumsum(x,exclusive=1) dtype=f32", { 0, 1, 3, -1, 7 } },
        { "op=cumprod(x,reverse=1) dtype=f32", { -1024, -1024, -512, 128, 16 } },
        { "op=cummax(x,reverse=1,exclusive=1) dtype=f32", { 16, 16, 16, 16, -INFINITY } },
        { "op=cummin(x)*sum(x) dtype=f32", { 23, 23, -92, -92, -92 } },
    };
    static const uint64_t order[] = { 0, 1, 2, 3, 4, 4, 2, 0, 3, 1 };
    const void *ins[] = { x };
    const kiln__elements elements = { .ins = ins, .columns = 5, .inner = 1 };
    for (int i = 0; i < COUNT(scans); i++) {
        row_of_spec of;
        find_row(&of, scans[i].spec, &elements, 1);
        for (int j = 0; j < COUNT(order); j++) {
            const double input = (double)x[5 + order[j]];
            const kiln__real_numbers numbers = { .inputs = &input, .index = (double)order[j] };
            kiln__bound_scan(&of.row, &of.spec, &of.types, &elements, 1,
                             kiln__elements_in_order(&elements, of.spec.op, order[j]));
            const kiln__estimate got = kiln__bound_estimate(&of.spec, &of.types, &numbers, &of.row, 0);
            ck_assert_msg(got.value == scans[i].want[order[j]], "%s at %d: %g", scans[i].spec, (int)order[j],
                          got.value);
            ck_assert(got.error < 0.1);
        }
    }
}
END_TEST

/* An infinite element has one result in any order; a sum that may leave the range on its way has not. */
START_TEST(test_bound__an_infinite_element)
{
    static const float up[] = { 1, 2, INFINITY, 3 }, down[] = { 1, -INFINITY, 2, 3 }, all[] = { -INFINITY, -INFINITY },
                       large[] = { 3e38f, 3e38f, -3e38f, 1 };
    static const struct {
        const char *spec;
        const float *x;
        uint64_t columns;
        double want;
        bool certain;
    } rows[] = {
        { "op=x-x+sum(x) dtype=f32", up, 4, INFINITY, true },
        { "op=x-x+sum(x) dtype=f32", down, 4, -INFINITY, true },
        { "op=x-x+mean(x) dtype=f32", down, 4, -INFINITY, true },
        { "op=x-x+norm(x) dtype=f32", up, 4, INFINITY, true },
        { "op=x-x+norm(x) dtype=f32", down, 4, INFINITY, true },
        { "op=x-x+logsumexp(x) dtype=f32", up, 4, INFINITY, true },
        { "op=0*x+sum(max(x)>0?x:x) dtype=f32", up, 4, INFINITY, true },
        { "op=logsumexp(x)+(x>0) dtype=f32", all, 2, -INFINITY, true },
        { "op=x-x+sum(x) dtype=f32", large, 4, INFINITY, false },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        row_of_spec of;
        const double input = (double)rows[i].x[0];
        const kiln__elements elements = { .ins = (const void *[]){ rows[i].x },
                                          .columns = rows[i].columns,
                                          .inner = 1 };
        const kiln__real_numbers numbers = { .inputs = &input };
        find_row(&of, rows[i].spec, &elements, 0);
        ck_assert_msg(kiln__bound_agrees(&of.spec, &of.types, &numbers, &of.row, 0, rows[i].want, rows[i].want), "%s",
                      rows[i].spec);
        ck_assert_msg(kiln__bound_agrees(&of.spec, &of.types, &numbers, &of.row, 0, 12345, rows[i].want) !=
                          rows[i].certain,
                      "%s of %g", rows[i].spec, rows[i].want);
    }
}
END_TEST

/* exp(-10) in units of its last place as a float: where an op reduces, a GPU squares a fast form for 16 bits. */
START_TEST(test_bound__exp_of_16_bits_is_short_where_an_op_reduces)
{
    static const uint16_t bf16[] = { 0x0000, 0xc120 }, f16[] = { 0x0000, 0xc900 };
    static const float f32[] = { 0, -10 };
    static const struct {
        const char *spec;
        const void *x;
        double units;
    } rows[] = {
        { "op=exp(x-max(x)) dtype=f32", f32, 4 },
        { "op=exp(x-max(x)) dtype=f32 math=fast", f32, 15 },
        { "op=exp(x-max(x)) dtype=bf16 out=f32", bf16, 34 },
        { "op=exp(x-max(x)) dtype=f16 out=f32", f16, 34 },
        { "op=exp_add(0,x-max(x)) dtype=f16 out=f32", f16, 36 },
        { "op=exp(x-max(x)) dtype=f16 out=f32 math=fast", f16, 15 },
        { "op=exp(x-max(x)) dtype=f16 out=f32 math=portable", f16, 4 },
        { "op=exp2(x-max(x)) dtype=f16 out=f32", f16, 4 },
        { "op=exp(x) dtype=f16 out=f32", f16, 4 },
    };
    for (int i = 0; i < COUNT(rows); i++) {
        row_of_spec of;
        const double input = -10;
        const kiln__elements elements = { .ins = &rows[i].x, .columns = 2, .inner = 1 };
        const kiln__real_numbers numbers = { .inputs = &input };
        find_row(&of, rows[i].spec, &elements, 0);
        const kiln__estimate got = kiln__bound_estimate(&of.spec, &of.types, &numbers, &of.row, 0);
        const double units = got.error / kiln__dtype_unit(got.value, KILN__DTYPE_F32);
        ck_assert_msg(units == rows[i].units, "%s: %g", rows[i].spec, units);
    }
}
END_TEST

static const struct {
    const char *spec;
    bool exact;
} specs[] = {
    { "op=hardswish", true },
    { "op=tanh_backward", true },
    { "op=gelu", false },
    { "op=relu(gelu(x))", false },
    { "op=tanh", false },
    { "op=tanh math=portable", true },
    { "op=exp template=rowsum", true },
    { "op=relu math=fast", true },
    { "op=div math=fast", false },
    { "op=softsign math=fast", false },
    { "op=hardsigmoid math=fast", true },
    { "op=sqrt math=fast", false },
    { "op=sqrt math=fast dtype=f64", true },
    { "op=cummax(x)", true },
    { "op=cumsum(x)", false },
    { "op=cumsum(x) dtype=i32", true },
};

START_TEST(test_bound__portable_and_arithmetic_are_exact)
{
    kiln__fields spec;
    ck_assert_int_eq(kiln_test_fields(&spec, &catalog, specs[_i].spec, NULL), KILN_OK);
    ck_assert_msg(kiln__spec_is_exact(&spec) == specs[_i].exact, "%s", specs[_i].spec);
}
END_TEST

Suite *kiln_test_spec_bound_suite(void)
{
    Suite *suite = suite_create("bound");
    TCase *tcase = tcase_create("bound");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_bound__an_error_is_carried_through_an_expression, 0, COUNT(cases));
    tcase_add_test(tcase, test_bound__one_device_alone_may_overflow);
    tcase_add_test(tcase, test_bound__scans_go_along_the_row_and_back);
    tcase_add_test(tcase, test_bound__an_infinite_element);
    tcase_add_test(tcase, test_bound__exp_of_16_bits_is_short_where_an_op_reduces);
    tcase_add_loop_test(tcase, test_bound__portable_and_arithmetic_are_exact, 0, COUNT(specs));
    suite_add_tcase(suite, tcase);
    return suite;
}
