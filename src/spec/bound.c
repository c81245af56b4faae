/* How far apart the results of an op may be on a GPU and on the cpu. With math=torch a GPU calls CUDA's functions and
 * the cpu others, within the bounds that lang/primitive.c states. With math=fast more functions differ, and by more. An
 * estimate carries such a difference through the expression: its value is that of the cpu, its error bounds the
 * distance of the other device's value from it. */
#include "spec/bound.h"

#include <float.h>
#include <math.h>

typedef kiln__estimate estimate;

typedef struct estimator {
    const kiln__op_table *ops;
    kiln__dtype stored, computed;
    bool fast, eager;           /* a GPU calls the fast forms of functions; each step rounds to its type */
    bool short_exp;             /* where a step has 16 bits: see KILN_SHORT_EXP in real.h */
    const kiln__typing *typing; /* of the spec's expression; NULL: within an op */
    const kiln__row_bound *row; /* the values of a row, where the spec's op reduces */
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
    const double size = fabs(exact);
    if (error == 0)
        return (estimate){ round_value(e, exact), 0 };
    const double most = kiln__dtype_largest(e->computed);
    if (isnan(error) || (size + error >= most && size - error <= most))
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

/* Whether a GPU squares the fast form of exp(x / 2) for a node. */
static bool is_short_exp(const estimator *e, const kiln__real_node *node)
{
    if (!e->short_exp || !kiln__dtype_is_real(e->stored) || kiln__dtype_bytes(e->stored) != 2 ||
        node->kind != KILN__REAL_FUNCTION)
        return false;
    const char *name = kiln__real_function_name(node);
    return strcmp(name, "exp") == 0 || strcmp(name, "exp_add") == 0;
}

/* The error that a node adds to those of its arguments: `usual`, unless a GPU calls the fast form of its function. */
static double own_error(const estimator *e, const kiln__real *real, const kiln__real_node *node, const double *values,
                        double exact, double usual)
{
    const bool is_short = is_short_exp(e, node);
    const double fast = e->fast || is_short ? kiln__real_fast_error(real, node, values, exact) : 0;
    const double square = 2 * fast + 4 * kiln__dtype_unit(exact, e->computed); /* of 1 + 2^-22, 8 units at most */
    return fast == 0 ? usual : is_short && !e->fast ? square : fast;
}

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
    double error = own_error(e, real, node, values, exact, ulps * unit) + spread + (spread > 0 ? unit : 0);
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

static estimate round_step(const estimator *e, const kiln__real *real, uint32_t i, estimate value)
{
    const bool rounds = e->typing != NULL && kiln__typing_rounds(e->typing, real, i, e->eager);
    return rounds ? convert(value, (kiln__dtype)e->typing->own[i]) : value;
}

/* The value of a step, which may round to its type. `e` is the step's. */
static estimate estimate_step(const estimator *e, const kiln__real *real, uint32_t i, const estimate *args)
{
    estimate result = estimate_node(e, real, &real->nodes[i], args);
    if (e->typing == NULL)
        return result;
    if (e->typing->mixed && !kiln__dtype_is_real(e->computed))
        result.value = kiln__dtype_round(result.value, e->computed);
    return round_step(e, real, i, result);
}

/* The value of a node that reduces or scans. */
static const estimate *value_of_row(const kiln__row_bound *row, const kiln__real_node *node, uint32_t i)
{
    const bool before =
        kiln__reduction_scans((kiln__reduction)node->index) && ((unsigned)node->value & KILN__SCAN_EXCLUSIVE) != 0;
    return before ? &row->before[row->rows.places[i]] : &row->values[row->rows.places[i]];
}

/* The nodes that estimates are calculated from. */
typedef struct needs {
    bool nodes[KILN__REAL_NODES_MAX];
} needs;

/* Whether a node takes its value from its body or from its row, and not from its arguments. */
static bool skips_arguments(const kiln__real_node *node)
{
    return node->body > 0 || node->kind == KILN__REAL_REDUCTION;
}

/* Adds the nodes that those in it need. Nodes come after their arguments and bodies. */
static void complete_needs(needs *needed, const kiln__real *real)
{
    for (uint32_t i = real->count; i-- > 0;) {
        const kiln__real_node *node = &real->nodes[i];
        if (!needed->nodes[i])
            continue;
        if (node->body > 0)
            needed->nodes[node->body] = true;
        for (uint32_t j = 0; j < node->count && !skips_arguments(node); j++)
            needed->nodes[node->args[j]] = true;
    }
}

static void estimate_nodes(const estimator *e, const kiln__real *real, const given *numbers, const needs *needed,
                           estimate all[KILN__REAL_NODES_MAX])
{
    estimate args[KILN__REAL_ARGS_MAX] = { { 0, 0 } };
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        if (!needed->nodes[i])
            continue;
        const estimator step = estimator_of(e, i);
        for (uint32_t j = 0; j < node->count && !skips_arguments(node); j++)
            args[j] = take_argument(e, real, i, j, all);
        all[i] = node->kind == KILN__REAL_NUMBER   ? (estimate){ round_value(&step, node->value), 0 }
                 : node->kind == KILN__REAL_INPUT  ? numbers->inputs[node->index]
                 : node->kind == KILN__REAL_PARAM  ? numbers->params[node->index]
                 : node->kind == KILN__REAL_SCALAR ? (estimate){ round_value(&step, numbers->scalars[node->index]), 0 }
                 : node->kind == KILN__REAL_INDEX  ? (estimate){ numbers->index, 0 }
                 : node->body > 0                  ? round_step(&step, real, i, all[node->body])
                 : node->kind == KILN__REAL_REDUCTION ? *value_of_row(e->row, node, i)
                                                      : estimate_step(&step, real, i, args);
    }
}

