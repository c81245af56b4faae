/* The expressions of specs: reading them, and their canonical text. */
#include "lang/expr.h"

#include "base/number.h"
#include "lang/reduction.h"
#include "lang/syntax.h"
#include <stdio.h>
#include <string.h>

kiln_status kiln__expr_parse(kiln__real *out, const kiln__op_table *table, const char *text, size_t length,
                             kiln_report *report)
{
    const kiln__real_scope scope = {
        .ops = table, .op_limit = KILN__OPS_MAX, .text = text, .end = text + length, .free = true
    };
    return kiln__real_read(out, &scope, &text, report);
}

/* ---- Canonical text */

/* How tightly a node binds, as in C: between these the operators have their precedence. */
enum { BINDS_CHOICE = 0, BINDS_OR = 1, BINDS_SIGN = 7, BINDS_ALL };

typedef struct writer {
    const kiln__real *expr;
    const kiln__op_table *table;
    bool named, inside; /* inside: a call stands around what is written */
    kiln__text *out;
} writer;

static void append_node(const writer *w, uint16_t index, int binds);

static int binding_of(const kiln__real_node *node)
{
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_CHOICE:
        return BINDS_CHOICE;
    case KILN__REAL_BINARY:
        return kiln__operator_precedence((kiln__operator)node->index);
    case KILN__REAL_NEGATE:
    case KILN__REAL_NOT:
        return BINDS_SIGN;
    default:
        return BINDS_ALL;
    }
}

/* A number that is real keeps a point, and no other gets one: 1.0 is not 1. */
static void append_number(const writer *w, const kiln__real_node *node)
{
    char number[KILN__NUMBER_SIZE];
    kiln__number_format(number, node->value);
    if (!node->pointed && strchr(number, '.') != NULL && kiln__number_is_whole(node->value)) /* from 1e16 on */
        snprintf(number, sizeof(number), "%lld", (long long)node->value);
    size_t digits = strcspn(number, "e");
    bool needs_point = node->pointed && memchr(number, '.', digits) == NULL;
    kiln__text_append_bytes(w->out, number, digits);
    kiln__text_append(w->out, needs_point ? ".0" : "");
    kiln__text_append(w->out, number + digits);
}

static void append_arguments(const writer *w, const kiln__real_node *node, uint32_t first)
{
    for (uint32_t i = first; i < node->count; i++) {
        kiln__text_append(w->out, i == first ? "(" : ",");
        append_node(w, node->args[i], BINDS_CHOICE);
    }
    kiln__text_append(w->out, first < node->count ? ")" : "");
}

/* x is understood where an outermost op takes nothing else. */
static void append_op(const writer *w, const kiln__real_node *node)
{
    const kiln__op *op = kiln__op_at(w->table, node->index);
    const kiln__real_node *input = &w->expr->nodes[node->args[0]];
    bool outermost = !w->inside && node == kiln__real_root(w->expr, 0) && (w->expr->outputs == 1 || op->outputs > 1);
    bool is_x = input->kind == KILN__REAL_INPUT &&
                (!w->named || strcmp(w->expr->input_names[input->index], kiln__input_names[0]) == 0);
    kiln__text_append(w->out, op->name);
    append_arguments(w, node, outermost && op->inputs == 1 && is_x ? 1 : 0);
}

static void append_reduction(const writer *w, const kiln__real_node *node)
{
    char number[KILN__NUMBER_SIZE];
    kiln__number_format(number, node->value);
    kiln__text_printf(w->out, "%s(", kiln__reduction_name((kiln__reduction)node->index));
    append_node(w, node->args[0], BINDS_CHOICE);
    if (kiln__reduction_scans((kiln__reduction)node->index)) {
        kiln__text_append(w->out, (unsigned)node->value & KILN__SCAN_EXCLUSIVE ? ",exclusive=1" : "");
        kiln__text_append(w->out, (unsigned)node->value & KILN__SCAN_REVERSE ? ",reverse=1" : "");
    } else if (node->value != 0) {
        kiln__text_printf(w->out, ",correction=%s", number);
    }
    kiln__text_append(w->out, ")");
}

/* A sum or product of equals is read from the left, so that its right side needs parentheses. */
static void append_binary(const writer *w, const kiln__real_node *node)
{
    int binds = kiln__operator_precedence((kiln__operator)node->index);
    append_node(w, node->args[0], binds);
    kiln__text_append(w->out, kiln__operator_sign((kiln__operator)node->index));
    append_node(w, node->args[1], binds + 1);
}

static void append_choice(const writer *w, const kiln__real_node *node)
{
    append_node(w, node->args[0], BINDS_OR);
    kiln__text_append(w->out, "?");
    append_node(w, node->args[1], BINDS_CHOICE);
    kiln__text_append(w->out, ":");
    append_node(w, node->args[2], BINDS_CHOICE);
}

