/* The nodes of an expression as C text, as text on bounds, and as values in double. */
#include "lang/real.h"

#include "base/fpenv.h"
#include "base/number.h"
#include "lang/primitive.h"
#include "lang/reduction.h"
#include "lang/syntax.h"
#include "lang/typing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PyTorch multiplies by the reciprocal of a number that is the same for all elements. */
bool kiln__real_is_over_scalar(const kiln__real *real, const kiln__real_node *node)
{
    if (node->kind != KILN__REAL_BINARY || node->index != KILN__OPERATOR_DIV)
        return false;
    kiln__real_kind divisor = real->nodes[node->args[1]].kind;
    return divisor == KILN__REAL_NUMBER || divisor == KILN__REAL_PARAM || divisor == KILN__REAL_SCALAR;
}

/* Whether a node is an operator / that calls div. */
bool kiln__real_is_division(const kiln__real *real, const kiln__real_node *node)
{
    return node->kind == KILN__REAL_BINARY && node->index == KILN__OPERATOR_DIV &&
           !kiln__real_is_over_scalar(real, node);
}

/* Whether the value of a node is one for a row, and no number. */
static bool is_of_row(const kiln__real_node *node)
{
    return !node->varies && node->count > 0 && !node->constant;
}

/* The number of the local, among the first `count`, that a node is, or -1. */
int kiln__real_find_local(const kiln__real *real, uint32_t count, uint16_t index)
{
    for (uint32_t i = 0; i < count; i++)
        if (real->locals[i] == index)
            return (int)i;
    return -1;
}

/* ---- C text */

typedef struct writer {
    const kiln__real *real;
    const kiln__op_table *ops;
    char *const *param_names;
    const kiln__real_style *style; /* NULL: all values have one type */
    uint32_t locals;               /* how many of the locals are declared */
    kiln__text *out;
} writer;

static void emit_number(double value, kiln__text *out)
{
    char number[KILN__NUMBER_SIZE];
    kiln__fpenv host;
    kiln__fpenv_enter_simd(&host);
    if (isinf(value))
        strcpy(number, value < 0 ? "-KILN_INFINITY" : "KILN_INFINITY");
    else
        kiln__number_format_hex(number, value);
    kiln__fpenv_leave_simd(&host);
    kiln__text_append(out, number);
}

bool kiln__real_is_portable(const kiln__real_node *function)
{
    return kiln__primitive_at(function->index)->portable;
}

const char *kiln__real_function_name(const kiln__real_node *node)
{
    return kiln__primitive_at(node->index)->name;
}

static void emit_value(const writer *w, uint16_t index, kiln__dtype to);
static void emit_condition(const writer *w, uint16_t index);

static bool is_mixed(const writer *w)
{
    return w->style != NULL && w->style->typing->mixed;
}

void kiln__real_emit_name(const kiln__real_style *style, kiln__dtype in, const char *name, kiln__text *out)
{
    bool apart = style != NULL && style->typing->mixed && in != style->typing->dtype;
    kiln__text_printf(out, "kiln_%s%s%s", apart ? kiln__dtype_name(in) : "", apart ? "_" : "", name);
}

static void emit_name(const writer *w, kiln__dtype in, const char *name)
{
    kiln__real_emit_name(w->style, in, name, w->out);
}

/* The C text of operators: @ stands for the begin of a name, $ for the value of the next argument, # for it as a
 * condition. */
static const char *const patterns[] = {
    [KILN__OPERATOR_OR] = "(#) || (#)",  [KILN__OPERATOR_AND] = "(#) && (#)", [KILN__OPERATOR_EQ] = "$ == $",
    [KILN__OPERATOR_NE] = "$ != $",      [KILN__OPERATOR_LE] = "$ <= $",      [KILN__OPERATOR_GE] = "$ >= $",
    [KILN__OPERATOR_LT] = "$ < $",       [KILN__OPERATOR_GT] = "$ > $",       [KILN__OPERATOR_ADD] = "@add($, $)",
    [KILN__OPERATOR_SUB] = "@sub($, $)", [KILN__OPERATOR_DIV] = "@div($, $)",
};

