#include "lang/real.h"
#include "base/alloc.h"
#include "base/number.h"
#include "lang/primitive.h"
#include "lang/syntax.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Gives a tree its meaning. */
typedef struct binder {
    const kiln__real_scope *scope;
    const kiln__syntax *tree;
    uint16_t *bound; /* the node that each node of the tree has become */
    kiln__real *out;
    uint32_t room;
    kiln_status status;
    kiln_report *report;
} binder;

#define FAIL(b, where, ...)                                                               \
    do {                                                                                  \
        if ((b)->status == KILN_OK)                                                       \
            (b)->status = kiln__real_fail((b)->scope, (where), (b)->report, __VA_ARGS__); \
    } while (0)

kiln_status kiln__real_fail(const kiln__real_scope *scope, const char *at, kiln_report *report, const char *format, ...)
{
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0, "op %s, character %zu: %s", scope->op,
                      (size_t)(at - scope->text) + 1, what);
}

bool kiln__real_is_word(kiln__word name)
{
    static const char *const words[] = { "x", "y", "z", "inf", "nan", "within", "of", "ulp" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (kiln__word_is(name, words[i]))
            return true;
    return false;
}

bool kiln__real_is_reserved(kiln__word name)
{
    return kiln__real_is_word(name) || kiln__primitive_find(name) >= 0;
}

static uint32_t cost_of(const binder *b, const kiln__real_node *node)
{
    switch (node->kind) {
    case KILN__REAL_BINARY:
        return node->index == KILN__OPERATOR_DIV ? KILN__COST_DIV : 1;
    case KILN__REAL_FUNCTION:
        return kiln__primitives[node->index].cost;
    case KILN__REAL_OP:
        return kiln__op_at(b->scope->ops, node->index)->operations + 1;
    case KILN__REAL_NEGATE:
    case KILN__REAL_NOT:
    case KILN__REAL_CHOICE:
        return 1;
    default:
        return 0;
    }
}

/* An op counts with all that it is made of: what is written with it is as deep to a compiler as if written out. */
static uint32_t depth_of(const binder *b, const kiln__real_node *node)
{
    const kiln__real *inside = node->kind == KILN__REAL_OP ? kiln__op_at(b->scope->ops, node->index)->real : NULL;
    return inside != NULL ? inside->nodes[inside->count - 1].depth + 1u : 1;
}

static bool grow(binder *b)
{
    if (b->out != NULL && b->out->count < b->room)
        return true;
    uint32_t room = b->room == 0 ? 16 : 2 * b->room;
    kiln__real *larger = kiln__realloc(b->out, sizeof(*larger) + room * sizeof(larger->nodes[0]));
    if (larger == NULL) {
        b->status = kiln__fail_memory(b->report, KILN__STAGE_SPEC);
        return false;
    }
    if (b->out == NULL)
        *larger = (kiln__real){ .count = 0 };
    b->out = larger;
    b->room = room;
    return true;
}

static uint16_t add_node(binder *b, const char *at, kiln__real_node node)
{
    if (b->status != KILN_OK)
        return 0;
    if (b->out != NULL && b->out->count == KILN__REAL_NODES_MAX)
        FAIL(b, at, "an expression has at most %d parts: name some of them as ops of their own", KILN__REAL_NODES_MAX);
    if (b->status != KILN_OK || !grow(b))
        return 0;
    for (uint32_t i = 0; i < node.count; i++)
        if (b->out->nodes[node.args[i]].depth > node.depth)
            node.depth = b->out->nodes[node.args[i]].depth;
    node.depth = (uint16_t)(node.depth + depth_of(b, &node));
    if (node.depth > KILN__REAL_DEPTH_MAX)
        FAIL(b, at, "the expression is nested deeper than %d: name a part of it as an op of its own",
             KILN__REAL_DEPTH_MAX);
    b->out->operations += cost_of(b, &node);
    if (b->out->operations > KILN__REAL_OPERATIONS_MAX)
        FAIL(b, at, "this comes to more than %d operations", KILN__REAL_OPERATIONS_MAX);
    b->out->nodes[b->out->count] = node;
    return (uint16_t)b->out->count++;
}

static const char *name_at(const void *data, size_t i)
{
    static const char *const inputs[] = { "x", "y", "z" };
    const kiln__real_scope *scope = data;
    if (i < scope->inputs && i < sizeof(inputs) / sizeof(inputs[0]))
        return inputs[i];
    return i - scope->inputs < scope->params ? scope->param_names[i - scope->inputs] : NULL;
}

static const char *callee_at(const void *data, size_t i)
{
    const kiln__real_scope *scope = data;
    if (i < KILN__PRIMITIVES)
        return kiln__primitives[i].name;
    return i - KILN__PRIMITIVES < scope->op_limit ? kiln__op_name(scope->ops, (uint32_t)(i - KILN__PRIMITIVES)) : NULL;
}

static uint16_t bind_number(binder *b, const kiln__node *node)
{
    kiln__word text = node->text;
    kiln__real_node number = { .kind = KILN__REAL_NUMBER };
    bool hex = text.length > 1 && (text.text[1] == 'x' || text.text[1] == 'X');
    char last = text.text[text.length - 1];
    bool single = (last == 'f' || last == 'F') &&
                  (!hex || memchr(text.text, 'p', text.length) != NULL || memchr(text.text, 'P', text.length) != NULL);
    if (!kiln__number_parse(text.text, text.length - single, &number.value) ||
        (single && fabs(number.value) > (double)FLT_MAX))
        FAIL(b, text.text, "'%s' is not a number, or too large for one", kiln__word_quote(text).text);
    else if (single)
        number.value = (double)(float)number.value;
    return add_node(b, text.text, number);
}

/* The number of an op, -1 if there is none. */
static int find_op(binder *b, kiln__word name)
{
    int index;
    kiln_status status = kiln__op_find(b->scope->ops, name, b->scope->op_limit, &index, b->report);
    b->status = b->status == KILN_OK ? status : b->status;
    return index;
}

static uint16_t bind_name(binder *b, kiln__word name)
{
    const kiln__real_scope *scope = b->scope;
    kiln__real_node node = { .kind = KILN__REAL_INPUT };
    if (kiln__word_is(name, "inf") || kiln__word_is(name, "INFINITY")) {
        node = (kiln__real_node){ .kind = KILN__REAL_NUMBER, .value = INFINITY };
        return add_node(b, name.text, node);
    }
    for (uint32_t i = 0; i < scope->inputs + scope->params; i++) {
        if (!kiln__word_is(name, name_at(scope, i)))
            continue;
        bool input = i < scope->inputs;
        node.kind = input ? KILN__REAL_INPUT : KILN__REAL_PARAM;
        node.index = (uint16_t)(input ? i : i - scope->inputs);
        uint16_t made = add_node(b, name.text, node);
        if (b->status == KILN_OK && input && i + 1 > b->out->inputs)
            b->out->inputs = i + 1;
        return made;
    }
    if (kiln__primitive_find(name) >= 0 || find_op(b, name) >= 0)
        FAIL(b, name.text, "'%s' is called with its arguments: %s(...)", kiln__word_quote(name).text,
             kiln__word_quote(name).text);
    FAIL(b, name.text, "unknown name '%s': %s", kiln__word_quote(name).text,
         kiln__word_hint(name, name_at, scope).text);
    return 0;
}

/* A call may leave out parameters of an op. */
static void add_defaults(binder *b, kiln__real_node *node, const kiln__op *op, const char *at)
{
    while (b->status == KILN_OK && node->count < op->inputs + op->params) {
        kiln__real_node number = { .kind = KILN__REAL_NUMBER, .value = op->defaults[node->count - op->inputs] };
        node->args[node->count] = add_node(b, at, number);
        node->count++;
    }
}

/* The function or op that a call means. A function hides an op of its name. */
static const kiln__op *find_callee(binder *b, kiln__word name, kiln__real_node *node)
{
    int function = kiln__primitive_find(name), index = function < 0 ? find_op(b, name) : -1;
    const kiln__op *op = index >= 0 ? kiln__op_at(b->scope->ops, (uint32_t)index) : NULL;
    node->kind = op != NULL ? KILN__REAL_OP : KILN__REAL_FUNCTION;
    node->index = (uint16_t)(op != NULL ? index : function);
    if (op == NULL && function < 0)
        FAIL(b, name.text, "unknown function or op '%s': %s", kiln__word_quote(name).text,
             kiln__word_hint(name, callee_at, b->scope).text);
    if (op == NULL && function >= 0 && kiln__primitives[function].cost == 0 && !b->scope->reference)
        FAIL(b, name.text, "%s has other bits on a GPU than on the cpu: it is for what follows 'of' only",
             kiln__primitives[function].name);
    return op;
}

static void take_children(const binder *b, const kiln__node *node, kiln__real_node *out)
{
    uint32_t child = node->first;
    out->count = (uint16_t)node->count;
    for (uint32_t i = 0; i < node->count; i++, child = b->tree->nodes[child].next)
        out->args[i] = b->bound[child];
}

static uint16_t bind_call(binder *b, const kiln__node *call)
{
    kiln__word name = call->text;
    kiln__real_node node = { 0 };
    const kiln__op *op = find_callee(b, name, &node);
    if (b->status != KILN_OK)
        return 0;
    uint32_t least = op != NULL ? op->inputs : kiln__primitives[node.index].arity;
    uint32_t most = op != NULL ? op->inputs + op->params : least, given = call->count;
    if (given < least || given > most) {
        uint32_t bound = given < least ? least : most;
        FAIL(b, name.text, "%s takes %s%u argument%s, got %u", kiln__word_quote(name).text,
             least == most   ? ""
             : given < least ? "at least "
                             : "at most ",
             bound, bound == 1 ? "" : "s", given);
        return 0;
    }
    take_children(b, call, &node);
    if (op != NULL)
        add_defaults(b, &node, op, name.text);
    return add_node(b, name.text, node);
}

/* The sign of a number is part of it. */
static uint16_t bind_negation(binder *b, const kiln__node *node, kiln__real_node *out)
{
    uint16_t value = b->bound[node->first];
    if (b->out->nodes[value].kind != KILN__REAL_NUMBER || value + 1u != b->out->count) {
        out->kind = KILN__REAL_NEGATE;
        return add_node(b, node->text.text, *out);
    }
    b->out->nodes[value].value = -b->out->nodes[value].value;
    return value;
}

static uint16_t bind_node(binder *b, const kiln__node *node)
{
    kiln__real_node out = { 0 };
    if (node->kind == KILN__NODE_NUMBER)
        return bind_number(b, node);
    if (node->kind == KILN__NODE_NAME)
        return bind_name(b, node->text);
    if (node->kind == KILN__NODE_CALL)
        return bind_call(b, node);
    if (node->kind == KILN__NODE_OPEN)
        FAIL(b, node->text.text, "expected a value at '?'");
    if (node->kind == KILN__NODE_NAMED)
        FAIL(b, node->text.text, "arguments are given by their place here, not by name: '%s'",
             kiln__word_quote(node->text).text);
    if (b->status != KILN_OK)
        return 0;
    take_children(b, node, &out);
    if (node->kind == KILN__NODE_NEGATE)
        return bind_negation(b, node, &out);
    out.kind = node->kind == KILN__NODE_NOT      ? KILN__REAL_NOT
               : node->kind == KILN__NODE_CHOICE ? KILN__REAL_CHOICE
                                                 : KILN__REAL_BINARY;
    out.index = (uint16_t)node->sign;
    if (node->sign == KILN__OPERATOR_MOD)
        FAIL(b, node->text.text, "real numbers have no operator %%");
    return add_node(b, node->text.text, out);
}

static void bind_tree(binder *b)
{
    b->bound = kiln__alloc(b->tree->count * sizeof(*b->bound));
    if (b->bound == NULL)
        b->status = kiln__fail_memory(b->report, KILN__STAGE_SPEC);
    for (uint32_t i = 0; i < b->tree->count && b->status == KILN_OK; i++)
        b->bound[i] = bind_node(b, &b->tree->nodes[i]);
    kiln__free(b->bound);
}

kiln_status kiln__real_parse(kiln__real **out, const kiln__real_scope *scope, const char **at, kiln_report *report)
{
    kiln__syntax tree;
    kiln__syntax_fault fault;
    binder b = { .scope = scope, .tree = &tree, .report = report };
    *out = NULL;
    b.status = kiln__syntax_read(&tree, at, *at + strlen(*at), KILN__REAL_DEPTH_MAX, &fault);
    if (b.status == KILN_ENOMEM)
        kiln__fail_memory(report, KILN__STAGE_SPEC);
    else if (b.status != KILN_OK)
        b.status = kiln__real_fail(scope, fault.at, report, "%s", fault.text);
    else
        bind_tree(&b);
    kiln__syntax_free(&tree);
    if (b.status == KILN_OK)
        *out = b.out;
    else
        kiln__free(b.out);
    return b.status;
}

void kiln__real_free(kiln__real *real)
{
    kiln__free(real);
}
