/* Terms are nodes of a graph in which equal ones are one, so that a definition names what it has several times. */
#include "lang/derive.h"

#include "base/alloc.h"
#include "base/number.h"
#include "lang/primitive.h"
#include "lang/reduction.h"
#include "lang/syntax.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TERMS_MAX = 4096, NONE = UINT16_MAX };

typedef enum term_kind { TERM_NUMBER, TERM_NAME, TERM_NEGATE, TERM_NOT, TERM_BINARY, TERM_CHOICE, TERM_CALL } term_kind;

/* Arguments have lower numbers. */
typedef struct term {
    term_kind kind;
    int index; /* TERM_BINARY: a kiln__operator; the call of a reduction: which, + 1; TERM_NAME: its number or -1 */
    const char *name; /* TERM_NAME: its letter; TERM_CALL: the function */
    double value;     /* TERM_NUMBER; the correction or the bits of a reduction */
    uint16_t args[KILN__REAL_ARGS_MAX], count;
    bool varies, needed;           /* needed: a wanted input is in it */
    const kiln__op *op, *backward; /* of the call of an op that has a backward op, both */
} term;

typedef struct deriver {
    const kiln__derivation *d;
    kiln_report *report;
    kiln_status status;
    bool forward; /* no scan begins at the end of the axis but those of the op */
    uint32_t count;
    bool from_varying; /* the term whose gradient is given to its arguments varies */
    term terms[TERMS_MAX];
    uint16_t varying[TERMS_MAX], fixed[TERMS_MAX]; /* the gradient of each term: the part of it that varies along the
                                                      axis, and the part that does not */
} deriver;

#define FAIL(w, ...) \
    ((w)->status =   \
         (w)->status == KILN_OK ? kiln__fail((w)->report, KILN_EOP, KILN__STAGE_SPEC, 0, __VA_ARGS__) : (w)->status)

/* ---- Terms */

static bool is_number(const deriver *w, uint16_t t, double value)
{
    return w->terms[t].kind == TERM_NUMBER && w->terms[t].value == value;
}

static bool same_term(const term *a, const term *b)
{
    return a->kind == b->kind && a->index == b->index && a->count == b->count &&
           memcmp(&a->value, &b->value, sizeof(a->value)) == 0 &&
           (a->name == b->name || strcmp(a->name, b->name) == 0) &&
           memcmp(a->args, b->args, a->count * sizeof(a->args[0])) == 0;
}

/* The number of a term, which is added where there is none like it. A term varies if an argument does, but a reduction
 * has one value. */
static uint16_t add_term(deriver *w, term t)
{
    const bool reduces = t.kind == TERM_CALL && t.index > 0;
    if (t.name == NULL)
        t.name = "";
    if (reduces)
        t.varies = kiln__reduction_scans((kiln__reduction)(t.index - 1));
    for (uint16_t i = 0; i < t.count && !reduces; i++)
        t.varies = t.varies || w->terms[t.args[i]].varies;
    for (uint32_t i = 0; i < w->count; i++)
        if (same_term(&w->terms[i], &t))
            return (uint16_t)i;
    if (w->count == TERMS_MAX) {
        FAIL(w, "the derivative has more than %d terms", TERMS_MAX);
        return 0;
    }
    w->terms[w->count] = t;
    return (uint16_t)w->count++;
}

static uint16_t number(deriver *w, double value)
{
    return add_term(w, (term){ .kind = TERM_NUMBER, .value = value });
}

static uint16_t name(deriver *w, const char *letter, int index, bool varies)
{
    return add_term(w, (term){ .kind = TERM_NAME, .name = letter, .index = index, .varies = varies });
}

/* Numbers are calculated here, so that a branch that the parameters of an op leave out has no part in the gradient. */
static uint16_t binary(deriver *w, kiln__operator op, uint16_t a, uint16_t b)
{
    const kiln__real_node node = { .kind = KILN__REAL_BINARY, .index = (uint16_t)op, .count = 2 };
    const double numbers[] = { w->terms[a].value, w->terms[b].value };
    if (w->terms[a].kind == TERM_NUMBER && w->terms[b].kind == TERM_NUMBER)
        return number(w, kiln__real_apply(&node, numbers));
    return add_term(w, (term){ .kind = TERM_BINARY, .index = (int)op, .args = { a, b }, .count = 2 });
}

static uint16_t choose(deriver *w, uint16_t condition, uint16_t a, uint16_t b)
{
    if (w->terms[condition].kind == TERM_NUMBER)
        return w->terms[condition].value != 0 ? a : b;
    return a == b ? a : add_term(w, (term){ .kind = TERM_CHOICE, .args = { condition, a, b }, .count = 3 });
}

/* Whether a term is 0 in a branch. A factor goes into the other one, so that 0 stays 0 where the factor is infinite. */
static bool is_masked(const deriver *w, uint16_t t)
{
    const term *choice = &w->terms[t];
    return choice->kind == TERM_CHOICE && (is_number(w, choice->args[1], 0) || is_number(w, choice->args[2], 0));
}

