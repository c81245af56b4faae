/* Derivatives as definitions: of all ops and of expressions, beside differences of their values in double. */
#include "lang/derive.h"
#include "spec/fields.h"
#include "support/fields.h"
#include "support/suites.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static kiln__catalog catalog;
static kiln_report report = KILN_INIT(kiln_report);

static void set_up(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
}

static void tear_down(void)
{
    kiln__catalog_fini(&catalog);
    kiln_report_clear(&report);
}

/* Derives the op of a spec by all its inputs, which vary. */
static kiln_status derive(kiln__text *out, const kiln__fields *spec, uint64_t wanted)
{
    kiln__derivation d = { .real = spec->op, .ops = &catalog.ops, .wanted = wanted };
    memset(d.inputs, true, sizeof(d.inputs));
    memset(d.outputs, true, sizeof(d.outputs));
    kiln__text_append(out, "derived");
    return kiln__derive(&d, out, &report);
}

static double value_at(const kiln__real *real, const double *inputs, uint32_t output)
{
    static const double parameters[KILN__OP_ARGS_MAX] = { 0 };
    return kiln__real_value(real, &catalog.ops, &(kiln__real_numbers){ inputs, parameters, parameters, 0 }, output);
}

/* By values beside x, of the sum of the outputs times their gradients. */
static double difference(const kiln__real *real, const double *x, const double *gradients, uint32_t k)
{
    const double step = 1e-5;
    double sum = 0, near[KILN__INPUTS_MAX];
    for (int side = -1; side <= 1; side += 2) {
        memcpy(near, x, sizeof(near));
        near[k] += side * step;
        for (uint32_t o = 0; o < real->outputs; o++)
            sum += side * gradients[o] * value_at(real, near, o);
    }
    return sum / (2 * step);
}

/* Compares at points between kinks, most of which lie at whole numbers and halves. */
static void check_values(const char *text, const kiln__real *real, const kiln__real *derived)
{
    static const double points[] = { 0.37, 0.82, 1.61, -0.43, -1.27, 2.73, -3.41, 4.17 };
    for (uint32_t i = 0; i < COUNT(points); i++) {
        double x[KILN__INPUTS_MAX], all[KILN__INPUTS_MAX], gradients[KILN__OUTPUTS_MAX];
        for (uint32_t k = 0; k < real->inputs; k++)
            x[k] = points[(i + 3 * k) % COUNT(points)] + 0.01 * k;
        for (uint32_t o = 0; o < real->outputs; o++)
            all[o] = gradients[o] = 0.7 - 0.4 * o;
        memcpy(all + real->outputs, x, real->inputs * sizeof(x[0]));
        for (uint32_t k = 0; k < real->inputs; k++) {
            const double want = difference(real, x, gradients, k), got = value_at(derived, all, k);
            ck_assert_msg(isnan(want) || isinf(want) || fabs(got - want) <= 1e-5 * (1 + fabs(want)),
                          "%s by input %u at %g: %g, not %g", text, k, x[0], got, want);
        }
    }
}

/* False: the op has no derivative. */
static bool check_derivative(const char *text)
{
    kiln__fields spec;
    kiln__text definition = { 0 };
    kiln__op *op;
    ck_assert_msg(kiln_test_fields(&spec, &catalog, text, &report) == KILN_OK, "%s: %s", text, report.message);
    const kiln_status status = derive(&definition, &spec, (UINT64_C(1) << spec.op->inputs) - 1);
    ck_assert_msg(status == KILN_OK || strstr(report.message, "no derivative") != NULL, "%s: %s", text, report.message);
    if (status == KILN_OK) {
        ck_assert_msg(kiln__op_read(&op, &catalog.ops, kiln__text_string(&definition), &report) == KILN_OK,
                      "%s: %s: %s", text, kiln__text_string(&definition), report.message);
        ck_assert_uint_eq(op->outputs, spec.op->inputs);
        check_values(text, spec.op, op->real);
        kiln__op_free(op);
    }
    kiln__text_fini(&definition);
    return status == KILN_OK;
}

