#include "base/alloc.h"
#include "lang/real.h"
#include "spec/catalog.h"
#include "spec/fields.h"
#include "spec/unit.h"
#include "support/fields.h"
#include "support/suites.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static kiln__catalog catalog;

static void open_catalog(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
}

static void close_catalog(void)
{
    kiln__catalog_fini(&catalog);
}

static const kiln__op *define(const char *definition)
{
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(kiln__op_define(&catalog.ops, definition, &report) == KILN_OK, "%s", report.message);
    return kiln__op_at(&catalog.ops, catalog.ops.count - 1);
}

static const struct {
    const char *definition, *signature, *value;
} good[] = {
    { "a = x", "a(x)", "x" },
    { "a(x)=x+1", "a(x)", "kiln_add(x, (kiln_real)0x1p+0)" },
    { "a(x, y, z) = x - y * z", "a(x, y, z)", "kiln_sub(x, kiln_mul(y, z))" },
    { " a ( x , y ; lo = -1 , hi=inf ) = min(max(x, lo), hi) + y", "a(x, y; lo=-1, hi=inf)",
      "kiln_add(kiln_min(kiln_max(x, lo_), hi_), y)" },
    { "a = x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f", "a(x)",
      "kiln_over(kiln_mul(x, kiln_fmin(kiln_fmax(kiln_add(x, (kiln_real)0x1.8p+1), (kiln_real)0x0p+0), "
      "(kiln_real)0x1.8p+2)), (kiln_real)0x1.8p+2)" },
    { "a = 0.1f * x", "a(x)", "kiln_mul((kiln_real)0x1.99999ap-4, x)" },
    { "a = 0.1 * x", "a(x)", "kiln_mul((kiln_real)0x1.999999999999ap-4, x)" },
    { "a = 0x1.8p1f*x", "a(x)", "kiln_mul((kiln_real)0x1.8p+1, x)" },
    { "a = 1e-3*x", "a(x)", "kiln_mul((kiln_real)0x1.0624dd2f1a9fcp-10, x)" },
    { "a = x > 0 ? x : 0.5 * x", "a(x)", "kiln_choose(x > (kiln_real)0x0p+0, x, kiln_mul((kiln_real)0x1p-1, x))" },
    { "a = (x > 0) * x", "a(x)", "kiln_mul((x > (kiln_real)0x0p+0 ? (kiln_real)1 : (kiln_real)0), x)" },
    { "a = x ? 1 : 2", "a(x)", "kiln_choose(x != 0, (kiln_real)0x1p+0, (kiln_real)0x1p+1)" },
    { "a = !(x > 0 && x < 1) ? 1 : x", "a(x)",
      "kiln_choose(!((x > (kiln_real)0x0p+0) && (x < (kiln_real)0x1p+0)), (kiln_real)0x1p+0, x)" },
    { "a = - -x", "a(x)", "kiln_neg(kiln_neg(x))" },
    { "a = x * -3", "a(x)", "kiln_mul(x, (kiln_real)-0x1.8p+1)" },
    { "a = x <= INFINITY ? x : -inf", "a(x)",
      "kiln_choose(x <= (kiln_real)KILN_INFINITY, x, (kiln_real)-KILN_INFINITY)" },
    { "a(x; p=2) = hardtanh(x, hi=p * p)", "a(x; p=2)", "kiln_op_hardtanh(x, (kiln_real)-0x1p+0, kiln_scale(p_, p_))" },
    { "a = hardtanh(x + 1, -2)", "a(x)",
      "kiln_op_hardtanh(kiln_add(x, (kiln_real)0x1p+0), (kiln_real)-0x1p+1, (kiln_real)0x1p+0)" },
    { "a = x || y && z", "a(x, y, z)", "((x != 0) || ((y != 0) && (z != 0)) ? (kiln_real)1 : (kiln_real)0)" },
    { "a(x;int=2)=int*x", "a(x; int=2)", "kiln_scale(x, int_)" },
    { "a(x; p=1, q=1) = x * (p * q) * (p / 2)", "a(x; p=1, q=1)",
      "kiln_scale(kiln_scale(x, kiln_scale(p_, q_)), kiln_over(p_, (kiln_real)0x1p+1))" },
    { "a(x; p=1) = x * n where n = -p", "a(x; p=1)", "kiln_scale(x, v0)" },
    { "a(x; p=1) = x * (3 * 2) * (x > 0 ? p : 1) * exp(p)", "a(x; p=1)",
      "kiln_mul(kiln_mul(kiln_mul(x, kiln_mul((kiln_real)0x1.8p+1, (kiln_real)0x1p+1)), kiln_choose(x > "
      "(kiln_real)0x0p+0, p_, (kiln_real)0x1p+0)), kiln_exp(p_))" },
    { "a(y, x) = y - x", "a(y, x)", "kiln_sub(x, y)" },
    { "a(grad, y; p=2) = grad / y / p", "a(grad, y; p=2)", "kiln_over(kiln_div(x, y), p_)" },
    { "a = x / y / -3", "a(x, y)", "kiln_over(kiln_div(x, y), (kiln_real)-0x1.8p+1)" },
    { "a = erff(x) + exp_add(1, expf(x))", "a(x)",
      "kiln_add(kiln_erf(x), kiln_exp_add((kiln_real)0x1p+0, kiln_exp(x)))" },
    { "a = b > 1 ? b : -c where b = x * y, c = b", "a(x, y)", "kiln_choose(v0 > (kiln_real)0x1p+0, v0, kiln_neg(v0))" },
    { "a = (b ? x : 0) + -c where b = x > 1, c = 2", "a(x)",
      "kiln_add(kiln_choose(v0 != 0, x, (kiln_real)0x0p+0), kiln_neg(v1))" },
};

