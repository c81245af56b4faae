/* Every op and dtype on the cpu, on special values and random ones, against a referee: the steps of its expression,
 * each rounded once, with the functions of MPFR at 200 bits. Ops of arithmetic have the referee's bits, others are as
 * close as their functions promise. KILN_TEST_LONG=1 takes all 65,536 inputs of the 16-bit dtypes. */
#include "device/values.h"
#include "lang/real.h"
#include "spec/bound.h"
#include "spec/spec.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BITS = 200, SPECIAL = 65536, PAIRS = 1296, RANDOM = 700, N = SPECIAL + PAIRS + RANDOM + 3 };

static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };

typedef struct referee {
    const kiln__op_table *ops;
    kiln__dtype stored, computed;
    const double *params;
    mpfr_t value, x, y;
    kiln__bound_types types;
} referee;

/* To nearest, ties to even. */
static double round_to(kiln__dtype dtype, double value)
{
    if (dtype == KILN__DTYPE_F64 || isnan(value) || isinf(value))
        return value;
    if (dtype == KILN__DTYPE_F32)
        return (double)(float)value;
    double unit = kiln__dtype_unit(value, dtype), rounded = rint(value / unit) * unit;
    return fabs(rounded) > kiln__dtype_largest(dtype) ? copysign(INFINITY, value) : rounded;
}

/* ---- Functions */

static int take_lgamma(mpfr_t out, const mpfr_t x, mpfr_rnd_t mode)
{
    int sign;
    return mpfr_lgamma(out, &sign, x, mode);
}

static int take_exp_add(mpfr_t out, const mpfr_t x, const mpfr_t y, mpfr_rnd_t mode)
{
    mpfr_exp(out, y, mode);
    return mpfr_add(out, out, x, mode);
}

static const struct {
    const char *name;
    int (*one)(mpfr_t out, const mpfr_t x, mpfr_rnd_t mode);
    int (*two)(mpfr_t out, const mpfr_t x, const mpfr_t y, mpfr_rnd_t mode);
} functions[] = {
#define ONE(name)                \
    {                            \
#name, mpfr_##name, NULL \
    }
    ONE(exp),
    ONE(log),
    ONE(tanh),
    ONE(exp2),
    ONE(expm1),
    ONE(log1p),
    ONE(log2),
    ONE(log10),
    ONE(sin),
    ONE(cos),
    ONE(tan),
    ONE(asin),
    ONE(acos),
    ONE(atan),
    ONE(sinh),
    ONE(cosh),
    ONE(asinh),
    ONE(acosh),
    ONE(atanh),
    ONE(erf),
    ONE(erfc),
#undef ONE
    { "lgamma", take_lgamma, NULL },
    { "rsqrt", mpfr_rec_sqrt, NULL },
    { "exp_add", NULL, take_exp_add },
    { "atan2", NULL, mpfr_atan2 },
    { "hypot", NULL, mpfr_hypot },
    { "pow", NULL, mpfr_pow },
};

enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

/* False: MPFR has no such function, because it rounds once or not at all. */
static bool call_mpfr(referee *r, const char *name, const double *v, double *out)
{
    int i = 0;
    while (i < FUNCTIONS && strcmp(functions[i].name, name) != 0)
        i++;
    if (i == FUNCTIONS)
        return false;
    mpfr_set_d(r->x, v[0], MPFR_RNDN);
    if (functions[i].two != NULL)
        mpfr_set_d(r->y, v[1], MPFR_RNDN);
    if (functions[i].one != NULL)
        functions[i].one(r->value, r->x, MPFR_RNDN);
    else
        functions[i].two(r->value, r->x, r->y, MPFR_RNDN);
    *out = r->computed == KILN__DTYPE_F64 ? mpfr_get_d(r->value, MPFR_RNDN) : (double)mpfr_get_flt(r->value, MPFR_RNDN);
    if (v[0] == 0 && strcmp(name, "rsqrt") == 0)
        *out = copysign(INFINITY, v[0]); /* MPFR: +inf for -0 too */
    return true;
}