/* The begin and the end of text that rounds a value to a type, as if it were stored and loaded again. */
static void open_rounding(const writer *w, kiln__dtype type)
{
    emit_name(w, type, "load(");
    emit_name(w, type, "store(");
}

static void close_rounding(const writer *w)
{
    kiln__text_append(w->out, "))");
}

static void emit_argument(const writer *w, const kiln__real_node *node, uint32_t j, kiln__dtype in)
{
    uint32_t index = (uint32_t)(node - w->real->nodes);
    bool rounds = w->style != NULL && kiln__typing_rounds_number(w->style->typing, w->real, index, j);
    if (rounds)
        open_rounding(w, in);
    emit_value(w, node->args[j], in);
    if (rounds)
        close_rounding(w);
}

static void emit_pattern(const writer *w, const char *pattern, const kiln__real_node *node, kiln__dtype in)
{
    for (uint32_t next = 0; *pattern != '\0';) {
        size_t length = strcspn(pattern, "@$#");
        kiln__text_append_bytes(w->out, pattern, length);
        pattern += length;
        if (*pattern == '@')
            emit_name(w, in, "");
        else if (*pattern == '$')
            emit_argument(w, node, next++, in);
        else if (*pattern == '#')
            emit_condition(w, node->args[next++]);
        pattern += *pattern != '\0';
    }
}

bool kiln__real_is_condition(const kiln__real_node *node)
{
    return node->kind == KILN__REAL_NOT || (node->kind == KILN__REAL_BINARY && node->index < KILN__OPERATOR_ADD);
}

bool kiln__real_is_logical(const kiln__real_node *node)
{
    return node->kind == KILN__REAL_NOT ||
           (node->kind == KILN__REAL_BINARY && (node->index == KILN__OPERATOR_OR || node->index == KILN__OPERATOR_AND));
}

bool kiln__real_is_comparison(const kiln__real_node *node)
{
    return kiln__real_is_condition(node) && !kiln__real_is_logical(node);
}

/* The type that a node is calculated in; a definition has no other. */
static kiln__dtype type_in(const writer *w, uint16_t index)
{
    return w->style != NULL ? (kiln__dtype)w->style->typing->in[index] : KILN__DTYPE_UNSET;
}

/* Text that C takes as a condition. */
static void emit_condition(const writer *w, uint16_t index)
{
    const kiln__real_node *node = &w->real->nodes[index];
    if (kiln__real_is_condition(node) && kiln__real_find_local(w->real, w->locals, index) < 0) {
        emit_pattern(w, node->kind == KILN__REAL_NOT ? "!(#)" : patterns[node->index], node, type_in(w, index));
    } else {
        emit_value(w, index, type_in(w, index));
        kiln__text_append(w->out, " != 0");
    }
}

static void emit_call(const writer *w, const char *name, const kiln__real_node *node, kiln__dtype in)
{
    emit_name(w, in, name);
    for (uint32_t i = 0; i < node->count; i++) {
        kiln__text_append(w->out, i == 0 ? "(" : ", ");
        emit_argument(w, node, i, in);
    }
    kiln__text_append(w->out, ")");
}

/* The first output of an op is kiln_op_NAME, the others are kiln_op_NAME__1, ...: no op has such a name. */
static void emit_op(const writer *w, const kiln__real_node *node, kiln__dtype in)
{
    char name[KILN__OP_NAME_SIZE + 8];
    snprintf(name, sizeof(name), node->output > 0 ? "op_%s__%u" : "op_%s", kiln__op_at(w->ops, node->index)->name,
             node->output);
    emit_call(w, name, node, in);
}

/* The value of a node that the definition of an op is, or a reduction: it has the type of the node already. */
static void emit_reduced(const writer *w, uint16_t index, kiln__dtype in)
{
    const kiln__real_node *node = &w->real->nodes[index];
    if (node->kind == KILN__REAL_OP)
        emit_value(w, node->body, in);
    else if (!kiln__reduction_scans((kiln__reduction)node->index))
        kiln__text_printf(w->out, "row->r%u", w->style->places[index]);
    else
        kiln__text_printf(w->out, "%s->a%u[j]", (unsigned)node->value & KILN__SCAN_EXCLUSIVE ? "before" : "after",
                          w->style->places[index]);
}