START_TEST(test_define__text_is_spelt_out)
{
    const kiln__op *op = define(good[_i].definition);
    kiln__text text = { 0 };
    kiln__real_emit(op->real, &catalog.ops, op->param_names, NULL, 0, &text);
    ck_assert_str_eq(kiln__text_string(&text), good[_i].value);
    ck_assert_str_eq(op->signature, good[_i].signature);
    ck_assert_ptr_nonnull(strstr(op->text, good[_i].value));
    ck_assert(op->inputs >= 1 && op->definition != NULL && !op->bounded);
    kiln__text_fini(&text);
}
END_TEST

static const struct {
    const char *definition, *message;
} bad[] = {
    { "", "op definition, character 1: expected NAME(x) = EXPRESSION, with the name of an op at the end" },
    { "Sw = x", "op definition, character 1: 'Sw' cannot name an op" },
    { "max = x", "op definition, character 1: 'max' cannot name an op" },
    { "x = x", "op definition, character 1: 'x' cannot name an op" },
    { "sw(Y) = Y", "op sw, character 4: 'Y' cannot name an input: it is taken, or not of lower-case letters" },
    { "sw = a where a = x, b = x + 1", "op sw, character 6: the expression before 'where' is a name alone" },
    { "sw = a + 1 where", "op sw, character 17: '' cannot name a value: it is taken, or not of lower-case" },
    { "sw = a + 1 where a", "op sw, character 19: expected '=' and a value for 'a'" },
    { "sw = a + 1 where x = 1", "op sw, character 18: 'x' cannot name a value: it is taken" },
    { "sw = a + 1 where a = 1, a = x", "op sw, character 25: 'a' cannot name a value: it is taken" },
    { "sw = a + 1 where a = b, b = x", "op sw, character 22: unknown name 'b'" },
    { "sw(x; p=1) = a + 1 where p = x", "op sw, character 26: 'p' cannot name a value: it is taken" },
    { "sw(x, column c) = x * c",
      "op sw, character 1: a column has one element for each row, and the expression reduces" },
    { "sw(x, column 3) = sum(x)", "op sw, character 14: '3' cannot name an input" },
    { "sw(x; column c=1) = sum(x)", "op sw, character 14: expected '=' and a default at 'c=1) = sum(x)'" },
    { "sw(x, y", "op sw, character 8: expected ',' or ')' at the end" },
    { "sw(x; lo) = x", "op sw, character 9: expected '=' and a default" },
    { "sw(x; lo=a) = x", "op sw, character 10: the default of lo must be a number, not 'a'" },
    { "sw(x; lo=1, lo=2) = x", "op sw, character 13: 'lo' cannot name a parameter" },
    { "sw(x; min=1) = x", "op sw, character 7: 'min' cannot name a parameter" },
    { "sw(x; kiln_op_foo=1) = x * kiln_op_foo", "op sw, character 7: 'kiln_op_foo' cannot name a parameter: names" },
    { "foo_(x; kiln_op_foo=1) = x", "op foo_, character 9: 'kiln_op_foo' cannot name a parameter: names that begin" },
    { "sw(x; kiln_add=1) = x * kiln_add", "op sw, character 7: 'kiln_add' cannot name a parameter: names that" },
    { "sw(x; kiln_=1) = x", "op sw, character 7: 'kiln_' cannot name a parameter: names that begin with kiln_" },
    { "sw(x; lo_=1) = x", "op sw, character 7: 'lo_' cannot name a parameter: names that begin with kiln_" },
    { "sw(x; l__o=1) = x", "op sw, character 7: 'l__o' cannot name a parameter: names that begin with kiln_" },
    { "sw(x; _lo=1) = x", "op sw, character 7: '_lo' cannot name a parameter: it is taken" },
    { "kiln_abs = x", "op definition, character 1: 'kiln_abs' cannot name an op: names that begin with kiln_" },
    { "s__w = x", "op definition, character 1: 's__w' cannot name an op: names that begin with kiln_, or have" },
    { "sw__ = x", "op definition, character 1: 'sw__' cannot name an op: names that begin with kiln_" },
    { "_sw = x", "op definition, character 1: '_sw' cannot name an op: it means something else" },
    { "sw(x) x", "op sw, character 7: expected '=' and an expression at 'x'" },
    { "sw = (x + 1", "op sw, character 12: ')' is missing" },
    { "sw = x +", "op sw, character 9: a value is missing at the end" },
    { "sw = x + * 2", "op sw, character 10: expected a value at '* 2'" },
    { "sw = x + lo", "op sw, character 10: unknown name 'lo': x, y or z" },
    { "sw(x; slope=1) = x * slop", "op sw, character 22: unknown name 'slop': did you mean slope?" },
    { "sw(x) = y", "op sw, character 9: unknown name 'y': x" },
    { "sw = 3", "op sw, character 7: the expression has no input" },
    { "sw = x * hardtanh", "op sw, character 10: 'hardtanh' is called with its arguments: hardtanh(...)" },
    { "sw = fminq(x, 1)", "op sw, character 6: unknown function or op 'fminq': did you mean fmin?" },
    { "sw = argmx(x)", "op sw, character 6: unknown function or op 'argmx': did you mean argmax?" },
    { "sw = fmin(x)", "op sw, character 6: fmin takes 2 arguments, got 1" },
    { "sum(x, y) = x + y", "op definition, character 1: 'sum' cannot name an op" },
    { "sw = sum(x, x)", "op sw, character 6: sum takes 1 argument, got 2" },
    { "sw(x; p=2) = x * sum(p)",
      "op sw, character 18: sum reduces an axis, and its argument is the same all along it" },
    { "sw = sum(x) within 2 ulp", "op sw, character 13: a bound is for ops of one element: this one reduces" },
    { "sw = hardtanh(x,1,2,3)", "op sw, character 6: hardtanh takes at most 3 arguments, got 4" },
    { "sw = add(x)", "op sw, character 6: add takes 2 arguments, got 1" },
    { "sw = max(x, y=1)", "op sw, character 13: arguments of a function are given by their place, not by name" },
    { "sw = hardtanh(x, lo=)", "op sw, character 18: a value is missing behind 'lo='" },
    { "sw = hardtanh(x, lw=1)", "op sw, character 18: hardtanh has no parameter 'lw': did you mean lo?" },
    { "sw = hardtanh(x, 1, lo=1)", "op sw, character 21: parameter lo of hardtanh is given twice" },
    { "sw = hardtanh(x, hi=1, 1)",
      "op sw, character 24: an argument follows a named parameter of hardtanh: name it too" },
    { "sw = hardtanh(x, ?)", "op sw, character 18: expected a value at '?'" },
    { "sw = gamma(x)", "op sw, character 6: unknown function or op 'gamma'" },
    { "sw = x ** 2", "op sw, character 8: there is no power **: write x * x" },
    { "sw = x x", "op sw, character 8: expected an operator or 'within' at 'x'" },
    { "sw = 1e999 * x", "op sw, character 6: '1e999' is not a number" },
    { "sw = 1e39f * x", "op sw, character 6: '1e39f' is not a number" },
    { "sw = 1.2.3 * x", "op sw, character 6: '1.2.3' is not a number" },
    { "sw = x within 2", "op sw, character 16: write within 2 ulp of EXPRESSION" },
    { "sw = x within -1 ulp", "op sw, character 15: write within NUMBER ulp: '-1' is no such number" },
    { "sw = x within 1 ulp off x", "op sw, character 21: expected 'of' and an expression" },
    { "sw = x within 1 ulp of x x", "op sw, character 26: expected nothing more at 'x'" },
    { "add = x + y", "op add is one of Kiln's own: give yours another name" },
};