static uint16_t negate(deriver *w, uint16_t a)
{
    if (w->terms[a].kind == TERM_NEGATE)
        return w->terms[a].args[0];
    if (w->terms[a].kind == TERM_NUMBER)
        return number(w, -w->terms[a].value);
    if (is_masked(w, a)) {
        const term choice = w->terms[a];
        const uint16_t first = negate(w, choice.args[1]), second = negate(w, choice.args[2]);
        return choose(w, choice.args[0], first, second);
    }
    return add_term(w, (term){ .kind = TERM_NEGATE, .args = { a }, .count = 1 });
}

static uint16_t plus(deriver *w, uint16_t a, uint16_t b)
{
    if (is_number(w, a, 0) || is_number(w, b, 0))
        return is_number(w, a, 0) ? b : a;
    if (is_masked(w, a) && is_masked(w, b) && w->terms[a].args[0] == w->terms[b].args[0]) {
        const term one = w->terms[a], other = w->terms[b];
        const uint16_t first = plus(w, one.args[1], other.args[1]), second = plus(w, one.args[2], other.args[2]);
        return choose(w, one.args[0], first, second);
    }
    return binary(w, KILN__OPERATOR_ADD, a, b);
}

static uint16_t minus(deriver *w, uint16_t a, uint16_t b)
{
    return is_number(w, b, 0) ? a : is_number(w, a, 0) ? negate(w, b) : binary(w, KILN__OPERATOR_SUB, a, b);
}

/* A masked term of which each branch is combined with b. */
static uint16_t of_branches(deriver *w, uint16_t (*combine)(deriver *, uint16_t, uint16_t), uint16_t masked, uint16_t b)
{
    const term choice = w->terms[masked];
    const uint16_t first = combine(w, choice.args[1], b), second = combine(w, choice.args[2], b);
    return choose(w, choice.args[0], first, second);
}

static uint16_t times(deriver *w, uint16_t a, uint16_t b)
{
    if (is_number(w, a, 0) || is_number(w, b, 0))
        return number(w, 0);
    if (is_number(w, a, 1) || is_number(w, b, 1))
        return is_number(w, a, 1) ? b : a;
    if (is_number(w, a, -1) || is_number(w, b, -1))
        return negate(w, is_number(w, a, -1) ? b : a);
    if (is_masked(w, a))
        return of_branches(w, times, a, b);
    return binary(w, KILN__OPERATOR_MUL, a, b);
}

static uint16_t over(deriver *w, uint16_t a, uint16_t b)
{
    if (is_number(w, a, 0) || is_number(w, b, 1))
        return a;
    if (is_masked(w, a))
        return of_branches(w, over, a, b);
    return binary(w, KILN__OPERATOR_DIV, a, b);
}

static uint16_t call(deriver *w, const char *function, uint16_t a)
{
    return add_term(w, (term){ .kind = TERM_CALL, .name = function, .args = { a }, .count = 1 });
}

static uint16_t call2(deriver *w, const char *function, uint16_t a, uint16_t b)
{
    return add_term(w, (term){ .kind = TERM_CALL, .name = function, .args = { a, b }, .count = 2 });
}

/* `value`: the correction of var and std, or the bits of a scan. */
static uint16_t reduce(deriver *w, kiln__reduction reduction, double value, uint16_t a)
{
    return add_term(w, (term){ .kind = TERM_CALL,
                               .name = kiln__reduction_name(reduction),
                               .index = (int)reduction + 1,
                               .value = value,
                               .args = { a },
                               .count = 1 });
}

static uint16_t sum(deriver *w, uint16_t a)
{
    return is_number(w, a, 0) ? a : reduce(w, KILN__REDUCE_SUM, 0, a);
}

/* The number of elements along the axis: a whole number, which is infinite in float16 from 65,520 on. The reciprocal is
 * float32, which is too little for float64. */
static uint16_t length(deriver *w)
{
    return plus(w, reduce(w, KILN__REDUCE_MAX, 0, name(w, "index", -1, true)), number(w, 1));
}

static uint16_t reciprocal_length(deriver *w)
{
    return reduce(w, KILN__REDUCE_MEAN, 0, binary(w, KILN__OPERATOR_EQ, name(w, "index", -1, true), number(w, 0)));
}

/* g / (n - less), where the axis has n elements. */
static uint16_t split(deriver *w, uint16_t g, double less)
{
    if (w->d->wide)
        return over(w, g, minus(w, length(w), number(w, less)));
    const uint16_t share = reciprocal_length(w);
    return over(w, times(w, g, share), minus(w, number(w, 1), times(w, number(w, less), share)));
}

/* g * n */
static uint16_t repeat(deriver *w, uint16_t g)
{
    return w->d->wide ? times(w, g, length(w)) : over(w, g, reciprocal_length(w));
}

/* ---- From an expression to terms */

typedef struct scope {
    const kiln__real *real;
    const uint16_t *inputs, *params;
} scope;

