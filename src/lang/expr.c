/* Op expressions: from a tree to nodes, and these as canonical text and as C. */
#include "lang/expr.h"

#include "base/number.h"
#include "lang/real.h"
#include "lang/syntax.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct binder {
    kiln__expr *out;
    const kiln__op_table *table;
    const kiln__syntax *tree;
    const char *end;
    int operands[KILN__EXPR_NODES_MAX]; /* nodes that are not yet inputs of an op, the latest last */
    uint32_t operand_count;
    uint8_t depth[KILN__EXPR_NODES_MAX]; /* of each node, in ops */
    kiln_status status;
    kiln_report *report;
} binder;

/* An op's arguments while they are bound. The counts include arguments that are too many, for the message. */
typedef struct call {
    const kiln__op *op;
    kiln__expr_node node;
    const int *operands;     /* its inputs, if the number is right */
    uint32_t inputs, params; /* given */
    uint32_t named;          /* of the params given */
    uint32_t given;          /* bit i: param i has a value */
} call;

#define FAIL(b, ...)                                                                           \
    do {                                                                                       \
        if ((b)->status == KILN_OK)                                                            \
            (b)->status = kiln__fail((b)->report, KILN_EOP, KILN__STAGE_SPEC, 0, __VA_ARGS__); \
    } while (0)

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

static kiln__quote quote_from(const binder *b, const char *at)
{
    return kiln__word_quote((kiln__word){ at, (size_t)(b->end - at) });
}

/* -1 for a name that is none of x, y and z. */
static int input_index(kiln__word name)
{
    for (int i = 0; i < KILN__INPUTS_MAX; i++)
        if (kiln__word_is(name, kiln__input_names[i]))
            return i;
    return -1;
}

/* ---- Numbers */

static bool is_nan(kiln__word word)
{
    return word.length == 3 && strncasecmp(word.text, "nan", 3) == 0;
}

/* The node behind the signs of a number. */
static const kiln__node *skip_signs(const binder *b, const kiln__node *node)
{
    while (node->kind == KILN__NODE_NEGATE)
        node = &b->tree->nodes[node->first];
    return node;
}

static bool is_number(const binder *b, const kiln__node *node)
{
    node = skip_signs(b, node);
    return node->kind == KILN__NODE_NUMBER ||
           (node->kind == KILN__NODE_NAME && (kiln__word_is(node->text, "inf") || is_nan(node->text)));
}

static bool read_number(const binder *b, const kiln__node *node, double *out)
{
    const kiln__node *bare = skip_signs(b, node);
    if (!is_number(b, node) || !kiln__number_parse(bare->text.text, bare->text.length, out))
        return false;
    for (; node != bare; node = &b->tree->nodes[node->first])
        *out = -*out;
    return true;
}

/* ---- Arguments */

static int add_node(binder *b, const kiln__expr_node *node, uint32_t depth)
{
    kiln__expr *out = b->out;
    if (out->count == KILN__EXPR_NODES_MAX)
        FAIL(b, "the op expression has more than %d ops and inputs", KILN__EXPR_NODES_MAX);
    if (depth > KILN__EXPR_DEPTH_MAX)
        FAIL(b, "the op expression is nested deeper than %d", KILN__EXPR_DEPTH_MAX);
    if (b->status != KILN_OK)
        return -1;
    b->depth[out->count] = (uint8_t)depth;
    out->nodes[out->count] = *node;
    return (int)out->count++;
}

static int add_input(binder *b, int input)
{
    kiln__expr_node node = { .op = -1, .input = input };
    return add_node(b, &node, 0);
}

/* `value` is NULL where nothing follows "name=". */
static void set_param(binder *b, call *c, uint32_t index, const kiln__node *value)
{
    static const kiln__word nothing = { "", 0 };
    const kiln__op *op = c->op;
    if (value != NULL && value->kind == KILN__NODE_OPEN)
        FAIL(b, "'?' is reserved for scalars given at launch: write a number");
    if (index >= op->params)
        return;
    const char *name = op->param_names[index];
    kiln__word text = value != NULL ? skip_signs(b, value)->text : nothing;
    if ((c->given & (1u << index)) != 0)
        FAIL(b, "parameter %s of op %s is given twice", name, op->name);
    c->given |= 1u << index;
    if (is_nan(text))
        FAIL(b, "parameter %s of op %s must not be NaN", name, op->name);
    if (value == NULL || !read_number(b, value, &c->node.params[index]))
        FAIL(b, "parameter %s of op %s: '%s' is not a number, or too large for one", name, op->name,
             kiln__word_quote(text).text);
}