static bool is_eager(const writer *w)
{
    return w->style != NULL && w->style->eager;
}

/* Which argument of a product is a constant that the product is named for: a parameter, or in a step that is rounded by
 * itself a number. -1: none. */
static int find_factor(const writer *w, const kiln__real_node *node)
{
    const kiln__real_node *nodes = w->real->nodes;
    for (int j = 1; j >= 0; j--)
        if (nodes[node->args[j]].scalar)
            return j;
    for (int j = 1; j >= 0 && is_eager(w); j--)
        if (nodes[node->args[j]].kind == KILN__REAL_NUMBER)
            return j;
    return -1;
}

/* A factor that is a parameter is often 1: kiln_scale leaves it out then, as compilers may not with kiln_mul. */
static void emit_product(const writer *w, const kiln__real_node *node, kiln__dtype in)
{
    const int factor = find_factor(w, node), last = factor == 0 ? 0 : 1;
    const bool scales = factor >= 0 && w->real->nodes[node->args[factor]].scalar;
    emit_name(w, in, scales ? "scale(" : factor >= 0 ? "times(" : "mul(");
    emit_value(w, node->args[1 - last], in);
    kiln__text_append(w->out, ", ");
    emit_value(w, node->args[last], in);
    kiln__text_append(w->out, ")");
}

/* Whether 1 / x is exact, so that a product by it is the quotient. */
static bool has_exact_inverse(const kiln__real_node *number)
{
    int exponent;
    return number->kind == KILN__REAL_NUMBER && fabs(frexp(number->value, &exponent)) == 0.5 && abs(exponent) < 100;
}

/* Whether a node is an operator / by a value that a whole row has, in f16 or bf16. Its reciprocal costs one division
 * for the row, and the product is as near to the quotient as these types tell. */
static bool is_over_row(const writer *w, const kiln__real_node *node)
{
    const kiln__dtype in = type_in(w, (uint16_t)(node - w->real->nodes));
    return node->index == KILN__OPERATOR_DIV && (in == KILN__DTYPE_F16 || in == KILN__DTYPE_BF16) &&
           is_of_row(&w->real->nodes[node->args[1]]);
}

static const char *quotient_pattern(const writer *w, const kiln__real_node *node)
{
    if (is_over_row(w, node))
        return "@over($, $)";
    if (!kiln__real_is_over_scalar(w->real, node))
        return patterns[node->index];
    return is_eager(w) && has_exact_inverse(&w->real->nodes[node->args[1]]) ? "@times($, 1 / $)" : "@over($, $)";
}

/* "(kiln_real)" */
static void emit_cast(const writer *w, kiln__dtype to)
{
    kiln__text_append(w->out, "(");
    emit_name(w, to, "real)");
}

static void emit_truth(const writer *w, uint16_t index, kiln__dtype in)
{
    kiln__text_append(w->out, "(");
    emit_condition(w, index);
    kiln__text_append(w->out, " ? ");
    emit_cast(w, in);
    kiln__text_append(w->out, "1 : ");
    emit_cast(w, in);
    kiln__text_append(w->out, "0)");
}

static void emit_binary(const writer *w, const kiln__real_node *node, kiln__dtype in)
{
    if (node->index == KILN__OPERATOR_MUL)
        emit_product(w, node, in);
    else
        emit_pattern(w, quotient_pattern(w, node), node, in);
}