static uint16_t translate(deriver *w, const scope *in, uint16_t index, uint16_t *memo);

static uint16_t translate_root(deriver *w, const scope *in, uint16_t root)
{
    uint16_t memo[KILN__REAL_NODES_MAX];
    memset(memo, 0xff, sizeof(memo));
    return translate(w, in, root, memo);
}

/* NAME_backward with the inputs (grad, x) or (grad, y), or NULL. */
static const kiln__op *find_backward(deriver *w, const kiln__op *op)
{
    char text[KILN__OP_NAME_SIZE + 16];
    int found = -1;
    const int length = snprintf(text, sizeof(text), "%s_backward", op->name);
    if (op->inputs != 1 || op->outputs != 1 || length >= KILN__OP_NAME_SIZE || w->status != KILN_OK)
        return NULL;
    w->status = kiln__op_find(w->d->ops, kiln__word_of(text), UINT32_MAX, &found, w->report);
    const kiln__op *backward = w->status == KILN_OK && found >= 0 ? kiln__op_at(w->d->ops, (uint32_t)found) : NULL;
    const bool fits = backward != NULL && backward->inputs == 2 && backward->outputs == 1 &&
                      strcmp(backward->input_names[0], "grad") == 0 && kiln__real_root(op->real, 0)->varies &&
                      (strcmp(backward->input_names[1], "x") == 0 || strcmp(backward->input_names[1], "y") == 0);
    return fits ? backward : NULL;
}

static uint16_t translate_op(deriver *w, const scope *in, const kiln__real_node *node, uint16_t *memo)
{
    const kiln__op *op = kiln__op_at(w->d->ops, node->index), *backward = find_backward(w, op);
    term made = { .kind = TERM_CALL, .name = op->name, .count = node->count, .backward = backward, .op = op };
    for (uint32_t i = 0; i < node->count; i++)
        made.args[i] = translate(w, in, node->args[i], memo);
    if (backward != NULL)
        return add_term(w, made);
    if (node->body > 0)
        return translate(w, in, node->body, memo);
    const scope inner = { op->real, made.args, made.args + op->inputs };
    return translate_root(w, &inner, op->real->roots[node->output]);
}

/* A function of numbers alone is one. */
static uint16_t translate_function(deriver *w, const kiln__primitive *function, term made)
{
    double arguments[KILN__REAL_ARGS_MAX];
    bool fixed = true;
    for (uint16_t i = 0; i < made.count; i++) {
        fixed = fixed && w->terms[made.args[i]].kind == TERM_NUMBER;
        arguments[i] = w->terms[made.args[i]].value;
    }
    if (fixed)
        return number(w, function->value(arguments));
    made.kind = TERM_CALL;
    made.name = function->name;
    return add_term(w, made);
}

static uint16_t translate_node(deriver *w, const scope *in, const kiln__real_node *node, uint16_t *memo)
{
    term made = { .count = node->count };
    if (node->kind == KILN__REAL_OP)
        return translate_op(w, in, node, memo);
    for (uint32_t i = 0; i < node->count; i++)
        made.args[i] = translate(w, in, node->args[i], memo);
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_NUMBER:
        return number(w, node->value);
    case KILN__REAL_INPUT:
        return in->inputs[node->index];
    case KILN__REAL_PARAM:
        return in->params[node->index];
    case KILN__REAL_SCALAR:
        return name(w, "s", node->index + 1, false);
    case KILN__REAL_INDEX:
        return name(w, "index", -1, true);
    case KILN__REAL_NEGATE:
        return negate(w, made.args[0]);
    case KILN__REAL_NOT:
        made.kind = TERM_NOT;
        return add_term(w, made);
    case KILN__REAL_BINARY:
        return binary(w, (kiln__operator)node->index, made.args[0], made.args[1]);
    case KILN__REAL_CHOICE:
        return choose(w, made.args[0], made.args[1], made.args[2]);
    case KILN__REAL_REDUCTION:
        return reduce(w, (kiln__reduction)node->index, node->value, made.args[0]);
    default:
        return translate_function(w, kiln__primitive_at(node->index), made);
    }
}

static uint16_t translate(deriver *w, const scope *in, uint16_t index, uint16_t *memo)
{
    if (memo[index] == NONE)
        memo[index] = translate_node(w, in, &in->real->nodes[index], memo);
    return memo[index];
}

/* ---- Gradients, from the results to the inputs */

/* Adds to the gradient of a term. A part that varies is summed over the axis later, where the term does not vary. One
 * that does not counts once for each element that has it. */
static void give(deriver *w, uint16_t to, uint16_t gradient)
{
    if (!w->terms[to].needed || is_number(w, gradient, 0))
        return;
    if (w->from_varying && !w->terms[to].varies && !w->terms[gradient].varies)
        gradient = repeat(w, gradient);
    uint16_t *at = w->terms[gradient].varies ? &w->varying[to] : &w->fixed[to];
    *at = *at == NONE ? gradient : plus(w, *at, gradient);
}

