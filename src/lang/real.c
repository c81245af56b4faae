/* The nodes of an expression as C text, as text on bounds, and as values in double. */
#include "lang/real.h"

#include "base/fpenv.h"
#include "base/number.h"
#include "lang/primitive.h"
#include "lang/syntax.h"
#include <math.h>
#include <stdio.h>
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
    uint32_t locals; /* how many of the locals are declared */
    kiln__text *out;
} writer;

void kiln__real_emit_number(double value, kiln__text *out)
{
    char number[KILN__NUMBER_SIZE];
    kiln__fpenv host;
    kiln__fpenv_enter_simd(&host);
    if (isinf(value))
        strcpy(number, value < 0 ? "-KILN_INFINITY" : "KILN_INFINITY");
    else
        kiln__number_format_hex(number, value);
    kiln__fpenv_leave_simd(&host);
    kiln__text_append(out, "(kiln_real)");
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

static void emit_value(const writer *w, uint16_t index);
static void emit_condition(const writer *w, uint16_t index);

/* The C text of operators: $ stands for the value of the next argument, # for it as a condition. */
static const char *const patterns[] = {
    [KILN__OPERATOR_OR] = "(#) || (#)",      [KILN__OPERATOR_AND] = "(#) && (#)",
    [KILN__OPERATOR_EQ] = "$ == $",          [KILN__OPERATOR_NE] = "$ != $",
    [KILN__OPERATOR_LE] = "$ <= $",          [KILN__OPERATOR_GE] = "$ >= $",
    [KILN__OPERATOR_LT] = "$ < $",           [KILN__OPERATOR_GT] = "$ > $",
    [KILN__OPERATOR_ADD] = "kiln_add($, $)", [KILN__OPERATOR_SUB] = "kiln_sub($, $)",
    [KILN__OPERATOR_DIV] = "kiln_div($, $)",
};

static void emit_pattern(const writer *w, const char *pattern, const kiln__real_node *node)
{
    for (uint32_t next = 0; *pattern != '\0';) {
        size_t length = strcspn(pattern, "$#");
        kiln__text_append_bytes(w->out, pattern, length);
        pattern += length;
        if (*pattern != '\0')
            (*pattern++ == '$' ? emit_value : emit_condition)(w, node->args[next++]);
    }
}

static bool is_condition(const kiln__real_node *node)
{
    return node->kind == KILN__REAL_NOT || (node->kind == KILN__REAL_BINARY && node->index < KILN__OPERATOR_ADD);
}

/* Text that C takes as a condition. */
static void emit_condition(const writer *w, uint16_t index)
{
    const kiln__real_node *node = &w->real->nodes[index];
    if (is_condition(node) && kiln__real_find_local(w->real, w->locals, index) < 0) {
        emit_pattern(w, node->kind == KILN__REAL_NOT ? "!(#)" : patterns[node->index], node);
    } else {
        emit_value(w, index);
        kiln__text_append(w->out, " != 0");
    }
}

static void emit_call(const writer *w, const char *prefix, const char *name, const kiln__real_node *node)
{
    kiln__text_printf(w->out, "%s%s(", prefix, name);
    for (uint32_t i = 0; i < node->count; i++) {
        kiln__text_append(w->out, i == 0 ? "" : ", ");
        emit_value(w, node->args[i]);
    }
    kiln__text_append(w->out, ")");
}

/* The first output of an op is kiln_op_NAME, the others are kiln_op_NAME__1, ...: no op has such a name. */
static void emit_op(const writer *w, const kiln__real_node *node)
{
    char name[KILN__OP_NAME_SIZE + 8];
    snprintf(name, sizeof(name), node->output > 0 ? "%s__%u" : "%s", kiln__op_at(w->ops, node->index)->name,
             node->output);
    emit_call(w, "kiln_op_", name, node);
}

/* A factor that is a parameter is often 1: kiln_scale leaves it out then, as compilers may not with kiln_mul. */
static void emit_product(const writer *w, const kiln__real_node *node)
{
    const kiln__real_node *nodes = w->real->nodes;
    unsigned factor = nodes[node->args[1]].scalar ? 1 : 0;
    bool scales = nodes[node->args[factor]].scalar;
    kiln__text_append(w->out, scales ? "kiln_scale(" : "kiln_mul(");
    emit_value(w, node->args[scales ? 1 - factor : 0]);
    kiln__text_append(w->out, ", ");
    emit_value(w, node->args[scales ? factor : 1]);
    kiln__text_append(w->out, ")");
}

static void emit_value(const writer *w, uint16_t index)
{
    const kiln__real_node *node = &w->real->nodes[index];
    int local = kiln__real_find_local(w->real, w->locals, index);
    if (local >= 0) {
        kiln__text_printf(w->out, "v%d", local);
        return;
    }
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_NUMBER:
        kiln__real_emit_number(node->value, w->out);
        break;
    case KILN__REAL_INPUT:
        kiln__text_append(w->out, kiln__input_names[node->index]);
        break;
    case KILN__REAL_PARAM:
        kiln__text_printf(w->out, "%s_", w->param_names[node->index]);
        break;
    case KILN__REAL_SCALAR:
        kiln__text_printf(w->out, "s%u", node->index);
        break;
    case KILN__REAL_FUNCTION:
        emit_call(w, "kiln_", kiln__real_function_name(node), node);
        break;
    case KILN__REAL_OP:
        emit_op(w, node);
        break;
    case KILN__REAL_NEGATE:
        emit_pattern(w, "kiln_neg($)", node);
        break;
    case KILN__REAL_CHOICE:
        emit_pattern(w, "kiln_choose(#, $, $)", node);
        break;
    case KILN__REAL_NOT:
    case KILN__REAL_BINARY:
        if (node->kind == KILN__REAL_BINARY && node->index == KILN__OPERATOR_MUL) {
            emit_product(w, node);
            break;
        }
        if (!is_condition(node)) {
            emit_pattern(w, kiln__real_is_over_scalar(w->real, node) ? "kiln_over($, $)" : patterns[node->index], node);
            break;
        }
        kiln__text_append(w->out, "(");
        emit_condition(w, index);
        kiln__text_append(w->out, " ? (kiln_real)1 : (kiln_real)0)");
    }
}