/* The value of a node as it is calculated in a type. */
static void emit_node(const writer *w, uint16_t index, kiln__dtype in)
{
    const kiln__real_node *node = &w->real->nodes[index];
    if (kiln__real_is_condition(node)) {
        emit_truth(w, index, in);
        return;
    }
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_NUMBER:
        emit_cast(w, in);
        emit_number(node->value, w->out);
        break;
    case KILN__REAL_INPUT:
        kiln__text_append(w->out, kiln__input_names[node->index]);
        break;
    case KILN__REAL_PARAM:
        kiln__text_printf(w->out, "%s_", w->param_names[node->index]);
        break;
    case KILN__REAL_SCALAR:
        if (is_mixed(w))
            emit_cast(w, in);
        kiln__text_printf(w->out, "s%u", node->index);
        break;
    case KILN__REAL_INDEX:
        kiln__text_append(w->out, "position");
        break;
    case KILN__REAL_FUNCTION:
        emit_call(w, kiln__real_function_name(node), node, in);
        break;
    case KILN__REAL_OP:
        if (node->body == 0)
            emit_op(w, node, in);
        else
            emit_reduced(w, index, in);
        break;
    case KILN__REAL_REDUCTION:
        emit_reduced(w, index, in);
        break;
    case KILN__REAL_NEGATE:
        emit_pattern(w, "@neg($)", node, in);
        break;
    case KILN__REAL_CHOICE:
        emit_pattern(w, "@choose(#, $, $)", node, in);
        break;
    default:
        emit_binary(w, node, in);
    }
}

static bool rounds(const writer *w, uint16_t index)
{
    const kiln__typing *typing = w->style->typing;
    return kiln__typing_rounds(typing, w->real, index, w->style->eager) &&
           (typing->mixed || typing->own[index] == typing->dtype);
}

/* The value of a node in the type of its place. A number and a condition have no other; a value of another type is
 * converted, a whole number with a rounding where that type does not hold it. */
static void emit_value(const writer *w, uint16_t index, kiln__dtype to)
{
    const kiln__real_node *node = &w->real->nodes[index];
    int local = kiln__real_find_local(w->real, w->locals, index);
    if (local >= 0) {
        kiln__text_printf(w->out, "v%d", local);
        return;
    }
    if (w->style == NULL || kiln__real_is_condition(node) || w->style->typing->own[index] == KILN__DTYPE_UNSET) {
        emit_node(w, index, to);
        return;
    }
    kiln__dtype own = (kiln__dtype)w->style->typing->own[index];
    bool converts = is_mixed(w) && type_in(w, index) != to;
    bool inexact = converts && kiln__typing_computed(to) != to && !kiln__dtype_holds(to, own);
    if (inexact)
        open_rounding(w, to);
    if (converts)
        emit_cast(w, to);
    if (rounds(w, index))
        open_rounding(w, own);
    emit_node(w, index, is_mixed(w) ? type_in(w, index) : to);
    if (rounds(w, index))
        close_rounding(w);
    if (inexact)
        close_rounding(w);
}

void kiln__real_emit(const kiln__real *real, const kiln__op_table *ops, char *const *param_names,
                     const kiln__real_style *style, uint32_t output, kiln__text *out)
{
    const writer w = { real, ops, param_names, style, real->local_count, out };
    kiln__dtype in = style != NULL ? kiln__typing_in(style->typing, real, output) : KILN__DTYPE_UNSET;
    emit_value(&w, real->roots[output], in);
}

void kiln__real_emit_node(const kiln__real *real, const kiln__op_table *ops, const kiln__real_style *style,
                          uint16_t node, kiln__dtype to, kiln__text *out)
{
    const writer w = { real, ops, NULL, style, 0, out };
    if (to == KILN__DTYPE_UNSET)
        emit_condition(&w, node);
    else
        emit_value(&w, node, to);
}

void kiln__real_emit_locals(const kiln__real *real, const kiln__op_table *ops, char *const *param_names,
                            kiln__text *out)
{
    writer w = { real, ops, param_names, NULL, 0, out };
    for (; w.locals < real->local_count; w.locals++) {
        kiln__text_printf(out, "    const kiln_real v%u = ", w.locals);
        emit_value(&w, real->locals[w.locals], KILN__DTYPE_UNSET);
        kiln__text_append(out, ";\n");
    }
}

static void mark_function(const kiln__functions *functions, const char *name, bool *marks)
{
    for (uint32_t i = 0; functions != NULL && i < functions->count; i++)
        marks[i] = marks[i] || kiln__word_is(functions->at[i].name, name);
}

