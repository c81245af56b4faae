#include "template/expr.h"
#include "base/number.h"
#include "lang/word.h"
#include "template/real.h"
#include <stdio.h>
#include <string.h>

enum { INPUTS_MAX = 3 };

static const char input_names[] = "xyz";

typedef struct parser {
    kiln__expr *out;
    const kiln__op_table *table;
    const char *at, *end;
    kiln_status status;
    kiln_report *report;
} parser;

/* An op's arguments while they are read. The counts go on past what the op takes, for the message. */
typedef struct call {
    const kiln__op *op;
    kiln__expr_node node;
    uint32_t inputs, params; /* given */
    uint32_t named;          /* of the params given */
    uint32_t given;          /* bit i: param i has a value */
} call;

#define FAIL(p, ...)                                                                           \
    do {                                                                                       \
        if ((p)->status == KILN_OK)                                                            \
            (p)->status = kiln__fail((p)->report, KILN_EOP, KILN__STAGE_SPEC, 0, __VA_ARGS__); \
    } while (0)

static int read_op(parser *p, int depth);

static const char *op_name_at(const void *data, size_t i)
{
    const kiln__op_table *table = data;
    return kiln__op_name(table, (uint32_t)i);
}

static const char *param_name_at(const void *data, size_t i)
{
    const kiln__op *op = data;
    return i < op->params ? op->param_names[i] : NULL;
}

static kiln__word rest_of(const parser *p)
{
    return (kiln__word){ p->at, (size_t)(p->end - p->at) };
}

static bool peek(parser *p, char c)
{
    while (p->at < p->end && kiln__word_is_blank(*p->at))
        p->at++;
    return p->at < p->end && *p->at == c;
}