static uint16_t gradient_of(deriver *w, uint16_t t)
{
    uint16_t varying = w->varying[t], fixed = w->fixed[t];
    if (varying != NONE && !w->terms[t].varies)
        varying = sum(w, varying);
    return varying == NONE ? fixed : fixed == NONE ? varying : plus(w, varying, fixed);
}

static void derive_binary(deriver *w, const term *t, uint16_t value, uint16_t g)
{
    const uint16_t a = t->args[0], b = t->args[1];
    switch ((kiln__operator)t->index) {
    case KILN__OPERATOR_ADD:
        give(w, a, g);
        give(w, b, g);
        break;
    case KILN__OPERATOR_SUB:
        give(w, a, g);
        give(w, b, negate(w, g));
        break;
    case KILN__OPERATOR_MUL:
        give(w, a, times(w, g, b));
        give(w, b, times(w, g, a));
        break;
    case KILN__OPERATOR_DIV:
        give(w, a, over(w, g, b));
        give(w, b, negate(w, over(w, times(w, g, value), b)));
        break;
    default: /* comparisons and logic are flat */
        break;
    }
}

/* g where a comes before b in the order, half of it where both are equal, else 0. */
static uint16_t share(deriver *w, kiln__operator order, uint16_t a, uint16_t b, uint16_t g)
{
    return choose(w, binary(w, order, a, b), g,
                  choose(w, binary(w, KILN__OPERATOR_EQ, a, b), times(w, g, number(w, 0.5)), number(w, 0)));
}

/* Of a function with one argument the factor of the gradient; NONE: it has no derivative here. */
static uint16_t slope(deriver *w, const char *f, uint16_t x, uint16_t y)
{
    const double pi = 3.14159265358979323846, ln2 = 0.69314718055994530942, ln10 = 2.30258509299404568402;
    const uint16_t one = number(w, 1), zero = number(w, 0);
#define IS(text) (strcmp(f, text) == 0)
    if (IS("floor") || IS("ceil") || IS("trunc") || IS("rint"))
        return zero;
    if (IS("stored"))
        return one;
    if (IS("abs"))
        return choose(w, binary(w, KILN__OPERATOR_GT, x, zero), one,
                      choose(w, binary(w, KILN__OPERATOR_LT, x, zero), number(w, -1), zero));
    if (IS("sqrt"))
        return over(w, number(w, 0.5), y);
    if (IS("rsqrt"))
        return times(w, times(w, times(w, number(w, -0.5), y), y), y);
    if (IS("exp"))
        return y;
    if (IS("exp2"))
        return times(w, y, number(w, ln2));
    if (IS("expm1"))
        return plus(w, y, one);
    if (IS("log"))
        return over(w, one, x);
    if (IS("log1p"))
        return over(w, one, plus(w, one, x));
    if (IS("log2"))
        return over(w, number(w, 1 / ln2), x);
    if (IS("log10"))
        return over(w, number(w, 1 / ln10), x);
    if (IS("tanh"))
        return minus(w, one, times(w, y, y));
    if (IS("sin"))
        return call(w, "cos", x);
    if (IS("cos"))
        return negate(w, call(w, "sin", x));
    if (IS("tan"))
        return plus(w, one, times(w, y, y));
    if (IS("asin"))
        return call(w, "rsqrt", minus(w, one, times(w, x, x)));
    if (IS("acos"))
        return negate(w, call(w, "rsqrt", minus(w, one, times(w, x, x))));
    if (IS("atan"))
        return over(w, one, plus(w, one, times(w, x, x)));
    if (IS("sinh"))
        return call(w, "cosh", x);
    if (IS("cosh"))
        return call(w, "sinh", x);
    if (IS("asinh"))
        return call(w, "rsqrt", plus(w, times(w, x, x), one));
    if (IS("acosh"))
        return call(w, "rsqrt", minus(w, times(w, x, x), one));
    if (IS("atanh"))
        return over(w, one, minus(w, one, times(w, x, x)));
    if (IS("erf") || IS("erfc"))
        return times(w, number(w, (IS("erf") ? 2 : -2) / sqrt(pi)), call(w, "exp", negate(w, times(w, x, x))));
    return NONE;
}

/* Where one of both is a number, that has no part in ties: max(x, 0) is flat at 0, as PyTorch's relu. A NaN has none
 * where the other is taken. */
static void derive_order(deriver *w, const term *t, uint16_t g)
{
    const kiln__operator order = strstr(t->name, "min") != NULL ? KILN__OPERATOR_LT : KILN__OPERATOR_GT;
    const bool fixed = w->terms[t->args[0]].kind == TERM_NUMBER || w->terms[t->args[1]].kind == TERM_NUMBER;
    for (int i = 0; i < 2; i++) {
        const uint16_t a = t->args[i], b = t->args[1 - i];
        uint16_t part = share(w, order, a, b, g);
        if (fixed)
            part = choose(w, binary(w, order, a, b), g, number(w, 0));
        if (t->name[0] == 'f')
            part = choose(w, binary(w, KILN__OPERATOR_NE, b, b), g, part);
        give(w, a, part);
    }
}