static estimate estimate_real(const estimator *e, const kiln__real *real, const given *numbers, uint32_t output)
{
    estimate all[KILN__REAL_NODES_MAX];
    needs needed;
    memset(needed.nodes, 0, real->count * sizeof(*needed.nodes));
    needed.nodes[real->roots[output]] = true;
    complete_needs(&needed, real);
    estimate_nodes(e, real, numbers, &needed, all);
    return all[real->roots[output]];
}

/* All that an estimate of the spec's expression needs but its numbers. */
static estimator make_estimator(const kiln__fields *spec, const kiln__typing *typing, const kiln__row_bound *row,
                                kiln__dtype in)
{
    return (estimator){ .ops = &spec->catalog->ops,
                        .stored = spec->dtype,
                        .computed = kiln__typing_computed(typing->mixed ? in : typing->step),
                        .fast = kiln__spec_is_fast(spec),
                        .eager = spec->round == KILN__ROUND_EAGER,
                        .short_exp = spec->op->reductions > 0 && spec->math != KILN__MATH_PORTABLE,
                        .typing = typing,
                        .row = row };
}

/* The inputs as the expression takes them: a whole number may need a rounding. */
static void take_inputs(const estimator *e, const kiln__fields *spec, const double *values,
                        estimate out[KILN__INPUTS_MAX])
{
    for (uint32_t i = 0; i < spec->op->inputs; i++) {
        double value = values[i];
        if (!e->typing->mixed)
            value = round_value(e, kiln__dtype_convert(value, kiln__spec_input(spec, i), spec->dtype));
        out[i] = (estimate){ value, 0 };
    }
}

/* ---- Rows */

static void fold_sum(kiln__fold *f, double term, double error, bool infinite)
{
    f->sum += term;
    f->size += infinite ? 0 : fabs(term);
    f->error += infinite ? 0 : error;
    f->infinite = f->infinite || infinite;
}

/* NaN is the greatest and the least. */
static void fold_extreme(kiln__fold *f, estimate element, double index, double sign)
{
    const bool above = !f->begun || (f->sum == f->sum && !(sign * element.value <= sign * f->sum));
    if (above) {
        f->sum = element.value;
        f->first = index;
    }
    f->uncertain = element.error > f->uncertain ? element.error : f->uncertain;
    f->begun = true;
}

