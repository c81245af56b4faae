/* How far apart the results of an op may be on a GPU and on the cpu. With math=torch a GPU calls CUDA's functions and
 * the cpu others, within the bounds that lang/primitive.c states. With math=fast more functions differ, and by more. An
 * estimate carries such a difference through the expression: its value is that of the cpu, its error bounds the
 * distance of the other device's value from it. */
#include "lang/real.h"
#include "spec/fields.h"

#include <math.h>

typedef struct estimate {
    double value, error; /* error 0: equal bits */
} estimate;

typedef struct estimator {
    const kiln__op_table *ops;
    kiln__dtype stored, computed;
    bool fast, eager;           /* a GPU calls the fast forms of functions; each step rounds to its type */
    const kiln__typing *typing; /* of the spec's expression; NULL: within an op */
} estimator;

static double difference(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isnan(a) || isnan(b) ? INFINITY : fabs(a - b);
}

static double round_value(const estimator *e, double value)
{
    return e->computed == KILN__DTYPE_F32 ? (double)(float)value : value;
}

/* An infinite error is that of values that may overflow on one device alone. */
static estimate make_estimate(const estimator *e, double exact, double error)
{
    double most = kiln__dtype_largest(e->computed), size = fabs(exact);
    if (error > 0 && (isnan(error) || (size + error >= most && size - error <= most)))
        error = INFINITY;
    return (estimate){ round_value(e, exact), error };
}

/* How far the value of a node moves when its arguments do, one at a time. */
static double spread_of(const kiln__real_node *node, const estimate *args, const double *values, double exact)
{
    double moved[KILN__REAL_ARGS_MAX], spread = 0;
    for (uint32_t i = 0; i < node->count; i++) {
        if (args[i].error == 0)
            continue;
        memcpy(moved, values, node->count * sizeof(*values));
        moved[i] = values[i] + args[i].error;
        double up = difference(kiln__real_apply(node, moved), exact);
        moved[i] = values[i] - args[i].error;
        double down = difference(kiln__real_apply(node, moved), exact);
        spread += up > down ? up : down;
    }
    return spread;
}

/* An error of 1: the other device may have the other truth value. */
static estimate estimate_truth(const kiln__real_node *node, const estimate *args, double value)
{
    double error = args[0].error + (node->count > 1 ? args[1].error : 0);
    bool close = kiln__real_is_logical(node) || !(difference(args[0].value, args[1].value) > error);
    return (estimate){ value, error > 0 && close ? 1 : 0 };
}

static estimate estimate_choice(const estimate *args)
{
    const estimate *taken = args[0].value != 0 ? &args[1] : &args[2], *other = args[0].value != 0 ? &args[2] : &args[1];
    double error = taken->error;
    if (args[0].error > 0)
        error += difference(taken->value, other->value) + other->error;
    return (estimate){ taken->value, error };
}

/* The numbers that an expression takes. */
typedef struct given {
    const estimate *inputs, *params;
    const double *scalars;
    double index;
} given;

static estimate estimate_real(const estimator *e, const kiln__real *real, const given *numbers, uint32_t output);

static estimate estimate_node(const estimator *e, const kiln__real *real, const kiln__real_node *node,
                              const estimate *args)
{
    double values[KILN__REAL_ARGS_MAX] = { 0 };
    for (uint32_t i = 0; i < node->count; i++)
        values[i] = args[i].value;
    if (node->kind == KILN__REAL_OP) {
        const kiln__op *op = kiln__op_at(e->ops, node->index);
        estimator inner = *e;
        inner.typing = NULL;
        return estimate_real(&inner, op->real, &(given){ .inputs = args, .params = args + op->inputs }, node->output);
    }
    if (node->kind == KILN__REAL_CHOICE)
        return estimate_choice(args);
    double exact = kiln__real_apply(node, values);
    if (kiln__real_is_comparison(node) || kiln__real_is_logical(node))
        return estimate_truth(node, args, exact);
    double ulps, scale = kiln__real_error_scale(node, values, exact, &ulps);
    double spread = spread_of(node, args, values, exact);
    double unit = kiln__dtype_unit(scale, e->computed);
    double own = e->fast ? kiln__real_fast_error(real, node, values, exact) : 0;
    if (own == 0)
        own = ulps * unit;
    double error = own + spread + (spread > 0 ? unit : 0);
    if (spread > 0 && kiln__real_stores(node))
        error += kiln__dtype_unit(exact, e->stored);
    return make_estimate(e, exact, error);
}

/* A value as one of another type. */
static estimate convert(estimate from, kiln__dtype to)
{
    double rounded = kiln__dtype_round(from.value, to);
    return (estimate){ rounded, from.error > 0 ? from.error + kiln__dtype_unit(rounded, to) : 0 };
}