static void bind_named(binder *b, call *c, const kiln__node *argument)
{
    const kiln__op *op = c->op;
    kiln__word name = argument->text;
    uint32_t index = 0;
    while (index < op->params && !kiln__word_is(name, op->param_names[index]))
        index++;
    if (op->params == 0)
        FAIL(b, "op %s takes no parameters, got '%s'", op->name, kiln__word_quote(name).text);
    if (index == op->params)
        FAIL(b, "op %s has no parameter '%s': %s", op->name, kiln__word_quote(name).text,
             kiln__word_hint(name, param_name_at, op).text);
    c->params++;
    c->named++;
    set_param(b, c, index, argument->count > 0 ? &b->tree->nodes[argument->first] : NULL);
}

static void bind_positional(binder *b, call *c, const kiln__node *argument)
{
    if (c->named > 0)
        FAIL(b, "op %s: '%s' follows a named parameter: name it too", c->op->name,
             kiln__word_quote(skip_signs(b, argument)->text).text);
    set_param(b, c, c->params, argument);
    c->params++;
}

/* An input of an op: a name or a call, but no number. */
static bool is_operand(const binder *b, const kiln__node *argument)
{
    return argument->kind == KILN__NODE_CALL || (argument->kind == KILN__NODE_NAME && !is_number(b, argument));
}

static void bind_input(binder *b, call *c, const kiln__node *argument)
{
    kiln__word name = argument->text;
    if (argument->kind == KILN__NODE_CALL && input_index(name) >= 0)
        FAIL(b, "op %s: expected ',' or ')' at '%s'", c->op->name, quote_from(b, name.text + name.length).text);
    if (c->params > 0)
        FAIL(b, "op %s: its inputs come before its parameters, at '%s'", c->op->name, quote_from(b, name.text).text);
    if (c->inputs < c->op->inputs)
        c->node.args[c->inputs] = c->operands[c->inputs];
    c->inputs++;
}

static void bind_arguments(binder *b, call *c, const kiln__node *node)
{
    const kiln__node *nodes = b->tree->nodes;
    for (uint32_t i = 0, child = node->first; i < node->count; i++, child = nodes[child].next)
        b->operand_count -= is_operand(b, &nodes[child]);
    c->operands = b->operands + b->operand_count;
    for (uint32_t i = 0, child = node->first; i < node->count && b->status == KILN_OK; i++, child = nodes[child].next)
        (nodes[child].kind == KILN__NODE_NAMED ? bind_named
         : is_operand(b, &nodes[child])        ? bind_input
                                               : bind_positional)(b, c, &nodes[child]);
}

static void check_counts(binder *b, const call *c)
{
    const kiln__op *op = c->op;
    if (c->inputs != 0 && c->inputs != op->inputs)
        FAIL(b, "op %s takes %u input%s, got %u", op->name, op->inputs, op->inputs == 1 ? "" : "s", c->inputs);
    if (c->params <= op->params)
        return;
    if (op->params == 0)
        FAIL(b, "op %s takes no parameters, got %u", op->name, c->params);
    char names[160] = "";
    for (uint32_t i = 0, length = 0; i < op->params && length < sizeof(names); i++)
        length +=
            (uint32_t)snprintf(names + length, sizeof(names) - length, "%s%s", i == 0 ? "" : ", ", op->param_names[i]);
    FAIL(b, "op %s takes at most %u parameter%s (%s), got %u", op->name, op->params, op->params == 1 ? "" : "s", names,
         c->params);
}

/* ---- Nodes of the tree */

static const kiln__op *find_op(binder *b, kiln__word name, int *index)
{
    kiln_status status = kiln__op_find(b->table, name, KILN__OPS_MAX, index, b->report);
    b->status = b->status == KILN_OK ? status : b->status;
    if (*index >= 0)
        return kiln__op_at(b->table, (uint32_t)*index);
    if (input_index(name) >= 0)
        FAIL(b, "'%c' is an input, not an op: %s", name.text[0], kiln__word_choices(op_name_at, b->table).text);
    kiln__hint hint = kiln__word_hint_function(name, op_name_at, b->table);
    bool slip = hint.text[strlen(hint.text) - 1] == '?';
    FAIL(b, "unknown op '%s': %s%s", kiln__word_quote(name).text, hint.text,
         slip ? "" : "; --define-op (kiln_op_define) defines others");
    return NULL;
}

/* A bare name, which has no children, is an op without arguments. */
static int bind_op(binder *b, const kiln__node *node)
{
    call c = { 0 };
    uint32_t depth = 0;
    c.op = find_op(b, node->text, &c.node.op);
    if (c.op == NULL)
        return -1;
    memcpy(c.node.params, c.op->defaults, c.op->params * sizeof(double));
    bind_arguments(b, &c, node);
    check_counts(b, &c);
    for (uint32_t i = 0; i < c.op->inputs && b->status == KILN_OK; i++) {
        if (c.inputs == 0)
            c.node.args[i] = add_input(b, (int)i);
        if (b->status == KILN_OK && b->depth[c.node.args[i]] > depth)
            depth = b->depth[c.node.args[i]];
    }
    return b->status == KILN_OK ? add_node(b, &c.node, depth + 1) : -1;
}