START_TEST(test_define__failure_names_place_and_culprit)
{
    kiln_report report = KILN_INIT(kiln_report);
    uint32_t before = catalog.ops.count;
    ck_assert_int_eq(kiln__op_define(&catalog.ops, bad[_i].definition, &report), KILN_EOP);
    ck_assert_msg(strncmp(report.message, bad[_i].message, strlen(bad[_i].message)) == 0, "%s", report.message);
    ck_assert_uint_eq(catalog.ops.count, before);
}
END_TEST

START_TEST(test_define__equal_again_is_nothing_and_other_is_refused)
{
    kiln_report report = KILN_INIT(kiln_report);
    const kiln__op *op = define("sw(x; hi=6) = x * min(x, hi) within 1 ulp of x * x");
    uint32_t count = catalog.ops.count;
    define("  sw( x;hi=6.0 )= x*(min(x,hi))  within 1 ulp of (x * x)");
    ck_assert_uint_eq(catalog.ops.count, count);
    static const char *const others[] = { "sw(x; hi=7) = x * min(x, hi) within 1 ulp of x * x",
                                          "sw(x; hi=6) = x + min(x, hi) within 1 ulp of x * x",
                                          "sw(x; hi=6) = x * min(x, hi) within 2 ulp of x * x",
                                          "sw(x; hi=6) = x * min(x, hi) within 1 ulp of x + x",
                                          "sw(x; hi=6) = x * min(x, hi)" };
    for (int i = 0; i < COUNT(others); i++) {
        ck_assert_int_eq(kiln__op_define(&catalog.ops, others[i], &report), KILN_EOP);
        ck_assert_msg(strstr(report.message, "defined already, and otherwise: 'sw(x; hi=6) = x * min(x, hi) within") !=
                          NULL,
                      "%s", report.message);
        ck_assert_uint_eq(catalog.ops.count, count);
    }
    ck_assert_ptr_eq(kiln__op_at(&catalog.ops, count - 1), op);
}
END_TEST