START_TEST(test_derive__expressions)
{
    static const char *const texts[] = {
        "op=x*y+x",
        "op=-x/(y*y+1)",
        "op=exp(-x*x)*sin(y)",
        "op=x>y?x*x:y*x",
        "op=(x+y,x*y,2)",
        "op=gelu(x*y+z)*silu(x)",
        "op=pow(abs(x)+1,y)",
        "op=pow(x,2)+pow(x,3)+pow(x,1)+pow(x,0)",
        "op=max(x,y)*min(x,z)+fmax(x,1)-fmin(2,y)",
        "op=clamp(x,-1,y+3)",
        "op=fma(x,y,z)+fmod(x,y+7)",
        "op=hypot(x,y)+atan2(y,x)+copysign(x,y)",
        "op=hardtanh(x,-2,2.5)*elu(y,alpha=0.5)",
        "op=log(abs(x))+log2(abs(y)+1)+log10(abs(x)+1)+log1p(abs(x))",
        "op=sqrt(abs(x))+rsqrt(abs(y))+exp2(x)+expm1(y)",
        "op=tan(x*0.3)+asin(x*0.2)+acos(x*0.2)+atan(x)+atanh(x*0.2)",
        "op=sinh(x)+cosh(x)+tanh(x)+asinh(x)+acosh(abs(x)+1)",
        "op=erf(x)*erfc(y)+floor(x)+ceil(x)+trunc(x)+rint(x)",
        "op=!(x>y)*x+(x<y&&x>0)*y",
        "op=x*x*x*x*x*x*x*x",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        ck_assert_msg(check_derivative(texts[i]), "%s: %s", texts[i], report.message);
}
END_TEST

/* Of all ops that do not reduce: those that have no derivative are named here. */
START_TEST(test_derive__all_ops)
{
    static const char without[] = " lgamma bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift "
                                  "bitwise_right_shift ";
    uint32_t derived = 0;
    for (uint32_t i = 0; i < catalog.ops.row_count; i++) {
        char text[256], name[64];
        ck_assert_int_eq(kiln__op_load(&catalog.ops, i, &report), KILN_OK);
        const kiln__op *op = kiln__op_at(&catalog.ops, i);
        if (op->real->reductions > 0 || op->inputs + op->outputs > KILN__INPUTS_MAX)
            continue;
        int length = snprintf(text, sizeof(text), "op=%s(", op->name);
        for (uint32_t k = 0; k < op->inputs; k++)
            length +=
                snprintf(text + length, sizeof(text) - (size_t)length, "%s%s", k > 0 ? "," : "", kiln__input_names[k]);
        snprintf(text + length, sizeof(text) - (size_t)length, ")");
        snprintf(name, sizeof(name), " %s ", op->name);
        const bool has = check_derivative(text);
        ck_assert_msg(has == (strstr(without, name) == NULL), "%s: %s", op->name, has ? "has one" : report.message);
        derived += has;
    }
    ck_assert_uint_gt(derived, 100);
}
END_TEST

START_TEST(test_derive__texts)
{
    static const struct {
        const char *text, *definition;
        uint64_t wanted;
        bool varies[2], output;
    } cases[] = {
        { "op=x*y", "(d1,i1,i2)=(d1*i2)", 1, { true, true }, true },
        { "op=x+y", "(d1,i1,i2)=(d1,d1)", 3, { true, true }, true },
        { "op=x>y", "(d1,i1,i2)=(0,0)", 3, { true, true }, true },
        { "op=max(x,0)", "(d1,i1)=((i1>0)?d1:0)", 1, { true }, true },
        { "op=x-c", "(d1,i1,i2)=sum((-d1))", 2, { true, false }, true },
        { "op=sum(x-c)", "(d1,i1,i2)=((-d1)/mean((index==0)))", 2, { true, false }, false },
        { "op=tanh(x)", "(d1,i1)=tanh_backward(d1,tanh(i1))", 1, { true }, true },
        { "op=hardtanh(x,-2,?)", "(d1,i1;s1=0)=hardtanh_backward(d1,i1,(-2),s1)", 1, { true }, true },
        { "op=sum(x*y)", "(d1,i1,i2)=(d1*i1)", 2, { true, true }, false },
        { "op=x*c", "(d1,i1,i2)=sum((d1*i1))", 2, { true, false }, true },
        { "op=mean(x)", "(d1,i1)=(d1*mean((index==0)))", 1, { true }, false },
        { "op=cumsum(x)", "(d1,i1)=cumsum(d1,reverse=1)", 1, { true }, true },
        { "op=cumsum(x,exclusive=1,reverse=1)", "(d1,i1)=cumsum(d1,exclusive=1)", 1, { true }, true },
        { "op=exp(x)*exp(x)", "(d1,i1)=((t2+t2)*t1) where t1=exp(i1),t2=(d1*t1)", 1, { true }, true },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln__fields spec;
        kiln__text text = { 0 };
        ck_assert_int_eq(kiln_test_fields(&spec, &catalog, cases[i].text, &report), KILN_OK);
        kiln__derivation d = { .real = spec.op, .ops = &catalog.ops, .wanted = cases[i].wanted };
        memcpy(d.inputs, cases[i].varies, sizeof(cases[i].varies));
        d.outputs[0] = cases[i].output;
        ck_assert_int_eq(kiln__derive(&d, &text, &report), KILN_OK);
        ck_assert_str_eq(kiln__text_string(&text), cases[i].definition);
        kiln__text_fini(&text);
    }
}
END_TEST

START_TEST(test_derive__refusals)
{
    static const char *const cases[][2] = {
        { "op=lgamma(x)", "lgamma has no derivative" },
        { "op=prod(x)", "prod has no derivative here" },
        { "op=cummax(x)", "cummax has no derivative here" },
        { "op=bitwise_and(x,y)", "bitwise_and has no derivative" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln__fields spec;
        kiln__text text = { 0 };
        ck_assert_int_eq(kiln_test_fields(&spec, &catalog, cases[i][0], &report), KILN_OK);
        ck_assert_int_eq(derive(&text, &spec, 1), KILN_EOP);
        ck_assert_str_eq(report.message, cases[i][1]);
        kiln__text_fini(&text);
    }
}
END_TEST

Suite *kiln_test_lang_derive_suite(void)
{
    Suite *suite = suite_create("derive");
    TCase *tcase = tcase_create("derive");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_derive__expressions);
    tcase_add_test(tcase, test_derive__all_ops);
    tcase_add_test(tcase, test_derive__texts);
    tcase_add_test(tcase, test_derive__refusals);
    suite_add_tcase(suite, tcase);
    return suite;
}