/* Argument j of node i, in the type that the node is calculated in. */
static estimate take_argument(const estimator *e, const kiln__real *real, uint32_t i, uint32_t j, const estimate *all)
{
    const kiln__real_node *node = &real->nodes[i];
    uint16_t argument = node->args[j];
    kiln__dtype own = e->typing != NULL ? (kiln__dtype)e->typing->own[argument] : KILN__DTYPE_UNSET;
    bool condition = kiln__real_is_logical(node) || (node->kind == KILN__REAL_CHOICE && j == 0);
    kiln__dtype in = e->typing != NULL ? (kiln__dtype)e->typing->in[i] : KILN__DTYPE_UNSET;
    if (e->typing != NULL && kiln__typing_rounds_number(e->typing, real, i, j))
        return convert(all[argument], in);
    if (own == KILN__DTYPE_UNSET || !e->typing->mixed || condition)
        return all[argument];
    return kiln__dtype_holds(in, own) ? all[argument] : convert(all[argument], in);
}

/* A step of the spec's expression is calculated in its own type. */
static estimator estimator_of(const estimator *e, uint32_t i)
{
    estimator step = *e;
    if (e->typing == NULL || !e->typing->mixed)
        return step;
    step.stored = (kiln__dtype)e->typing->in[i];
    step.computed = kiln__typing_computed(step.stored);
    step.fast = e->fast && step.computed == KILN__DTYPE_F32;
    return step;
}

/* The value of a step, which may round to its type. `e` is the step's. */
static estimate estimate_step(const estimator *e, const kiln__real *real, uint32_t i, const estimate *args)
{
    estimate result = estimate_node(e, real, &real->nodes[i], args);
    if (e->typing == NULL)
        return result;
    if (e->typing->mixed && !kiln__dtype_is_real(e->computed))
        result.value = kiln__dtype_round(result.value, e->computed);
    return kiln__typing_rounds(e->typing, real, i, e->eager) ? convert(result, (kiln__dtype)e->typing->own[i]) : result;
}

static estimate estimate_real(const estimator *e, const kiln__real *real, const given *numbers, uint32_t output)
{
    estimate all[KILN__REAL_NODES_MAX], args[KILN__REAL_ARGS_MAX] = { { 0, 0 } };
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        const estimator step = estimator_of(e, i);
        for (uint32_t j = 0; j < node->count; j++)
            args[j] = take_argument(e, real, i, j, all);
        all[i] = node->kind == KILN__REAL_NUMBER   ? (estimate){ round_value(&step, node->value), 0 }
                 : node->kind == KILN__REAL_INPUT  ? numbers->inputs[node->index]
                 : node->kind == KILN__REAL_PARAM  ? numbers->params[node->index]
                 : node->kind == KILN__REAL_SCALAR ? (estimate){ round_value(&step, numbers->scalars[node->index]), 0 }
                 : node->kind == KILN__REAL_INDEX  ? (estimate){ numbers->index, 0 }
                                                   : estimate_step(&step, real, i, args);
    }
    return all[real->roots[output]];
}

bool kiln__bound_agrees(const kiln__fields *spec, const kiln__real_numbers *numbers, uint32_t output, double got,
                        double want)
{
    kiln__dtype stored = kiln__spec_result(spec, output);
    double unit = kiln__dtype_unit(want, stored), apart = difference(got, want);
    if (apart <= unit && kiln__dtype_is_real(stored)) /* of an op that is not exact, and cheaper than an estimate */
        return true;
    kiln__typing typing;
    kiln__spec_type(spec, &typing);
    estimator e = { .ops = &spec->catalog->ops,
                    .stored = spec->dtype,
                    .computed =
                        kiln__typing_computed(typing.mixed ? kiln__typing_in(&typing, spec->op, output) : typing.step),
                    .fast = kiln__spec_is_fast(spec),
                    .eager = spec->round == KILN__ROUND_EAGER,
                    .typing = &typing };
    estimate inputs[KILN__INPUTS_MAX] = { { 0, 0 } };
    for (uint32_t i = 0; i < spec->op->inputs; i++) {
        double value = numbers->inputs[i];
        if (!typing.mixed) /* a whole number may need a rounding */
            value = round_value(&e, kiln__dtype_convert(value, kiln__spec_input(spec, i), spec->dtype));
        inputs[i].value = value;
    }
    const given taken = { .inputs = inputs, .scalars = numbers->scalars, .index = numbers->index };
    estimate result = estimate_real(&e, spec->op, &taken, output);
    if (result.error == 0)
        return false;
    if (stored == KILN__DTYPE_BOOL) /* whose values are one apart at most */
        return apart <= 1 && (apart <= result.error || fabs(result.value) <= result.error);
    bool stores = kiln__dtype_unit(1, stored) > kiln__dtype_unit(1, e.computed);
    double error = result.error + (stores ? unit : 0), around = ldexp(1, 8 * (int)kiln__dtype_bytes(stored));
    if (!kiln__dtype_is_real(stored)) /* they wrap around */
        return apart <= error || (apart < around && around - apart <= error);
    bool overflows = fabs(result.value) + error > kiln__dtype_largest(stored);
    return apart <= error || (overflows && !(isfinite(got) && isfinite(want)));
}