/* A product: its error is relative. */
static void fold_product(kiln__fold *f, estimate element)
{
    const double size = fabs(element.value);
    f->sum = f->begun ? f->sum * element.value : element.value;
    f->size = (f->begun ? f->size : 1) * (size > 1 ? size : 1);
    f->least = (f->begun ? f->least : 1) * (size < 1 ? size : 1);
    f->error += size != 0 ? element.error / size : 0;
    f->begun = true;
}

static void fold_element(kiln__fold *f, const kiln__row_value *value, estimate element, double index,
                         const estimate *base)
{
    const double distance = base != NULL ? element.value - base->value : element.value;
    const double error = element.error + (base != NULL ? base->error : 0);
    const bool infinite = isinf(element.value) && error == 0;
    switch (value->reduction) {
    case KILN__REDUCE_PROD:
        fold_product(f, element);
        break;
    case KILN__REDUCE_MAX:
    case KILN__REDUCE_ARGMAX:
        fold_extreme(f, element, index, 1);
        break;
    case KILN__REDUCE_MIN:
    case KILN__REDUCE_ARGMIN:
        fold_extreme(f, element, index, -1);
        break;
    case KILN__REDUCE_ANY:
    case KILN__REDUCE_ALL:
        f->sum += (element.value != 0) == (value->reduction == KILN__REDUCE_ANY);
        f->uncertain = element.error > 0 ? 1 : f->uncertain;
        break;
    case KILN__REDUCE_VAR:
    case KILN__REDUCE_STD:
    case KILN__REDUCE_NORM:
        fold_sum(f, distance * distance, 2 * fabs(distance) * error + error * error, isinf(distance) && error == 0);
        break;
    case KILN__REDUCE_LOGSUMEXP:
        fold_sum(f, exp(infinite ? element.value : distance), exp(distance) * (error + 8 * DBL_EPSILON), infinite);
        break;
    default:
        fold_sum(f, element.value, element.error, infinite);
    }
}

/* The root of an estimate. */
static estimate root_of(estimate square)
{
    const double least = square.value > square.error ? square.value - square.error : 0;
    return (estimate){ sqrt(square.value), sqrt(square.value + square.error) - sqrt(least) };
}

/* Whether some order of the terms leaves the range of the type on its way. */
static bool may_overflow(const kiln__fold *f, const kiln__row_value *value)
{
    const kiln__dtype computed = kiln__typing_computed(value->elements);
    return kiln__dtype_is_real(computed) &&
           (f->size >= kiln__dtype_largest(computed) ||
            (value->reduction == KILN__REDUCE_PROD && f->begun && f->least < kiln__dtype_unit(0, computed)));
}

/* The value from its fold. Sums of n terms in two orders differ as a random walk does, in units of the last place of
 * the sum of magnitudes. `unit` is that of 1. */
static estimate finish_fold(const kiln__fold *f, const kiln__row_value *value, const estimate *base, double n,
                            double unit)
{
    const double walk = unit * (64 + 2 * sqrt(n)) * f->size;
    const double freedom = n > value->correction ? n - value->correction : 0;
    estimate sum = { f->sum, f->error + walk };
    switch (value->reduction) {
    case KILN__REDUCE_MEAN:
        return (estimate){ sum.value / n, sum.error / n + unit * fabs(sum.value / n) };
    case KILN__REDUCE_PROD:
        return (estimate){ f->begun ? f->sum : 1, fabs(f->sum) * (f->error + n * unit) };
    case KILN__REDUCE_MAX:
    case KILN__REDUCE_MIN:
        return (estimate){ f->begun                               ? f->sum
                           : value->reduction == KILN__REDUCE_MAX ? -INFINITY
                                                                  : INFINITY,
                           f->uncertain };
    case KILN__REDUCE_ARGMAX:
    case KILN__REDUCE_ARGMIN:
        return (estimate){ f->first, f->uncertain > 0 ? n : 0 };
    case KILN__REDUCE_ANY:
    case KILN__REDUCE_ALL:
        return (estimate){ (f->sum > 0) == (value->reduction == KILN__REDUCE_ANY), f->uncertain };
    case KILN__REDUCE_VAR:
        return (estimate){ sum.value / freedom, sum.error / freedom };
    case KILN__REDUCE_STD:
        return root_of((estimate){ sum.value / freedom, sum.error / freedom });
    case KILN__REDUCE_NORM:
        return root_of(sum);
    case KILN__REDUCE_LOGSUMEXP:
        sum.value = log(sum.value) + (isinf(base->value) ? 0 : base->value);
        return (estimate){ sum.value, sum.error / f->sum + base->error + 16 * unit * (1 + fabs(sum.value)) };
    default:
        return sum;
    }
}