static void derive_two(deriver *w, const term *t, uint16_t value, uint16_t g)
{
    const char *f = t->name;
    const uint16_t a = t->args[0], b = t->args[1], zero = number(w, 0);
    if (IS("min") || IS("fmin") || IS("max") || IS("fmax")) {
        derive_order(w, t, g);
    } else if (IS("div")) {
        give(w, a, over(w, g, b));
        give(w, b, negate(w, over(w, times(w, g, value), b)));
    } else if (IS("fmod")) {
        give(w, a, g);
        give(w, b, negate(w, times(w, g, call(w, "trunc", over(w, a, b)))));
    } else if (IS("copysign")) {
        const uint16_t turned = binary(w, KILN__OPERATOR_NE, binary(w, KILN__OPERATOR_LT, a, zero),
                                       binary(w, KILN__OPERATOR_LT, value, zero));
        give(w, a, choose(w, binary(w, KILN__OPERATOR_EQ, a, zero), zero, choose(w, turned, negate(w, g), g)));
    } else if (IS("exp_add")) {
        give(w, a, g);
        give(w, b, times(w, g, call(w, "exp", b)));
    } else if (IS("atan2")) {
        const uint16_t square = plus(w, times(w, a, a), times(w, b, b));
        give(w, a, over(w, times(w, g, b), square));
        give(w, b, negate(w, over(w, times(w, g, a), square)));
    } else if (IS("hypot")) {
        const uint16_t flat = binary(w, KILN__OPERATOR_EQ, value, zero);
        give(w, a, choose(w, flat, zero, times(w, g, over(w, a, value))));
        give(w, b, choose(w, flat, zero, times(w, g, over(w, b, value))));
    } else if (IS("pow")) {
        const bool fixed = w->terms[b].kind == TERM_NUMBER;
        const uint16_t below = is_number(w, b, 2) ? a : call2(w, "pow", a, minus(w, b, number(w, 1)));
        const uint16_t rises = times(w, g, times(w, b, below)), flat = binary(w, KILN__OPERATOR_EQ, a, zero);
        give(w, a, fixed ? rises : choose(w, binary(w, KILN__OPERATOR_EQ, b, zero), zero, rises));
        if (!fixed)
            give(w, b, choose(w, flat, zero, times(w, g, times(w, value, call(w, "log", a)))));
    } else {
        FAIL(w, "%s has no derivative", f);
    }
}

static void derive_three(deriver *w, const term *t, uint16_t g)
{
    const char *f = t->name;
    const uint16_t a = t->args[0], b = t->args[1], c = t->args[2], zero = number(w, 0);
    if (IS("fma")) {
        give(w, a, times(w, g, b));
        give(w, b, times(w, g, a));
        give(w, c, g);
    } else if (IS("clamp")) {
        const uint16_t below = binary(w, KILN__OPERATOR_LT, a, b), above = binary(w, KILN__OPERATOR_GT, a, c);
        const uint16_t turned = binary(w, KILN__OPERATOR_GT, b, c); /* then the value is c */
        give(w, a, choose(w, binary(w, KILN__OPERATOR_OR, below, above), zero, g));
        give(w, b, choose(w, turned, zero, choose(w, below, g, zero)));
        give(w, c, choose(w, binary(w, KILN__OPERATOR_OR, above, turned), g, zero));
    } else {
        FAIL(w, "%s has no derivative", f);
    }
}

/* An element counts in the sums from itself on: those of the gradient in the other direction. All scans of an op have
 * one direction. Where the value of the scan is needed, too, the sum of all less those before is taken, which
 * cancels. */
static void derive_scan(deriver *w, const term *t, uint16_t g)
{
    const int bits = (int)t->value;
    if ((kiln__reduction)(t->index - 1) != KILN__SCAN_SUM)
        FAIL(w, "%s has no derivative here", t->name);
    else if (!w->forward)
        give(w, t->args[0], reduce(w, KILN__SCAN_SUM, bits ^ KILN__SCAN_REVERSE, g));
    else
        give(w, t->args[0], minus(w, sum(w, g), reduce(w, KILN__SCAN_SUM, bits ^ KILN__SCAN_EXCLUSIVE, g)));
}