/* A quotient by a value of a row is either, by its type. */
static void mark_quotient(const kiln__real *real, const kiln__real_node *node, const kiln__functions *functions,
                          bool *marks)
{
    const bool over_scalar = kiln__real_is_over_scalar(real, node);
    if (over_scalar || is_of_row(&real->nodes[node->args[1]]))
        mark_function(functions, "over", marks);
    if (!over_scalar)
        mark_function(functions, "div", marks);
}

static void mark_reduction(kiln__reduction reduction, const kiln__functions *functions, bool *marks)
{
    const char *name;
    for (uint32_t i = 0; (name = kiln__reduction_call(reduction, i)) != NULL; i++)
        mark_function(functions, name, marks);
}

/* `functions` are those of functions.h; a primitive of real.h is not among them. */
void kiln__real_calls(const kiln__real *real, const bool *nodes, bool *ops, const kiln__functions *functions,
                      bool *function_marks)
{
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        if (nodes != NULL && !nodes[i])
            continue;
        if (node->kind == KILN__REAL_OP)
            ops[node->index] = true;
        else if (node->kind == KILN__REAL_FUNCTION)
            mark_function(functions, kiln__real_function_name(node), function_marks);
        else if (node->kind == KILN__REAL_REDUCTION)
            mark_reduction((kiln__reduction)node->index, functions, function_marks);
        else if (node->kind == KILN__REAL_BINARY && node->index == KILN__OPERATOR_DIV)
            mark_quotient(real, node, functions, function_marks);
    }
}

/* ---- Bounds */

static void append_new(const char *bound, kiln__text *out)
{
    const char *known = strstr(kiln__text_string(out), bound);
    while (known != NULL && known != kiln__text_string(out) && known[-1] != ' ')
        known = strstr(known + 1, bound);
    if (known == NULL)
        kiln__text_printf(out, "%s%s", out->length > 0 ? ", " : "", bound);
}

/* The number of the function that a node calls, also as the operator /; -1: it calls none. */
static int callee_of(const kiln__real *real, const kiln__real_node *node)
{
    if (node->kind == KILN__REAL_FUNCTION)
        return node->index;
    return kiln__real_is_division(real, node) ? (int)kiln__primitive_division() : -1;
}

static void append_fast(const kiln__fast_form *form, kiln__text *out)
{
    char bound[96], slope[32] = "", beyond[32] = "";
    if (form->slope > 0)
        snprintf(slope, sizeof(slope), " + %g abs(x)", form->slope);
    if (form->absolute > 0)
        snprintf(beyond, sizeof(beyond), " or %.2g", form->absolute);
    if (form->relative > 0)
        snprintf(bound, sizeof(bound), "%s %.2g of the value", form->name, form->relative);
    else
        snprintf(bound, sizeof(bound), "%s %g%s ulp%s", form->name, form->ulps, slope, beyond);
    append_new(bound, out);
}

static void append_bound(const kiln__real *real, const kiln__real_node *node, bool fast, kiln__text *out)
{
    char bound[64];
    int callee = callee_of(real, node);
    if (callee < 0)
        return;
    const kiln__primitive *function = kiln__primitive_at((uint32_t)callee);
    const kiln__fast_form *form = fast ? kiln__primitive_fast((uint32_t)callee) : NULL;
    if (form != NULL) {
        append_fast(form, out);
    } else if (!fast && function->ulps > 0) {
        snprintf(bound, sizeof(bound), "%s %u ulp", function->name, function->ulps);
        append_new(bound, out);
    }
}

void kiln__real_append_bounds(const kiln__real *real, const kiln__op_table *ops, bool fast, kiln__text *out)
{
    if (real->summed && !fast)
        append_new("sums", out);
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        append_bound(real, node, fast, out);
        const kiln__op *op = node->kind == KILN__REAL_OP ? kiln__op_at(ops, node->index) : NULL;
        for (uint32_t j = 0; op != NULL && j <= op->case_count; j++)
            kiln__real_append_bounds(kiln__op_expression(op, j), ops, fast, out);
    }
}

/* ---- Values in double */