/* Long, deep and doubled: each is refused before a compiler could see it. */
START_TEST(test_define__size_is_bounded)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__text text = { 0 };
    static const char *const parts[][2] = {
        { "sw = ", "-(" }, { "sw = x", " + x" }, { "sw = ", "(" }, { "sw = ", "!" }, { "sw = ", "x ? " }
    };
    for (int i = 0; i < COUNT(parts); i++) {
        text.length = 0;
        kiln__text_append(&text, parts[i][0]);
        for (int j = 0; j < 300; j++)
            kiln__text_append(&text, parts[i][1]);
        ck_assert_int_eq(kiln__op_define(&catalog.ops, kiln__text_string(&text), &report), KILN_EOP);
        ck_assert_msg(strstr(report.message, "nested deeper than 48") != NULL, "%s", report.message);
    }
    text.length = 0;
    for (int i = 0; i < 17000; i++)
        kiln__text_append(&text, " ");
    ck_assert_int_eq(kiln__op_define(&catalog.ops, kiln__text_string(&text), &report), KILN_EOP);
    ck_assert_msg(strstr(report.message, "at most 16384 characters") != NULL, "%s", report.message);
    char line[80];
    kiln_status status = KILN_OK;
    define("a0 = x + x");
    int i = 1;
    for (; i < 64 && status == KILN_OK; i++) {
        snprintf(line, sizeof(line), "a%d = a%d(x) * a%d(x)", i, i - 1, i - 1);
        status = kiln__op_define(&catalog.ops, line, &report);
    }
    ck_assert_int_eq(status, KILN_EOP);
    ck_assert_int_lt(i, 14);
    ck_assert_msg(strstr(report.message, "more than 2048 operations") != NULL, "%s", report.message);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_define__many_but_not_more)
{
    char line[80];
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = KILN_OK;
    for (int i = 0; i < 2 * KILN__OPS_MAX && status == KILN_OK; i++) {
        snprintf(line, sizeof(line), "a%d = x + %d", i, i);
        status = kiln__op_define(&catalog.ops, line, &report);
    }
    ck_assert_int_eq(status, KILN_EOP);
    ck_assert_uint_eq(catalog.ops.count, KILN__OPS_MAX);
    ck_assert_msg(strstr(report.message, "there are 1024 ops") != NULL, "%s", report.message);
}
END_TEST

