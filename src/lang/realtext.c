/* What an expression becomes in C. */
#include "base/fpenv.h"
#include "base/number.h"
#include "lang/primitive.h"
#include "lang/real.h"
#include "lang/syntax.h"
#include <math.h>
#include <string.h>

typedef struct writer {
    const kiln__real *real;
    const kiln__op_table *ops;
    char *const *param_names;
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

static void emit_value(const writer *w, uint16_t index);

static bool is_condition(const kiln__real_node *node)
{
    return node->kind == KILN__REAL_NOT || (node->kind == KILN__REAL_BINARY && node->index < KILN__OPERATOR_ADD);
}

/* Something that C takes as a condition. */
static void emit_condition(const writer *w, uint16_t index)
{
    const kiln__real_node *node = &w->real->nodes[index];
    if (!is_condition(node)) {
        emit_value(w, index);
        kiln__text_append(w->out, " != 0");
    } else if (node->kind == KILN__REAL_NOT) {
        kiln__text_append(w->out, "!(");
        emit_condition(w, node->args[0]);
        kiln__text_append(w->out, ")");
    } else {
        bool joins = node->index == KILN__OPERATOR_OR || node->index == KILN__OPERATOR_AND;
        void (*emit)(const writer *, uint16_t) = joins ? emit_condition : emit_value;
        kiln__text_append(w->out, joins ? "(" : "");
        emit(w, node->args[0]);
        kiln__text_printf(w->out, joins ? ") %s (" : " %s ", kiln__operator_text((kiln__operator)node->index));
        emit(w, node->args[1]);
        kiln__text_append(w->out, joins ? ")" : "");
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

static void emit_binary(const writer *w, const kiln__real_node *node)
{
    static const char *const names[] = { [KILN__OPERATOR_ADD] = "add",
                                         [KILN__OPERATOR_SUB] = "add",
                                         [KILN__OPERATOR_MUL] = "mul",
                                         [KILN__OPERATOR_DIV] = "div" };
    if (node->index != KILN__OPERATOR_SUB) {
        emit_call(w, "kiln_", names[node->index], node);
        return;
    }
    kiln__text_append(w->out, "kiln_add(");
    emit_value(w, node->args[0]);
    kiln__text_append(w->out, ", -(");
    emit_value(w, node->args[1]);
    kiln__text_append(w->out, "))");
}

static void emit_value(const writer *w, uint16_t index)
{
    static const char inputs[] = "xyz";
    const kiln__real_node *node = &w->real->nodes[index];
    switch (node->kind) {
    case KILN__REAL_NUMBER:
        kiln__real_emit_number(node->value, w->out);
        return;
    case KILN__REAL_INPUT:
        kiln__text_append_bytes(w->out, &inputs[node->index], 1);
        return;
    case KILN__REAL_PARAM:
        kiln__text_printf(w->out, "%s_", w->param_names[node->index]);
        return;
    case KILN__REAL_FUNCTION:
        emit_call(w, "kiln_", kiln__primitives[node->index].name, node);
        return;
    case KILN__REAL_OP:
        emit_call(w, "kiln_op_", kiln__op_at(w->ops, node->index)->name, node);
        return;
    case KILN__REAL_NEGATE:
        kiln__text_append(w->out, "(-(");
        emit_value(w, node->args[0]);
        kiln__text_append(w->out, "))");
        return;
    case KILN__REAL_CHOICE:
        kiln__text_append(w->out, "(");
        emit_condition(w, node->args[0]);
        kiln__text_append(w->out, " ? ");
        emit_value(w, node->args[1]);
        kiln__text_append(w->out, " : ");
        emit_value(w, node->args[2]);
        kiln__text_append(w->out, ")");
        return;
    case KILN__REAL_NOT:
    case KILN__REAL_BINARY:
        break;
    }
    if (!is_condition(node)) {
        emit_binary(w, node);
        return;
    }
    kiln__text_append(w->out, "(");
    emit_condition(w, index);
    kiln__text_append(w->out, " ? (kiln_real)1 : (kiln_real)0)");
}

void kiln__real_emit(const kiln__real *real, const kiln__op_table *ops, char *const *param_names, kiln__text *out)
{
    const writer w = { real, ops, param_names, out };
    emit_value(&w, (uint16_t)(real->count - 1));
}

void kiln__real_calls(const kiln__real *real, bool *ops, void (*function)(void *data, const char *name), void *data)
{
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        if (node->kind == KILN__REAL_OP)
            ops[node->index] = true;
        else if (node->kind == KILN__REAL_FUNCTION)
            function(data, kiln__primitives[node->index].name);
        else if (node->kind == KILN__REAL_BINARY && node->index == KILN__OPERATOR_DIV)
            function(data, "div");
    }
}