static double binary_value(uint16_t sign, double a, double b)
{
    switch ((kiln__operator)sign) {
    case KILN__OPERATOR_OR:
        return a != 0 || b != 0;
    case KILN__OPERATOR_AND:
        return a != 0 && b != 0;
    case KILN__OPERATOR_EQ:
        return a == b;
    case KILN__OPERATOR_NE:
        return a != b;
    case KILN__OPERATOR_LE:
        return a <= b;
    case KILN__OPERATOR_GE:
        return a >= b;
    case KILN__OPERATOR_LT:
        return a < b;
    case KILN__OPERATOR_GT:
        return a > b;
    case KILN__OPERATOR_ADD:
        return a + b;
    case KILN__OPERATOR_SUB:
        return a - b;
    case KILN__OPERATOR_MUL:
        return a * b;
    default:
        return a / b;
    }
}

double kiln__real_apply(const kiln__real_node *node, const double *v)
{
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_NEGATE:
        return -v[0];
    case KILN__REAL_NOT:
        return v[0] == 0;
    case KILN__REAL_CHOICE:
        return v[0] != 0 ? v[1] : v[2];
    case KILN__REAL_FUNCTION:
        return kiln__primitive_at(node->index)->value(v);
    case KILN__REAL_REDUCTION: /* one element alone is no row */
        return NAN;
    default:
        return binary_value(node->index, v[0], v[1]);
    }
}

static double node_value(const kiln__real_node *node, const kiln__op_table *ops, const double *v,
                         const kiln__real_numbers *numbers)
{
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_NUMBER:
        return node->value;
    case KILN__REAL_INPUT:
        return numbers->inputs[node->index];
    case KILN__REAL_PARAM:
        return numbers->params[node->index];
    case KILN__REAL_SCALAR:
        return numbers->scalars[node->index];
    case KILN__REAL_INDEX:
        return numbers->index;
    case KILN__REAL_OP: {
        const kiln__op *op = kiln__op_at(ops, node->index);
        const kiln__real_numbers inner = { .inputs = v, .params = v + op->inputs };
        return kiln__real_value(op->real, ops, &inner, node->output);
    }
    default:
        return kiln__real_apply(node, v);
    }
}

/* Nodes come after their arguments, so one walk computes them all. */
double kiln__real_value(const kiln__real *real, const kiln__op_table *ops, const kiln__real_numbers *numbers,
                        uint32_t output)
{
    double values[KILN__REAL_NODES_MAX];
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        double v[KILN__REAL_ARGS_MAX] = { 0 };
        for (uint32_t j = 0; j < node->count; j++)
            v[j] = values[node->args[j]];
        values[i] = node->body > 0 ? values[node->body] : node_value(node, ops, v, numbers);
    }
    return real->count > 0 ? values[real->roots[output]] : 0;
}

double kiln__real_error_scale(const kiln__real_node *node, const double *v, double value, double *ulps)
{
    *ulps = node->kind == KILN__REAL_FUNCTION ? kiln__primitive_at(node->index)->ulps : 0;
    return *ulps > 0 ? kiln__primitive_scale(node->index, v, value) : value;
}

double kiln__real_fast_error(const kiln__real *real, const kiln__real_node *node, const double *v, double value)
{
    int callee = callee_of(real, node);
    return callee >= 0 ? kiln__primitive_fast_error((uint32_t)callee, v, value) : 0;
}

bool kiln__real_alike(const kiln__real_node *a, const kiln__real_node *b)
{
    return a->kind == b->kind && a->index == b->index && a->output == b->output && a->pointed == b->pointed &&
           a->count == b->count && memcmp(&a->value, &b->value, sizeof(a->value)) == 0;
}

bool kiln__real_same(const kiln__real *real, uint16_t a, uint16_t b)
{
    const kiln__real_node *one = &real->nodes[a], *other = &real->nodes[b];
    bool same = kiln__real_alike(one, other);
    for (uint32_t i = 0; i < one->count && same && a != b; i++)
        same = kiln__real_same(real, one->args[i], other->args[i]);
    return same;
}

bool kiln__real_stores(const kiln__real_node *node)
{
    return node->kind == KILN__REAL_FUNCTION && kiln__primitive_stores(node->index);
}