void kiln__real_emit(const kiln__real *real, const kiln__op_table *ops, char *const *param_names, uint32_t output,
                     kiln__text *out)
{
    const writer w = { real, ops, param_names, real->local_count, out };
    emit_value(&w, real->roots[output]);
}

void kiln__real_emit_locals(const kiln__real *real, const kiln__op_table *ops, char *const *param_names,
                            kiln__text *out)
{
    writer w = { real, ops, param_names, 0, out };
    for (; w.locals < real->local_count; w.locals++) {
        kiln__text_printf(out, "    const kiln_real v%u = ", w.locals);
        emit_value(&w, real->locals[w.locals]);
        kiln__text_append(out, ";\n");
    }
}

static void mark_function(const kiln__functions *functions, const char *name, bool *marks)
{
    for (uint32_t i = 0; functions != NULL && i < functions->count; i++)
        marks[i] = marks[i] || kiln__word_is(functions->at[i].name, name);
}

/* `functions` are those of functions.h; a primitive of real.h is not among them. */
void kiln__real_calls(const kiln__real *real, bool *ops, const kiln__functions *functions, bool *function_marks)
{
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        if (node->kind == KILN__REAL_OP)
            ops[node->index] = true;
        else if (node->kind == KILN__REAL_FUNCTION)
            mark_function(functions, kiln__real_function_name(node), function_marks);
        else if (node->kind == KILN__REAL_BINARY && node->index == KILN__OPERATOR_DIV)
            mark_function(functions, kiln__real_is_over_scalar(real, node) ? "over" : "div", function_marks);
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
    case KILN__REAL_OP: {
        const kiln__op *op = kiln__op_at(ops, node->index);
        return kiln__real_value(op->real, ops, &(kiln__real_numbers){ v, v + op->inputs, NULL }, node->output);
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
        values[i] = node_value(node, ops, v, numbers);
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

bool kiln__real_stores(const kiln__real_node *node)
{
    return node->kind == KILN__REAL_FUNCTION && kiln__primitive_stores(node->index);
}