static void derive_reduction(deriver *w, const term *t, uint16_t value, uint16_t g)
{
    const kiln__reduction reduction = (kiln__reduction)(t->index - 1);
    const uint16_t x = t->args[0], zero = number(w, 0);
    uint16_t chosen;
    if (kiln__reduction_scans(reduction)) {
        derive_scan(w, t, g);
        return;
    }
    switch (reduction) {
    case KILN__REDUCE_SUM:
        give(w, x, g);
        break;
    case KILN__REDUCE_MEAN:
        give(w, x, split(w, g, 0));
        break;
    case KILN__REDUCE_MAX:
    case KILN__REDUCE_MIN:
        chosen = binary(w, KILN__OPERATOR_EQ, x, value);
        give(w, x, choose(w, chosen, over(w, g, sum(w, choose(w, chosen, number(w, 1), zero))), zero));
        break;
    case KILN__REDUCE_VAR:
    case KILN__REDUCE_STD: /* 2 (x - mean) / (n - correction), and for std half of it over the value */
        chosen = times(w, split(w, g, t->value), minus(w, x, reduce(w, KILN__REDUCE_MEAN, 0, x)));
        if (reduction == KILN__REDUCE_VAR)
            give(w, x, times(w, number(w, 2), chosen));
        else
            give(w, x, choose(w, binary(w, KILN__OPERATOR_EQ, value, zero), zero, over(w, chosen, value)));
        break;
    case KILN__REDUCE_NORM:
        give(w, x, choose(w, binary(w, KILN__OPERATOR_EQ, value, zero), zero, times(w, g, over(w, x, value))));
        break;
    case KILN__REDUCE_LOGSUMEXP:
        give(w, x, times(w, g, call(w, "exp", minus(w, x, value))));
        break;
    case KILN__REDUCE_PROD:
        FAIL(w, "prod has no derivative here");
        break;
    default: /* argmax, any and the like are flat */
        break;
    }
}

/* By the op's own backward op, whose parameters are those of the op with these names. */
static void derive_backward(deriver *w, const term *t, uint16_t value, uint16_t g)
{
    const kiln__op *op = t->op, *backward = t->backward;
    term made = {
        .kind = TERM_CALL, .name = backward->name, .count = (uint16_t)(2 + backward->params), .op = backward
    };
    if (backward->real->reductions > 0 && !w->terms[g].varies) /* a sum takes what varies */
        g = binary(w, KILN__OPERATOR_ADD, g, binary(w, KILN__OPERATOR_MUL, number(w, 0), name(w, "index", -1, true)));
    made.args[0] = g;
    made.args[1] = strcmp(backward->input_names[1], "y") == 0 ? value : t->args[0];
    for (uint32_t i = 0; i < backward->params; i++) {
        made.args[2 + i] = number(w, backward->defaults[i]);
        for (uint32_t j = 0; j < op->params; j++)
            if (strcmp(op->param_names[j], backward->param_names[i]) == 0)
                made.args[2 + i] = t->args[op->inputs + j];
    }
    give(w, t->args[0], add_term(w, made));
}

static void derive_term(deriver *w, uint16_t index, uint16_t g)
{
    const term t = w->terms[index]; /* which move when some are added */
    uint16_t factor;
    w->from_varying = t.varies;
    if (t.kind == TERM_NEGATE) {
        give(w, t.args[0], negate(w, g));
    } else if (t.kind == TERM_BINARY) {
        derive_binary(w, &t, index, g);
    } else if (t.kind == TERM_CHOICE) {
        give(w, t.args[1], choose(w, t.args[0], g, number(w, 0)));
        give(w, t.args[2], choose(w, t.args[0], number(w, 0), g));
    } else if (t.kind == TERM_CALL && t.backward != NULL) {
        derive_backward(w, &t, index, g);
    } else if (t.kind == TERM_CALL && t.index > 0) {
        derive_reduction(w, &t, index, g);
    } else if (t.kind == TERM_CALL && t.count == 1) {
        factor = slope(w, t.name, t.args[0], index);
        if (factor == NONE)
            FAIL(w, "%s has no derivative", t.name);
        else
            give(w, t.args[0], times(w, g, factor));
    } else if (t.kind == TERM_CALL && t.count == 2) {
        derive_two(w, &t, index, g);
    } else if (t.kind == TERM_CALL) {
        derive_three(w, &t, g);
    }
}

/* ---- From terms to text */

typedef struct printer {
    const deriver *w;
    uint16_t uses[TERMS_MAX];
    int locals[TERMS_MAX]; /* the number of the local, 0: none */
    int local_count;
    kiln__text *out;
} printer;

static void print_number(kiln__text *out, double value)
{
    char text[KILN__NUMBER_SIZE];
    kiln__number_format(text, value);
    if (isnan(value))
        kiln__text_append(out, "(inf-inf)");
    else
        kiln__text_printf(out, signbit(value) ? "(%s)" : "%s", text);
}

static void print_term(printer *p, uint16_t index, bool whole);

static void print_call(printer *p, const term *t)
{
    kiln__text_printf(p->out, "%s(", t->name);
    for (uint16_t i = 0; i < t->count; i++) {
        kiln__text_append(p->out, i > 0 ? "," : "");
        print_term(p, t->args[i], false);
    }
    const kiln__reduction reduction = t->index > 0 ? (kiln__reduction)(t->index - 1) : KILN__REDUCTIONS;
    if (t->index > 0 && kiln__reduction_corrects(reduction) && t->value != 0) {
        kiln__text_append(p->out, ",correction=");
        print_number(p->out, t->value);
    }
    if (t->index > 0 && kiln__reduction_scans(reduction))
        kiln__text_printf(p->out, "%s%s", ((int)t->value & KILN__SCAN_EXCLUSIVE) != 0 ? ",exclusive=1" : "",
                          ((int)t->value & KILN__SCAN_REVERSE) != 0 ? ",reverse=1" : "");
    kiln__text_append(p->out, ")");
}