/* A row of the operands of a launch. */
typedef struct row_of {
    kiln__row_bound *out;
    const kiln__fields *spec;
    const kiln__elements *elements;
    const estimator *e;
    uint64_t line;
} row_of;

/* The nodes of the elements that the folds of a stage take. */
static needs needs_of_stage(const row_of *r, uint32_t stage)
{
    needs needed = { { false } };
    for (uint32_t k = 0; k < r->out->rows.count; k++)
        if (r->out->rows.values[k].stage == stage)
            needed.nodes[r->out->rows.values[k].argument] = true;
    complete_needs(&needed, r->spec->op);
    return needed;
}

/* Adds the element of a column to the folds of a stage. */
static void fold_column(const row_of *r, kiln__fold *folds, uint32_t stage, const needs *needed, uint64_t col)
{
    const kiln__elements *elements = r->elements;
    estimate inputs[KILN__INPUTS_MAX], all[KILN__REAL_NODES_MAX];
    double values[KILN__INPUTS_MAX];
    for (uint32_t k = 0; k < r->spec->op->inputs; k++)
        values[k] = kiln__spec_input_value(r->spec, k, elements->ins[k], kiln__elements_at(elements, r->line, col),
                                           elements->columns, elements->inner);
    take_inputs(r->e, r->spec, values, inputs);
    estimate_nodes(r->e, r->spec->op, &(given){ .inputs = inputs, .scalars = elements->scalars, .index = (double)col },
                   needed, all);
    for (uint32_t k = 0; k < r->out->rows.count; k++) {
        const kiln__row_value *value = &r->out->rows.values[k];
        if (value->stage == stage)
            fold_element(&folds[k], value, all[value->argument], (double)col,
                         value->base >= 0 ? &r->out->values[value->base] : NULL);
    }
}

/* Sets the values of a stage from the folds of n elements. */
static void finish_stage(const row_of *r, const kiln__fold *folds, uint32_t stage, uint64_t n)
{
    for (uint32_t k = 0; k < r->out->rows.count; k++) {
        const kiln__row_value *value = &r->out->rows.values[k];
        if (value->stage != stage)
            continue;
        r->out->values[k] = finish_fold(&folds[k], value, value->base >= 0 ? &r->out->values[value->base] : NULL,
                                        (double)n, kiln__dtype_unit(1, kiln__typing_computed(value->elements)));
        estimate *found = &r->out->values[k];
        bool overflows = may_overflow(&folds[k], value);
        if (!overflows && folds[k].infinite && isfinite(folds[k].error) && !isfinite(found->value))
            found->error = 0;
        else if (overflows || isnan(found->error))
            found->error = INFINITY;
    }
}

static void clear_scans(const row_of *r)
{
    r->out->scanned = 0;
    memset(r->out->folds, 0, sizeof(r->out->folds));
    finish_stage(r, r->out->folds, KILN__STAGE_OF_SCANS, 0);
}

void kiln__bound_types_find(kiln__bound_types *out, const kiln__fields *spec)
{
    kiln__spec_type(spec, &out->typing);
    for (uint32_t k = 0; k < spec->op->outputs; k++)
        out->results[k] = kiln__spec_result(spec, k);
}