/* Appends a node, in parentheses where it binds less than its place asks for. */
static void append_node(const writer *w, uint16_t index, int binds)
{
    const kiln__real_node *node = &w->expr->nodes[index];
    bool apart = binding_of(node) < binds;
    kiln__text_append(w->out, apart ? "(" : "");
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_NUMBER:
        append_number(w, node);
        break;
    case KILN__REAL_INPUT:
        kiln__text_append(w->out, w->named ? w->expr->input_names[node->index] : kiln__input_names[node->index]);
        break;
    case KILN__REAL_SCALAR:
        kiln__text_append(w->out, "?");
        if (w->named)
            kiln__text_append(w->out, w->expr->scalar_names[node->index]);
        else
            kiln__text_printf(w->out, "s%u", node->index);
        break;
    case KILN__REAL_INDEX:
        kiln__text_append(w->out, "index");
        break;
    case KILN__REAL_NEGATE:
    case KILN__REAL_NOT:
        kiln__text_append(w->out, node->kind == KILN__REAL_NOT ? "!" : "-");
        append_node(w, node->args[0], BINDS_SIGN);
        break;
    case KILN__REAL_BINARY:
        append_binary(w, node);
        break;
    case KILN__REAL_CHOICE:
        append_choice(w, node);
        break;
    case KILN__REAL_FUNCTION:
        kiln__text_append(w->out, kiln__real_function_name(node));
        append_arguments(w, node, 0);
        break;
    case KILN__REAL_OP:
        append_op(w, node);
        break;
    case KILN__REAL_REDUCTION:
        append_reduction(w, node);
        break;
    case KILN__REAL_PARAM: /* of definitions alone */
        break;
    }
    kiln__text_append(w->out, apart ? ")" : "");
}

void kiln__expr_format(const kiln__real *expr, const kiln__op_table *table, bool named, kiln__text *out)
{
    const writer w = { expr, table, named, false, out };
    bool several = expr->outputs > 1 && kiln__real_root(expr, 1)->output == 0; /* and not all those of one op */
    for (uint32_t i = 0; i < expr->outputs && named && expr->output_names[0][0] != '\0'; i++)
        kiln__text_printf(out, "%s%s%s", i == 0 ? "(" : ",", expr->output_names[i], i + 1 == expr->outputs ? ")=" : "");
    for (uint32_t i = 0; i < (several ? expr->outputs : expr->count > 0 ? 1u : 0u); i++) {
        kiln__text_append(out, !several ? "" : i == 0 ? "(" : ",");
        append_node(&w, expr->roots[i], BINDS_CHOICE);
    }
    kiln__text_append(out, several ? ")" : "");
}

void kiln__expr_format_calls(const kiln__real *expr, const kiln__op_table *table, const char *function, kiln__text *out)
{
    const writer w = { expr, table, true, true, out };
    for (uint32_t i = 0; i < expr->outputs; i++) {
        kiln__text_printf(out, "%s%s(", i > 0 ? "," : expr->outputs > 1 ? "(" : "", function);
        append_node(&w, expr->roots[i], BINDS_CHOICE);
        kiln__text_append(out, ")");
    }
    kiln__text_append(out, expr->outputs > 1 ? ")" : "");
}

/* The name of an argument of an op, inputs first. */
static const char *argument_name(const kiln__op *op, uint32_t i)
{
    return i < op->inputs ? op->input_names[i] : op->param_names[i - op->inputs];
}

/* The place of a name among them; -1: there is none. */
static int find_argument(const kiln__op *op, const char *name)
{
    for (uint32_t i = 0; i < op->inputs + op->params; i++)
        if (strcmp(argument_name(op, i), name) == 0)
            return (int)i;
    return -1;
}

bool kiln__expr_format_other(const kiln__real *expr, const kiln__op_table *table, const kiln__op *other,
                             kiln__text *out)
{
    const writer w = { expr, table, true, true, out };
    const kiln__real_node *root = kiln__real_root(expr, 0);
    int places[KILN__REAL_ARGS_MAX];
    if (expr->outputs != 1 || root->kind != KILN__REAL_OP)
        return false;
    for (uint32_t i = 0; i < other->inputs + other->params; i++) {
        places[i] = find_argument(kiln__op_at(table, root->index), argument_name(other, i));
        if (places[i] < 0)
            return false;
    }
    kiln__text_append(out, other->name);
    for (uint32_t i = 0; i < other->inputs + other->params; i++) {
        kiln__text_append(out, i == 0 ? "(" : ",");
        append_node(&w, root->args[places[i]], BINDS_CHOICE);
    }
    kiln__text_append(out, ")");
    return true;
}

const char *kiln__expr_unportable(const kiln__real *expr, const kiln__op_table *table)
{
    for (uint32_t i = 0; i < expr->count; i++) {
        const kiln__real_node *node = &expr->nodes[i];
        if (node->kind == KILN__REAL_OP && !kiln__op_is_portable(kiln__op_at(table, node->index)))
            return kiln__op_at(table, node->index)->name;
        if (node->kind == KILN__REAL_FUNCTION && !kiln__real_is_portable(node))
            return kiln__real_function_name(node);
    }
    return NULL;
}