static kiln__unit *make_unit(const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec, full;
    kiln__target target;
    kiln__unit *unit = NULL;
    ck_assert(kiln__target_parse("sm_90", 5, &target));
    kiln_status status = kiln_test_fields(&spec, &catalog, text, &report);
    if (status == KILN_OK)
        status = kiln__spec_resolve(&full, &spec, &target, &report);
    if (status == KILN_OK)
        status = kiln__unit_make(&unit, &full, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    return unit;
}

static size_t place_of(const kiln__unit *unit, const char *text)
{
    const char *at = strstr(unit->source, text);
    ck_assert_msg(at != NULL, "%s is not in the unit", text);
    return (size_t)(at - unit->source);
}

START_TEST(test_define__unit_has_what_is_called_in_order)
{
    define("half = x / 2");
    define("unused = sqrt(x)");
    define("both = half(x) + relu6(x)");
    kiln__unit *unit = make_unit("op=both(add(x,y))");
    ck_assert(!unit->foreign);
    size_t division = place_of(unit, "kiln_real kiln_div(");
    size_t half = place_of(unit, "kiln_real kiln_op_half("), both = place_of(unit, "kiln_real kiln_op_both(");
    ck_assert(division < half && half < both && place_of(unit, "kiln_real kiln_op_relu6(") < both);
    ck_assert(both < place_of(unit, "return kiln_op_both(kiln_op_add(x, y));"));
    ck_assert_ptr_null(strstr(unit->source, "kiln_op_unused"));
    ck_assert_ptr_null(strstr(unit->source, "kiln_sqrt"));
    kiln__unit_free(unit);
    unit = make_unit("op=relu6");
    ck_assert_ptr_null(strstr(unit->source, "kiln_div("));
    kiln__unit_free(unit);
}
END_TEST

START_TEST(test_define__values_in_double)
{
    const double inputs[] = { -2.5, 7, 0.25 }, params[] = { 10, -1 };
    static const struct {
        const char *definition;
        double value;
    } cases[] = {
        { "a0(x, y, z; p=1, q=2) = p * x + q * y - z", -32.25 },
        { "a1(x, y) = x < y && y < 3 ? 1 : y >= 7 ? 2 : 3", 2 },
        { "a2(x) = fma(x, x, 1) + abs(x) + floor(x) + ceil(x) + trunc(x) + rint(x)", 7.25 + 2.5 - 3 - 2 - 2 - 2 },
        { "a3(x, y) = min(x, 0 / 0 * x) == 1", 0 },
        { "a4(x, y) = fmin(x, 0 / 0 * x) + fmax(0 / 0 * x, y)", 4.5 },
        { "a5(x, y) = clamp(y, x, 3) + copysign(y, x) + sqrt(16)", 0 },
        { "a6(x, y; p=1) = a5(x, y) + !x + -p", -10 },
    };
    const kiln__real_numbers numbers = { .inputs = inputs, .params = params };
    const kiln__real_numbers others = { .inputs = (const double[]){ 7, -3 } };
    for (int i = 0; i < COUNT(cases); i++) {
        const kiln__op *op = define(cases[i].definition);
        double value = kiln__real_value(op->real, &catalog.ops, &numbers, 0);
        ck_assert_msg(value == cases[i].value, "%s is %g", cases[i].definition, value);
    }
    const kiln__op *op = define("zeros(x, y) = 1 / min(0 * y, -0.0)");
    ck_assert(isinf(kiln__real_value(op->real, &catalog.ops, &numbers, 0)));
    ck_assert(kiln__real_value(op->real, &catalog.ops, &numbers, 0) < 0);
    const kiln__op *built_in = define("b(x, y) = relu6(x) + hardtanh(y, -2, 2) within 1 ulp");
    ck_assert(kiln__real_value(built_in->real, &catalog.ops, &others, 0) == 4);
}
END_TEST

static int allocations_left;

static int allow_some(void)
{
    return allocations_left-- <= 0;
}

START_TEST(test_define__every_failed_allocation_is_reported)
{
    kiln_status status = KILN_ENOMEM;
    int attempts = 0;
    for (; status == KILN_ENOMEM; attempts++) {
        allocations_left = attempts;
        kiln__alloc_set_hook(allow_some);
        status = kiln__op_define(&catalog.ops, "sw(x; lo=0, hi=6) = x * min(max(x + 3, lo), hi) / 6 within 2 ulp of x",
                                 NULL);
        kiln__alloc_set_hook(NULL);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_gt(attempts, 8);
}
END_TEST

Suite *kiln_test_lang_define_suite(void)
{
    Suite *suite = suite_create("define");
    TCase *tcase = tcase_create("define");
    tcase_add_checked_fixture(tcase, open_catalog, close_catalog);
    tcase_add_loop_test(tcase, test_define__text_is_spelt_out, 0, COUNT(good));
    tcase_add_loop_test(tcase, test_define__failure_names_place_and_culprit, 0, COUNT(bad));
    tcase_add_test(tcase, test_define__equal_again_is_nothing_and_other_is_refused);
    tcase_add_test(tcase, test_define__size_is_bounded);
    tcase_add_test(tcase, test_define__many_but_not_more);
    tcase_add_test(tcase, test_define__unit_has_what_is_called_in_order);
    tcase_add_test(tcase, test_define__values_in_double);
    tcase_add_test(tcase, test_define__every_failed_allocation_is_reported);
    suite_add_tcase(suite, tcase);
    return suite;
}