void kiln__bound_row(kiln__row_bound *out, const kiln__fields *spec, const kiln__bound_types *types,
                     const kiln__elements *elements, uint64_t line)
{
    kiln__rows_make(&out->rows, spec, &types->typing, false);
    const estimator e = make_estimator(spec, &types->typing, out, spec->dtype);
    const row_of row = { out, spec, elements, &e, line };
    for (uint32_t k = 0; k < out->rows.count; k++)
        out->values[k] = out->before[k] = (estimate){ 0, 0 };
    for (uint32_t stage = 0; stage < out->rows.stages; stage++) {
        kiln__fold folds[KILN__ROW_VALUES_MAX] = { { 0 } };
        const needs needed = needs_of_stage(&row, stage);
        for (uint64_t col = 0; col < elements->columns; col++)
            fold_column(&row, folds, stage, &needed, col);
        finish_stage(&row, folds, stage, elements->columns);
    }
    clear_scans(&row);
}

void kiln__bound_scan(kiln__row_bound *out, const kiln__fields *spec, const kiln__bound_types *types,
                      const kiln__elements *elements, uint64_t line, uint64_t i)
{
    const estimator e = make_estimator(spec, &types->typing, out, spec->dtype);
    const row_of row = { out, spec, elements, &e, line };
    const needs needed = needs_of_stage(&row, KILN__STAGE_OF_SCANS);
    if (i + 1 < out->scanned)
        clear_scans(&row);
    while (out->scanned <= i) {
        memcpy(out->before, out->values, sizeof(out->before));
        fold_column(&row, out->folds, KILN__STAGE_OF_SCANS, &needed,
                    kiln__elements_in_order(elements, spec->op, out->scanned++));
        finish_stage(&row, out->folds, KILN__STAGE_OF_SCANS, out->scanned);
    }
}

kiln__estimate kiln__bound_estimate(const kiln__fields *spec, const kiln__bound_types *types,
                                    const kiln__real_numbers *numbers, const kiln__row_bound *row, uint32_t output)
{
    estimate inputs[KILN__INPUTS_MAX] = { { 0, 0 } };
    const estimator e = make_estimator(spec, &types->typing, row, kiln__typing_in(&types->typing, spec->op, output));
    take_inputs(&e, spec, numbers->inputs, inputs);
    const given taken = { .inputs = inputs, .scalars = numbers->scalars, .index = numbers->index };
    estimate result = estimate_real(&e, spec->op, &taken, output);
    kiln__dtype stored = types->results[output];
    if (result.error > 0 && kiln__dtype_unit(1, stored) > kiln__dtype_unit(1, e.computed))
        result.error += kiln__dtype_unit(result.value, stored);
    return result;
}

/* Results of an op that is not exact may be one unit apart. */
bool kiln__bound_is_near(const kiln__bound_types *types, uint32_t output, double got, double want)
{
    const kiln__dtype stored = types->results[output];
    return kiln__dtype_is_real(stored) && difference(got, want) <= kiln__dtype_unit(want, stored);
}

bool kiln__bound_agrees(const kiln__fields *spec, const kiln__bound_types *types, const kiln__real_numbers *numbers,
                        const kiln__row_bound *row, uint32_t output, double got, double want)
{
    kiln__dtype stored = types->results[output];
    double apart = difference(got, want);
    if (kiln__bound_is_near(types, output, got, want))
        return true;
    const estimate result = kiln__bound_estimate(spec, types, numbers, row, output);
    if (result.error == 0)
        return false;
    if (stored == KILN__DTYPE_BOOL) /* whose values are one apart at most */
        return apart <= 1 && (apart <= result.error || fabs(result.value) <= result.error);
    double around = ldexp(1, 8 * (int)kiln__dtype_bytes(stored));
    if (!kiln__dtype_is_real(stored)) /* they wrap around */
        return apart <= result.error || (apart < around && around - apart <= result.error);
    bool overflows = fabs(result.value) + result.error > kiln__dtype_largest(stored);
    return apart <= result.error || (overflows && !(isfinite(got) && isfinite(want)));
}