/* A float's product plus a float is more than a double holds. */
static double call_function(referee *r, const kiln__real_node *node, const double *v)
{
    const char *name = kiln__real_function_name(node);
    double value;
    if (call_mpfr(r, name, v, &value))
        return value;
    if (strcmp(name, "fma") == 0 && r->computed == KILN__DTYPE_F32)
        return (double)fmaf((float)v[0], (float)v[1], (float)v[2]);
    if (strcmp(name, "stored") == 0)
        return round_to(r->stored, v[0]);
    if (strcmp(name, "copysign") == 0 && r->stored == KILN__DTYPE_F16 && isnan(v[1]))
        return fabs(v[0]);
    return round_to(r->computed, kiln__real_apply(node, v));
}

/* ---- Expressions */

static const kiln__real *real_of(const kiln__op *op, kiln__dtype dtype)
{
    char guard[64];
    snprintf(guard, sizeof(guard), "defined(KILN_DTYPE_%s)", kiln__dtype_macro(dtype));
    for (uint32_t i = 0; i < op->case_count; i++)
        if (strstr(op->cases[i].guard, guard) != NULL && strstr(op->cases[i].guard, "__CUDA_ARCH__") == NULL)
            return op->cases[i].real;
    return op->real;
}

static double evaluate(referee *r, const kiln__op *op, const double *inputs, const double *params)
{
    const kiln__real *real = real_of(op, r->stored);
    double values[KILN__REAL_NODES_MAX];
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        double v[KILN__REAL_ARGS_MAX] = { 0 };
        for (uint32_t j = 0; j < node->count; j++)
            v[j] = values[node->args[j]];
        switch (node->kind) {
        case KILN__REAL_NUMBER:
            values[i] = round_to(r->computed, node->value);
            break;
        case KILN__REAL_INPUT:
            values[i] = inputs[node->index];
            break;
        case KILN__REAL_PARAM:
            values[i] = round_to(r->computed, params[node->index]);
            break;
        case KILN__REAL_FUNCTION:
            values[i] = call_function(r, node, v);
            break;
        case KILN__REAL_OP: {
            const kiln__op *called = kiln__op_at(r->ops, node->index);
            values[i] = evaluate(r, called, v, v + called->inputs);
            break;
        }
        default:
            values[i] = round_to(r->computed, kiln__real_apply(node, v));
        }
    }
    return values[real->count - 1];
}

/* ---- The test */

static void *arrays[3], *results;

static bool same(double got, double want)
{
    return (isnan(got) && isnan(want)) || (got == want && signbit(got) == signbit(want));
}

static void check_element(referee *r, const kiln__op *op, const kiln__fields *fields, size_t i)
{
    double inputs[3];
    for (uint32_t k = 0; k < op->inputs; k++)
        inputs[k] = kiln__dtype_value(arrays[k], i, r->stored);
    kiln__dtype result = kiln__spec_result(fields, 0);
    double value = evaluate(r, op, inputs, r->params), got = kiln__dtype_value(results, i, result);
    double want = result == KILN__DTYPE_BOOL ? value != 0 : round_to(r->stored, value);
    bool agrees = same(got, want) || (!kiln__spec_is_exact(fields) &&
                                      kiln__bound_agrees(fields, &r->types, &(kiln__real_numbers){ .inputs = inputs },
                                                         NULL, 0, got, want));
    ck_assert_msg(agrees, "%s %s of %a, %a, %a is %a, should be %a", op->name, kiln__dtype_name(r->stored), inputs[0],
                  op->inputs > 1 ? inputs[1] : 0, op->inputs > 2 ? inputs[2] : 0, got, want);
}