static bool take(parser *p, char c)
{
    bool found = peek(p, c);
    p->at += found;
    return found;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static kiln__word take_name(parser *p)
{
    kiln__word name = { p->at, 0 };
    while (p->at < p->end && (is_letter(*p->at) || (p->at > name.text && *p->at >= '0' && *p->at <= '9')))
        p->at++;
    name.length = (size_t)(p->at - name.text);
    return name;
}

static kiln__word take_number(parser *p)
{
    kiln__word number = { p->at, 0 };
    while (p->at < p->end && *p->at != ',' && *p->at != ')' && !kiln__word_is_blank(*p->at))
        p->at++;
    number.length = (size_t)(p->at - number.text);
    return number;
}

static bool is_nan(kiln__word word)
{
    while (word.length > 3 && (*word.text == '-' || *word.text == '+'))
        word = (kiln__word){ word.text + 1, word.length - 1 };
    return word.length == 3 && strncasecmp(word.text, "nan", 3) == 0;
}

static int add_node(parser *p, const kiln__expr_node *node)
{
    kiln__expr *out = p->out;
    if (out->count == KILN__EXPR_NODES_MAX) {
        FAIL(p, "the op expression has more than %d ops and inputs", KILN__EXPR_NODES_MAX);
        return -1;
    }
    out->nodes[out->count] = *node;
    return (int)out->count++;
}

static int add_input(parser *p, int input)
{
    kiln__expr_node node = { .op = -1, .input = input };
    return add_node(p, &node);
}

static int input_index(kiln__word name)
{
    const char *at = name.length == 1 ? strchr(input_names, name.text[0]) : NULL;
    return at != NULL ? (int)(at - input_names) : -1;
}

static void read_input(parser *p, call *c, int depth)
{
    kiln__word start = rest_of(p);
    int input = input_index(take_name(p));
    if (input < 0) {
        p->at = start.text;
        input = read_op(p, depth + 1);
    } else {
        input = add_input(p, input);
    }
    if (c->params > 0)
        FAIL(p, "op %s: its inputs come before its parameters, at '%s'", c->op->name, kiln__word_quote(start).text);
    if (c->inputs < c->op->inputs)
        c->node.args[c->inputs] = input;
    c->inputs++;
}

static void set_param(parser *p, call *c, uint32_t index, kiln__word text)
{
    const kiln__op *op = c->op;
    if (kiln__word_is(text, "?"))
        FAIL(p, "'?' is reserved for scalars given at launch: write a number");
    if (index >= op->params)
        return;
    const char *name = op->param_names[index];
    if ((c->given & (1u << index)) != 0)
        FAIL(p, "parameter %s of op %s is given twice", name, op->name);
    c->given |= 1u << index;
    if (is_nan(text))
        FAIL(p, "parameter %s of op %s must not be NaN", name, op->name);
    if (!kiln__number_parse(text.text, text.length, &c->node.params[index]))
        FAIL(p, "parameter %s of op %s: '%s' is not a number, or too large for one", name, op->name,
             kiln__word_quote(text).text);
}

static void read_named(parser *p, call *c, kiln__word name)
{
    const kiln__op *op = c->op;
    uint32_t index = 0;
    while (index < op->params && !kiln__word_is(name, op->param_names[index]))
        index++;
    peek(p, '\0'); /* skips the blanks */
    kiln__word text = take_number(p);
    if (op->params == 0)
        FAIL(p, "op %s takes no parameters, got '%s'", op->name, kiln__word_quote(name).text);
    if (index == op->params)
        FAIL(p, "op %s has no parameter '%s': %s", op->name, kiln__word_quote(name).text,
             kiln__word_hint(name, param_name_at, op).text);
    c->params++;
    c->named++;
    set_param(p, c, index, text);
}

static void read_positional(parser *p, call *c)
{
    kiln__word start = rest_of(p);
    kiln__word text = take_number(p);
    if (text.length == 0)
        FAIL(p, "op %s: an argument is missing at '%s'", c->op->name, kiln__word_quote(start).text);
    if (c->named > 0)
        FAIL(p, "op %s: '%s' follows a named parameter: name it too", c->op->name, kiln__word_quote(text).text);
    set_param(p, c, c->params, text);
    c->params++;
}

static void read_argument(parser *p, call *c, int depth)
{
    if (peek(p, '\0') || p->at == p->end || !is_letter(*p->at)) {
        read_positional(p, c);
        return;
    }
    const char *start = p->at;
    kiln__word name = take_name(p);
    if (take(p, '=')) {
        read_named(p, c, name);
        return;
    }
    p->at = start;
    if (kiln__word_is(name, "inf") || is_nan(name))
        read_positional(p, c);
    else
        read_input(p, c, depth);
}

static void read_arguments(parser *p, call *c, int depth)
{
    if (!take(p, '(') || take(p, ')'))
        return;
    do {
        read_argument(p, c, depth);
    } while (p->status == KILN_OK && take(p, ','));
    if (p->status != KILN_OK || take(p, ')'))
        return;
    if (p->at == p->end)
        FAIL(p, "')' is missing at the end of op %s(...", c->op->name);
    FAIL(p, "op %s: expected ',' or ')' at '%s'", c->op->name, kiln__word_quote(rest_of(p)).text);
}

static void check_counts(parser *p, const call *c)
{
    const kiln__op *op = c->op;
    if (c->inputs != 0 && c->inputs != op->inputs)
        FAIL(p, "op %s takes %u input%s, got %u", op->name, op->inputs, op->inputs == 1 ? "" : "s", c->inputs);
    if (c->params <= op->params)
        return;
    if (op->params == 0)
        FAIL(p, "op %s takes no parameters, got %u", op->name, c->params);
    char names[160] = "";
    for (uint32_t i = 0, length = 0; i < op->params && length < sizeof(names); i++)
        length +=
            (uint32_t)snprintf(names + length, sizeof(names) - length, "%s%s", i == 0 ? "" : ", ", op->param_names[i]);
    FAIL(p, "op %s takes at most %u parameter%s (%s), got %u", op->name, op->params, op->params == 1 ? "" : "s", names,
         c->params);
}

static const kiln__op *find_op(parser *p, int *index)
{
    kiln__word start = rest_of(p);
    kiln__word name = take_name(p);
    kiln_status status = kiln__op_find(p->table, name, KILN__OPS_MAX, index, p->report);
    p->status = p->status == KILN_OK ? status : p->status;
    if (*index >= 0)
        return kiln__op_at(p->table, (uint32_t)*index);
    if (name.length == 0 && start.length == 0)
        FAIL(p, "an op is missing: %s", kiln__word_choices(op_name_at, p->table).text);
    if (name.length == 0)
        FAIL(p, "expected an op at '%s'", kiln__word_quote(start).text);
    if (input_index(name) >= 0)
        FAIL(p, "'%c' is an input, not an op: %s", name.text[0], kiln__word_choices(op_name_at, p->table).text);
    FAIL(p, "unknown op '%s': %s", kiln__word_quote(name).text, kiln__word_hint(name, op_name_at, p->table).text);
    return NULL;
}

static int read_op(parser *p, int depth)
{
    call c = { 0 };
    if (depth > KILN__EXPR_DEPTH_MAX)
        FAIL(p, "the op expression is nested deeper than %d", KILN__EXPR_DEPTH_MAX);
    if (p->status != KILN_OK)
        return -1;
    peek(p, '\0');
    c.op = find_op(p, &c.node.op);
    if (c.op == NULL)
        return -1;
    memcpy(c.node.params, c.op->defaults, c.op->params * sizeof(double));
    read_arguments(p, &c, depth);
    check_counts(p, &c);
    for (uint32_t i = 0; i < c.op->inputs && c.inputs == 0 && p->status == KILN_OK; i++)
        c.node.args[i] = add_input(p, (int)i);
    return p->status == KILN_OK ? add_node(p, &c.node) : -1;
}

static void count_inputs(parser *p)
{
    unsigned used = 0;
    for (uint32_t i = 0; i < p->out->count; i++)
        if (p->out->nodes[i].op < 0)
            used |= 1u << p->out->nodes[i].input;
    while ((used & (1u << p->out->inputs)) != 0)
        p->out->inputs++;
    for (uint32_t i = p->out->inputs + 1; i < INPUTS_MAX; i++)
        if ((used & (1u << i)) != 0)
            FAIL(p, "the op expression uses input %c but not %c: take x first, then y, then z", input_names[i],
                 input_names[p->out->inputs]);
}

/* Ops of users' own may be large, and each is compiled once for every place where it stands. */
uint32_t kiln__expr_operations(const kiln__expr *expr, const kiln__op_table *table)
{
    uint32_t operations = 0;
    for (uint32_t i = 0; i < expr->count; i++)
        if (expr->nodes[i].op >= 0)
            operations += kiln__op_at(table, expr->nodes[i].op)->operations;
    return operations;
}

static void check_operations(parser *p)
{
    uint32_t operations = kiln__expr_operations(p->out, p->table);
    if (operations > KILN__REAL_OPERATIONS_MAX)
        FAIL(p, "the op expression comes to %u operations, more than %d", operations, KILN__REAL_OPERATIONS_MAX);
}

kiln_status kiln__expr_parse(kiln__expr *out, const kiln__op_table *table, const char *text, size_t length,
                             kiln_report *report)
{
    parser p = { out, table, text, text + length, KILN_OK, report };
    out->count = out->inputs = 0;
    read_op(&p, 1);
    peek(&p, '\0');
    if (p.at < p.end)
        FAIL(&p, "unexpected '%s' after the op", kiln__word_quote(rest_of(&p)).text);
    count_inputs(&p);
    check_operations(&p);
    if (p.status != KILN_OK)
        out->count = out->inputs = 0;
    return p.status;
}

static void format_node(const kiln__expr *expr, const kiln__op_table *table, int index, bool outermost, kiln__text *out)
{
    const kiln__expr_node *node = &expr->nodes[index];
    if (node->op < 0) {
        kiln__text_append_bytes(out, &input_names[node->input], 1);
        return;
    }
    const kiln__op *op = kiln__op_at(table, node->op);
    bool x_is_understood = outermost && op->inputs == 1 && expr->nodes[node->args[0]].op < 0;
    kiln__text_append(out, op->name);
    if (x_is_understood && op->params == 0)
        return;
    const char *link = "(";
    for (uint32_t i = 0; i < op->inputs && !x_is_understood; i++, link = ",") {
        kiln__text_append(out, link);
        format_node(expr, table, node->args[i], false, out);
    }
    for (uint32_t i = 0; i < op->params; i++, link = ",") {
        char number[KILN__NUMBER_SIZE];
        kiln__number_format(number, node->params[i]);
        kiln__text_append(out, link);
        kiln__text_append(out, number);
    }
    kiln__text_append(out, ")");
}

void kiln__expr_format(const kiln__expr *expr, const kiln__op_table *table, kiln__text *out)
{
    if (expr->count > 0)
        format_node(expr, table, (int)expr->count - 1, true, out);
}

static void emit_node(const kiln__expr *expr, const kiln__op_table *table, int index, kiln__text *out)
{
    const kiln__expr_node *node = &expr->nodes[index];
    if (node->op < 0) {
        kiln__text_append_bytes(out, &input_names[node->input], 1);
        return;
    }
    const kiln__op *op = kiln__op_at(table, node->op);
    kiln__text_printf(out, "kiln_op_%s(", op->name);
    for (uint32_t i = 0; i < op->inputs; i++) {
        kiln__text_append(out, i == 0 ? "" : ", ");
        emit_node(expr, table, node->args[i], out);
    }
    for (uint32_t i = 0; i < op->params; i++) {
        kiln__text_append(out, ", ");
        kiln__real_emit_number(node->params[i], out);
    }
    kiln__text_append(out, ")");
}

void kiln__expr_emit(const kiln__expr *expr, const kiln__op_table *table, kiln__text *out)
{
    if (expr->count > 0)
        emit_node(expr, table, (int)expr->count - 1, out);
}