static void refuse_node(binder *b, const kiln__node *node)
{
    if (is_number(b, node))
        FAIL(b, "expected an op at '%s'", quote_from(b, node->text.text).text);
    FAIL(b, "op expressions have no operator '%s': write numbers out, and define an op for arithmetic",
         kiln__word_quote(node->text).text);
}

/* The call around them reads numbers and the values of named arguments. */
static bool is_left_to_call(const binder *b, uint32_t index)
{
    const kiln__node *node = &b->tree->nodes[index];
    if (index + 1 == b->tree->count)
        return false;
    return is_number(b, node) || node->kind == KILN__NODE_NAMED || node->kind == KILN__NODE_OPEN ||
           (node->kind == KILN__NODE_NAME && node[1].kind == KILN__NODE_NAMED && node[1].first == index);
}

/* The call around it refuses an input that is called, because it knows the place. */
static void bind_node(binder *b, uint32_t index)
{
    const kiln__node *node = &b->tree->nodes[index];
    bool is_root = index + 1 == b->tree->count;
    if (is_left_to_call(b, index))
        return;
    if (node->kind != KILN__NODE_NAME && node->kind != KILN__NODE_CALL) {
        refuse_node(b, node);
        return;
    }
    int input = is_root ? -1 : input_index(node->text);
    int made = input >= 0 ? add_input(b, input) : bind_op(b, node);
    if (b->status == KILN_OK)
        b->operands[b->operand_count++] = made;
}

static void count_inputs(binder *b)
{
    unsigned used = 0;
    for (uint32_t i = 0; i < b->out->count; i++)
        if (b->out->nodes[i].op < 0)
            used |= 1u << b->out->nodes[i].input;
    while ((used & (1u << b->out->inputs)) != 0)
        b->out->inputs++;
    for (uint32_t i = b->out->inputs + 1; i < KILN__INPUTS_MAX; i++)
        if ((used & (1u << i)) != 0)
            FAIL(b, "the op expression uses input %s but not %s: take x first, then y, then z", kiln__input_names[i],
                 kiln__input_names[b->out->inputs]);
}

/* An op is compiled once for every place where it stands, and user-defined ones may be large. */
uint32_t kiln__expr_operations(const kiln__expr *expr, const kiln__op_table *table)
{
    uint32_t operations = 0;
    for (uint32_t i = 0; i < expr->count; i++)
        if (expr->nodes[i].op >= 0)
            operations += kiln__op_at(table, expr->nodes[i].op)->operations;
    return operations;
}

static void take_kind(kiln__expr_kind *out, const kiln__expr_node *node, const kiln__op *op)
{
    const kiln__real *whole = kiln__op_of_integers(op);
    out->whole = out->whole && whole->whole;
    out->wide = out->wide || whole->wide;
    for (uint32_t i = 0; i < op->params; i++) {
        out->whole = out->whole && kiln__number_is_whole(node->params[i]);
        out->wide = out->wide || kiln__number_is_wide(node->params[i]);
    }
    out->integral = out->integral || op->real->integral;
    out->truth = op->real->truth;
}

kiln__expr_kind kiln__expr_kind_of(const kiln__expr *expr, const kiln__op_table *table)
{
    kiln__expr_kind kind = { .whole = true };
    for (uint32_t i = 0; i < expr->count; i++) {
        const kiln__expr_node *node = &expr->nodes[i];
        const kiln__op *op = node->op >= 0 ? kiln__op_at(table, (uint32_t)node->op) : NULL;
        kind.truth = false; /* unless that of the last node is true */
        if (op != NULL)
            take_kind(&kind, node, op);
    }
    return kind;
}

/* The first op for which something does not hold, or NULL. */
static const kiln__op *find_exception(const kiln__expr *expr, const kiln__op_table *table,
                                      bool (*holds)(const kiln__op *op))
{
    for (uint32_t i = 0; i < expr->count; i++) {
        const kiln__op *op = expr->nodes[i].op >= 0 ? kiln__op_at(table, (uint32_t)expr->nodes[i].op) : NULL;
        if (op != NULL && !holds(op))
            return op;
    }
    return NULL;
}

bool kiln__expr_is_exact(const kiln__expr *expr, const kiln__op_table *table)
{
    return find_exception(expr, table, kiln__op_is_exact) == NULL;
}

static bool has_no_fast(const kiln__op *op)
{
    return !kiln__op_has_fast(op);
}

bool kiln__expr_has_fast(const kiln__expr *expr, const kiln__op_table *table)
{
    return find_exception(expr, table, has_no_fast) != NULL;
}