/* `whole`: the term itself, also where it has a local. */
static void print_term(printer *p, uint16_t index, bool whole)
{
    const term *t = &p->w->terms[index];
    if (p->out->length > KILN__DEFINITION_MAX) /* terms that are no locals may double at each step */
        return;
    if (p->locals[index] > 0 && !whole) {
        kiln__text_printf(p->out, "t%d", p->locals[index]);
        return;
    }
    switch (t->kind) {
    case TERM_NUMBER:
        print_number(p->out, t->value);
        return;
    case TERM_NAME:
        kiln__text_append(p->out, t->name);
        if (t->index >= 0)
            kiln__text_printf(p->out, "%d", t->index);
        return;
    case TERM_CALL:
        print_call(p, t);
        return;
    default:
        break;
    }
    kiln__text_append(p->out, t->kind == TERM_NEGATE ? "(-" : t->kind == TERM_NOT ? "(!" : "(");
    print_term(p, t->args[0], false);
    if (t->kind == TERM_BINARY)
        kiln__text_append(p->out, kiln__operator_sign((kiln__operator)t->index));
    else if (t->kind == TERM_CHOICE)
        kiln__text_append(p->out, "?");
    for (uint16_t i = 1; i < t->count; i++) {
        kiln__text_append(p->out, i == 2 ? ":" : "");
        print_term(p, t->args[i], false);
    }
    kiln__text_append(p->out, ")");
}

/* Terms that a text has several times become locals, as many as there may be, the first ones first. */
static void find_locals(printer *p, const uint16_t *roots, uint32_t root_count)
{
    const deriver *w = p->w;
    for (uint32_t k = 0; k < root_count; k++)
        p->uses[roots[k]]++;
    for (uint32_t i = w->count; i-- > 0;)
        for (uint16_t j = 0; j < w->terms[i].count && p->uses[i] > 0; j++)
            p->uses[w->terms[i].args[j]]++;
    for (uint32_t i = 0; i < w->count && p->local_count < KILN__REAL_LOCALS_MAX; i++)
        if (p->uses[i] > 1 && w->terms[i].count > 0)
            p->locals[i] = ++p->local_count;
}

static void print_signature(const kiln__derivation *d, kiln__text *out)
{
    kiln__text_append(out, "(");
    for (uint32_t k = 0; k < d->real->outputs; k++)
        kiln__text_printf(out, "%sd%u", k > 0 ? "," : "", k + 1);
    for (uint32_t k = 0; k < d->real->inputs; k++)
        kiln__text_printf(out, ",%si%u", (d->real->columns >> k & 1) != 0 ? "column " : "", k + 1);
    for (uint32_t k = 0; k < d->real->scalars; k++)
        kiln__text_printf(out, "%ss%u=0", k == 0 ? ";" : ",", k + 1);
    kiln__text_append(out, ")");
}

/* Whether the terms of the text scan in both directions. */
static bool scans_both_ways(const printer *p)
{
    bool found[2] = { false, false };
    for (uint32_t i = 0; i < p->w->count; i++) {
        const term *t = &p->w->terms[i];
        if (p->uses[i] > 0 && t->kind == TERM_CALL && t->index > 0 &&
            kiln__reduction_scans((kiln__reduction)(t->index - 1)))
            found[((int)t->value & KILN__SCAN_REVERSE) != 0] = true;
    }
    return found[0] && found[1];
}

/* KILN_ENOENT: scans are to go in one direction. */
static kiln_status print_definition(const deriver *w, const uint16_t *roots, uint32_t root_count, kiln__text *out)
{
    printer *p = kiln__alloc(sizeof(*p));
    if (p == NULL)
        return kiln__fail_memory(w->report, KILN__STAGE_SPEC);
    memset(p, 0, sizeof(*p));
    p->w = w;
    p->out = out;
    find_locals(p, roots, root_count);
    if (!w->forward && scans_both_ways(p)) {
        kiln__free(p);
        return KILN_ENOENT;
    }
    print_signature(w->d, out);
    kiln__text_append(out, root_count > 1 ? "=(" : "=");
    for (uint32_t k = 0; k < root_count; k++) {
        kiln__text_append(out, k > 0 ? "," : "");
        print_term(p, roots[k], false);
    }
    kiln__text_append(out, root_count > 1 ? ")" : "");
    for (uint32_t i = 0, first = 1; i < w->count; i++) {
        if (p->locals[i] == 0)
            continue;
        kiln__text_printf(out, "%st%d=", first ? " where " : ",", p->locals[i]);
        print_term(p, (uint16_t)i, true);
        first = 0;
    }
    kiln__free(p);
    if (out->length > KILN__DEFINITION_MAX)
        return kiln__fail(w->report, KILN_EOP, KILN__STAGE_SPEC, 0,
                          "the derivative has more than %d characters: take that of a part of the expression",
                          KILN__DEFINITION_MAX);
    return out->failed ? kiln__fail_memory(w->report, KILN__STAGE_SPEC) : KILN_OK;
}