/* `params` stand in the spec as `written`, "(0.5)". */
static void check_op(kiln_service *service, const kiln__op *op, const char *written, const double *params,
                     const char *dtype)
{
    char text[96];
    kiln_report report = KILN_INIT(kiln_report);
    bool all = getenv("KILN_TEST_LONG") != NULL && op->inputs == 1;
    snprintf(text, sizeof(text), "op=%s%s dtype=%s target=cpu", op->name, written, dtype);
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_kernel *kernel = kiln_test_get(service, text);
    const kiln__fields *fields = &spec->fields;
    referee r = { .ops = &fields->catalog->ops, .stored = fields->dtype, .params = params };
    kiln__bound_types_find(&r.types, fields);
    r.computed = kiln__typing_computed(r.types.typing.step);
    mpfr_inits2(BITS, r.value, r.x, r.y, (mpfr_ptr)NULL);
    for (unsigned k = 0; k < 3; k++)
        values_fill(arrays[k], N, dtype, k);
    memset(results, 0xa5, N * sizeof(double));
    ck_assert_msg(kiln_test_launch(kernel, N, results, (const void *const *)arrays, NULL, &report) == KILN_OK, "%s",
                  report.message);
    for (size_t i = 0; i < N; i += all || i >= SPECIAL ? 1 : 97)
        check_element(&r, op, fields, i);
    mpfr_clears(r.value, r.x, r.y, (mpfr_ptr)NULL);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
}

/* Parameters that take another way through an op. */
static const struct {
    const char *op, *written;
    double params[3];
} others[] = {
    { "pow_scalar", "(0)", { 0 } },           { "pow_scalar", "(1)", { 1 } },
    { "pow_scalar", "(3)", { 3 } },           { "pow_scalar", "(0.5)", { 0.5 } },
    { "pow_scalar", "(-0.5)", { -0.5 } },     { "pow_scalar", "(-1)", { -1 } },
    { "pow_scalar", "(-2)", { -2 } },         { "pow_scalar", "(3.3)", { 3.3 } },
    { "pow_scalar", "(3.0005)", { 3.0005 } }, { "add_scaled", "(0.7)", { 0.7 } },
    { "add_scaled", "(-3)", { -3 } },         { "elu", "(0.7,1.3,0.9)", { 0.7, 1.3, 0.9 } },
    { "softplus", "(1.5,10)", { 1.5, 10 } },  { "leaky_relu", "(0.2)", { 0.2 } },
    { "addcmul", "(2.5)", { 2.5 } },          { "hardtanh", "(-2,0.5)", { -2, 0.5 } },
};

/* An eighth of the ops, in one dtype. */
START_TEST(test_ops__cpu_agrees_with_mpfr)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    const kiln__op_table *ops;
    kiln_spec *spec = kiln_test_spec(service, "op=copy");
    ops = &spec->fields.catalog->ops;
    for (unsigned k = 0; k < 3; k++)
        arrays[k] = malloc(N * sizeof(double));
    results = malloc(N * sizeof(double));
    for (uint32_t i = (uint32_t)_i / 4; i < ops->count; i += 8) {
        ck_assert_int_eq(kiln__op_load(ops, i, NULL), KILN_OK);
        if (!kiln__op_at(ops, i)->real->integral && kiln__op_at(ops, i)->real->reductions == 0)
            check_op(service, kiln__op_at(ops, i), "", kiln__op_at(ops, i)->defaults, dtypes[_i % 4]);
    }
    for (size_t i = (size_t)_i / 4; i < sizeof(others) / sizeof(others[0]); i += 8) {
        int op;
        ck_assert_int_eq(kiln__op_find(ops, kiln__word_of(others[i].op), KILN__OPS_MAX, &op, NULL), KILN_OK);
        check_op(service, kiln__op_at(ops, (uint32_t)op), others[i].written, others[i].params, dtypes[_i % 4]);
    }
    for (unsigned k = 0; k < 3; k++)
        free(arrays[k]);
    free(results);
    mpfr_free_cache();
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_kernel_templates_ops_suite(void)
{
    Suite *suite = suite_create("ops");
    TCase *tcase = tcase_create("ops");
    tcase_set_timeout(tcase, getenv("KILN_TEST_LONG") != NULL ? 3600 : 120);
    kiln_test_temp_use(tcase);
    tcase_add_loop_test(tcase, test_ops__cpu_agrees_with_mpfr, 0, 32);
    suite_add_tcase(suite, tcase);
    return suite;
}