const kiln__op *kiln__expr_unportable(const kiln__expr *expr, const kiln__op_table *table)
{
    return find_exception(expr, table, kiln__op_is_portable);
}

static void refuse_syntax(binder *b, const kiln__syntax_fault *fault)
{
    kiln__quote name = kiln__word_quote(fault->call), rest = quote_from(b, fault->at);
    bool in_call = fault->call.length > 0, at_end = fault->at == b->end;
    if (fault->kind == KILN__FAULT_DEPTH)
        FAIL(b, "the op expression is nested deeper than %d", KILN__EXPR_DEPTH_MAX);
    if (fault->kind == KILN__FAULT_VALUE && in_call)
        FAIL(b, "op %s: an argument is missing at '%s'", name.text, rest.text);
    if (fault->kind == KILN__FAULT_VALUE && at_end)
        FAIL(b, "an op is missing: %s", kiln__word_choices(op_name_at, b->table).text);
    if (fault->kind == KILN__FAULT_VALUE)
        FAIL(b, "expected an op at '%s'", rest.text);
    if (fault->kind == KILN__FAULT_CLOSE && in_call && at_end)
        FAIL(b, "')' is missing at the end of op %s(...", name.text);
    if (fault->kind == KILN__FAULT_CLOSE && in_call)
        FAIL(b, "op %s: expected ',' or ')' at '%s'", name.text, rest.text);
    FAIL(b, "the op expression: %s", fault->text);
}

static void bind_tree(binder *b, kiln__syntax *tree, const char *text)
{
    kiln__syntax_fault fault;
    /* Two levels are no ops: an argument, and its sign. */
    kiln_status status = kiln__syntax_read(tree, &text, b->end, KILN__EXPR_DEPTH_MAX + 2, &fault);
    if (status == KILN_ENOMEM)
        b->status = kiln__fail_memory(b->report, KILN__STAGE_SPEC);
    else if (status != KILN_OK)
        refuse_syntax(b, &fault);
    for (uint32_t i = 0; i < tree->count && b->status == KILN_OK; i++)
        bind_node(b, i);
    if (text < b->end)
        FAIL(b, "unexpected '%s' after the op", quote_from(b, text).text);
}

kiln_status kiln__expr_parse(kiln__expr *out, const kiln__op_table *table, const char *text, size_t length,
                             kiln_report *report)
{
    kiln__syntax tree;
    binder b = { .out = out, .table = table, .tree = &tree, .end = text + length, .report = report };
    out->count = out->inputs = 0;
    bind_tree(&b, &tree, text);
    kiln__syntax_free(&tree);
    count_inputs(&b);
    uint32_t operations = kiln__expr_operations(out, table);
    if (operations > KILN__REAL_OPERATIONS_MAX)
        FAIL(&b, "the op expression comes to %u operations, more than %d", operations, KILN__REAL_OPERATIONS_MAX);
    if (b.status != KILN_OK)
        out->count = out->inputs = 0;
    return b.status;
}

/* Appends a node as canonical text or as C. */
static void append_node(const kiln__expr *expr, const kiln__op_table *table, int index, bool as_c, bool outermost,
                        kiln__text *out)
{
    const kiln__expr_node *node = &expr->nodes[index];
    if (node->op < 0) {
        kiln__text_append(out, kiln__input_names[node->input]);
        return;
    }
    const kiln__op *op = kiln__op_at(table, node->op);
    const char *link = "(", *comma = as_c ? ", " : ",";
    bool x_is_understood = !as_c && outermost && op->inputs == 1 && expr->nodes[node->args[0]].op < 0;
    kiln__text_append(out, as_c ? "kiln_op_" : "");
    kiln__text_append(out, op->name);
    if (x_is_understood && op->params == 0)
        return;
    for (uint32_t i = 0; i < op->inputs && !x_is_understood; i++, link = comma) {
        kiln__text_append(out, link);
        append_node(expr, table, node->args[i], as_c, false, out);
    }
    for (uint32_t i = 0; i < op->params; i++, link = comma) {
        char number[KILN__NUMBER_SIZE];
        kiln__text_append(out, link);
        if (as_c) {
            kiln__real_emit_number(node->params[i], out);
        } else {
            kiln__number_format(number, node->params[i]);
            kiln__text_append(out, number);
        }
    }
    kiln__text_append(out, ")");
}

void kiln__expr_format(const kiln__expr *expr, const kiln__op_table *table, kiln__text *out)
{
    if (expr->count > 0)
        append_node(expr, table, (int)expr->count - 1, false, true, out);
}

void kiln__expr_emit(const kiln__expr *expr, const kiln__op_table *table, kiln__text *out)
{
    if (expr->count > 0)
        append_node(expr, table, (int)expr->count - 1, true, true, out);
}