/* ---- All of it */

static void mark_needed(deriver *w, const uint16_t *inputs)
{
    for (uint32_t k = 0; k < w->d->real->inputs; k++)
        w->terms[inputs[k]].needed = (w->d->wanted >> k & 1) != 0;
    for (uint32_t i = 0; i < w->count; i++)
        for (uint16_t j = 0; j < w->terms[i].count; j++)
            w->terms[i].needed = w->terms[i].needed || w->terms[w->terms[i].args[j]].needed;
}

/* Whether a call is that of an op that reduces. */
static bool calls_reduction(const term *t)
{
    return t->op != NULL && t->op->real->reductions > 0;
}

/* Whether the terms of a text reduce the axis, and whether they have the index. */
static bool reduces(const deriver *w, const uint16_t *roots, uint32_t root_count, bool *indexed)
{
    bool found = false, used[TERMS_MAX] = { false };
    for (uint32_t k = 0; k < root_count; k++)
        used[roots[k]] = true;
    for (uint32_t i = w->count; i-- > 0;) {
        const term *t = &w->terms[i];
        found = found || (used[i] && t->kind == TERM_CALL && (t->index > 0 || calls_reduction(t)));
        *indexed = *indexed || (used[i] && t->kind == TERM_NAME && t->index < 0);
        for (uint16_t j = 0; j < t->count && used[i]; j++)
            used[t->args[j]] = true;
    }
    return found;
}

/* An op that reduces nothing has results of one shape, and its index is that of all elements. So that the gradient of
 * an input with one value for the axis has one, too, and so that there is an axis for columns, a reduction is added to
 * it, times 0. */
static void keep_axis(deriver *w, uint16_t *roots, uint32_t root_count, const bool *varies)
{
    bool indexed = false;
    if (w->d->real->reductions == 0 || reduces(w, roots, root_count, &indexed))
        return;
    for (uint32_t k = 0; k < root_count; k++)
        if (!varies[k] || indexed || w->d->real->columns != 0) {
            const uint16_t most = reduce(w, KILN__REDUCE_MAX, 0, name(w, "index", -1, true));
            roots[k] = binary(w, KILN__OPERATOR_ADD, roots[k], binary(w, KILN__OPERATOR_MUL, number(w, 0), most));
            return;
        }
}

static void derive_all(deriver *w, kiln__text *out)
{
    const kiln__derivation *d = w->d;
    uint16_t inputs[KILN__INPUTS_MAX], roots[KILN__INPUTS_MAX];
    bool varies[KILN__INPUTS_MAX] = { false };
    uint32_t wanted = 0;
    w->count = 0;
    memset(w->varying, 0xff, sizeof(w->varying));
    memset(w->fixed, 0xff, sizeof(w->fixed));
    for (uint32_t k = 0; k < d->real->inputs; k++)
        inputs[k] = name(w, "i", (int)k + 1, d->inputs[k]);
    const scope in = { d->real, inputs, NULL };
    uint16_t memo[KILN__REAL_NODES_MAX];
    memset(memo, 0xff, sizeof(memo));
    for (uint32_t k = 0; k < d->real->outputs; k++)
        translate(w, &in, d->real->roots[k], memo);
    const uint32_t values = w->count;
    mark_needed(w, inputs);
    w->from_varying = false;
    for (uint32_t k = 0; k < d->real->outputs && w->status == KILN_OK; k++)
        give(w, memo[d->real->roots[k]], name(w, "d", (int)k + 1, d->outputs[k]));
    for (uint32_t i = values; i-- > 0 && w->status == KILN_OK;) {
        const uint16_t g = gradient_of(w, (uint16_t)i);
        if (g != NONE)
            derive_term(w, (uint16_t)i, g);
    }
    for (uint32_t k = 0; k < d->real->inputs && w->status == KILN_OK; k++)
        if ((d->wanted >> k & 1) != 0) {
            const uint16_t g = gradient_of(w, inputs[k]);
            varies[wanted] = d->inputs[k];
            roots[wanted++] = g != NONE ? g : number(w, 0);
        }
    keep_axis(w, roots, wanted, varies);
    if (w->status == KILN_OK)
        w->status = print_definition(w, roots, wanted, out);
}

kiln_status kiln__derive(const kiln__derivation *d, kiln__text *out, kiln_report *report)
{
    deriver *w = kiln__alloc(sizeof(*w));
    if (w == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    w->d = d;
    w->report = report;
    w->status = KILN_OK;
    w->forward = false;
    derive_all(w, out);
    if (w->status == KILN_ENOENT) {
        w->status = KILN_OK;
        w->forward = true;
        derive_all(w, out);
    }
    const kiln_status status = w->status;
    kiln__free(w);
    return status;
}
