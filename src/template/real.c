#include "template/real.h"
#include "base/alloc.h"
#include "base/number.h"
#include "template/primitive.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct parser {
    const kiln__real_scope *scope;
    const char *at;
    kiln__real *out;
    uint32_t room;
    int depth;
    kiln_status status;
    kiln_report *report;
} parser;

#define FAIL(p, where, ...)                                                               \
    do {                                                                                  \
        if ((p)->status == KILN_OK)                                                       \
            (p)->status = kiln__real_fail((p)->scope, (where), (p)->report, __VA_ARGS__); \
    } while (0)

static uint16_t read_choice(parser *p);

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

bool kiln__real_is_reserved(kiln__word name)
{
    static const char *const words[] = { "x", "y", "z", "inf", "nan", "within", "of", "ulp" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (kiln__word_is(name, words[i]))
            return true;
    return kiln__primitive_find(name) >= 0;
}

static void skip_blanks(parser *p)
{
    while (kiln__word_is_blank(*p->at))
        p->at++;
}

static bool take(parser *p, char c)
{
    skip_blanks(p);
    bool found = *p->at == c;
    p->at += found;
    return found;
}

static bool expect(parser *p, char c)
{
    if (p->status != KILN_OK || take(p, c))
        return p->status == KILN_OK;
    if (*p->at == '\0')
        FAIL(p, p->at, "'%c' is missing", c);
    FAIL(p, p->at, "expected '%c' at '%s'", c, kiln__word_quote((kiln__word){ p->at, strlen(p->at) }).text);
    return false;
}

static uint32_t cost_of(const parser *p, const kiln__real_node *node)
{
    switch (node->kind) {
    case KILN__REAL_BINARY:
        return node->index == KILN__OPERATION_DIV ? KILN__COST_DIV : 1;
    case KILN__REAL_FUNCTION:
        return kiln__primitives[node->index].cost;
    case KILN__REAL_OP:
        return kiln__op_at(p->scope->ops, node->index)->operations + 1;
    case KILN__REAL_NEGATE:
    case KILN__REAL_NOT:
    case KILN__REAL_CHOICE:
        return 1;
    default:
        return 0;
    }
}

/* An op counts with all that it is made of: what is written with it is as deep to a compiler as if written out. */
static uint32_t depth_of(const parser *p, const kiln__real_node *node)
{
    const kiln__real *inside = node->kind == KILN__REAL_OP ? kiln__op_at(p->scope->ops, node->index)->real : NULL;
    return inside != NULL ? inside->nodes[inside->count - 1].depth + 1u : 1;
}

static bool grow(parser *p)
{
    if (p->out != NULL && p->out->count < p->room)
        return true;
    uint32_t room = p->room == 0 ? 16 : 2 * p->room;
    kiln__real *larger = kiln__realloc(p->out, sizeof(*larger) + room * sizeof(larger->nodes[0]));
    if (larger == NULL) {
        p->status = kiln__fail_memory(p->report, KILN__STAGE_SPEC);
        return false;
    }
    if (p->out == NULL)
        *larger = (kiln__real){ .count = 0 };
    p->out = larger;
    p->room = room;
    return true;
}

static uint16_t add_node(parser *p, const char *at, kiln__real_node node)
{
    if (p->status != KILN_OK)
        return 0;
    if (p->out != NULL && p->out->count == KILN__REAL_NODES_MAX)
        FAIL(p, at, "an expression has at most %d parts: name some of them as ops of their own", KILN__REAL_NODES_MAX);
    if (p->status != KILN_OK || !grow(p))
        return 0;
    for (uint32_t i = 0; i < node.count; i++)
        if (p->out->nodes[node.args[i]].depth > node.depth)
            node.depth = p->out->nodes[node.args[i]].depth;
    node.depth = (uint16_t)(node.depth + depth_of(p, &node));
    if (node.depth > KILN__REAL_DEPTH_MAX)
        FAIL(p, at, "the expression is nested deeper than %d: name a part of it as an op of its own",
             KILN__REAL_DEPTH_MAX);
    p->out->operations += cost_of(p, &node);
    if (p->out->operations > KILN__REAL_OPERATIONS_MAX)
        FAIL(p, at, "this comes to more than %d operations", KILN__REAL_OPERATIONS_MAX);
    p->out->nodes[p->out->count] = node;
    return (uint16_t)p->out->count++;
}

/* A number ends where no character of one follows; a sign belongs to it after an exponent's letter only. */
static uint16_t read_number(parser *p)
{
    const char *start = p->at;
    bool hex = start[0] == '0' && (start[1] == 'x' || start[1] == 'X');
    while (kiln__word_is_name_char(*p->at) || *p->at == '.' ||
           ((*p->at == '+' || *p->at == '-') && p->at > start &&
            (hex ? p->at[-1] == 'p' || p->at[-1] == 'P' : p->at[-1] == 'e' || p->at[-1] == 'E')))
        p->at++;
    kiln__word text = { start, (size_t)(p->at - start) };
    kiln__real_node node = { .kind = KILN__REAL_NUMBER };
    char last = text.text[text.length - 1];
    bool single = (last == 'f' || last == 'F') &&
                  (!hex || memchr(start, 'p', text.length) != NULL || memchr(start, 'P', text.length) != NULL);
    if (!kiln__number_parse(text.text, text.length - single, &node.value) ||
        (single && fabs(node.value) > (double)FLT_MAX))
        FAIL(p, start, "'%s' is not a number, or too large for one", kiln__word_quote(text).text);
    else if (single)
        node.value = (double)(float)node.value;
    return add_node(p, start, node);
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
    return i - KILN__PRIMITIVES < scope->ops->count ? kiln__op_at(scope->ops, i - KILN__PRIMITIVES)->name : NULL;
}

static uint16_t read_variable(parser *p, kiln__word name)
{
    const kiln__real_scope *scope = p->scope;
    kiln__real_node node = { .kind = KILN__REAL_INPUT };
    if (kiln__word_is(name, "inf") || kiln__word_is(name, "INFINITY")) {
        node = (kiln__real_node){ .kind = KILN__REAL_NUMBER, .value = INFINITY };
        return add_node(p, name.text, node);
    }
    for (uint32_t i = 0; i < scope->inputs + scope->params; i++) {
        if (!kiln__word_is(name, name_at(scope, i)))
            continue;
        bool input = i < scope->inputs;
        node.kind = input ? KILN__REAL_INPUT : KILN__REAL_PARAM;
        node.index = (uint16_t)(input ? i : i - scope->inputs);
        uint16_t made = add_node(p, name.text, node);
        if (p->status == KILN_OK && input && i + 1 > p->out->inputs)
            p->out->inputs = i + 1;
        return made;
    }
    if (kiln__primitive_find(name) >= 0 || kiln__op_find(scope->ops, name.text, name.length) >= 0)
        FAIL(p, name.text, "'%s' is called with its arguments: %s(...)", kiln__word_quote(name).text,
             kiln__word_quote(name).text);
    FAIL(p, name.text, "unknown name '%s': %s", kiln__word_quote(name).text,
         kiln__word_hint(name, name_at, scope).text);
    return 0;
}

/* What an op's parameter is where a call leaves it out. */
static void add_defaults(parser *p, kiln__real_node *node, const kiln__op *op, const char *at)
{
    while (p->status == KILN_OK && node->count < op->inputs + op->params) {
        kiln__real_node number = { .kind = KILN__REAL_NUMBER, .value = op->defaults[node->count - op->inputs] };
        node->args[node->count] = add_node(p, at, number);
        node->count++;
    }
}

static uint16_t read_call(parser *p, kiln__word name)
{
    const kiln__op_table *ops = p->scope->ops;
    int function = kiln__primitive_find(name), index = kiln__op_find(ops, name.text, name.length);
    const kiln__op *op = function < 0 && index >= 0 ? kiln__op_at(ops, index) : NULL;
    kiln__real_node node = { .kind = op != NULL ? KILN__REAL_OP : KILN__REAL_FUNCTION };
    if (op == NULL && function < 0)
        FAIL(p, name.text, "unknown function or op '%s': %s", kiln__word_quote(name).text,
             kiln__word_hint(name, callee_at, p->scope).text);
    if (op == NULL && function >= 0 && kiln__primitives[function].cost == 0 && !p->scope->reference)
        FAIL(p, name.text, "%s has other bits on a GPU than on the cpu: it is for what follows 'of' only",
             kiln__primitives[function].name);
    if (p->status != KILN_OK)
        return 0;
    node.index = (uint16_t)(op != NULL ? index : function);
    uint32_t least = op != NULL ? op->inputs : kiln__primitives[function].arity;
    uint32_t most = op != NULL ? op->inputs + op->params : least, given = 0;
    if (!take(p, ')')) {
        do {
            uint16_t argument = read_choice(p);
            if (given < KILN__REAL_ARGS_MAX)
                node.args[given] = argument;
            given++;
        } while (p->status == KILN_OK && take(p, ','));
        expect(p, ')');
    }
    if (given < least || given > most)
        FAIL(p, name.text, "%s takes %s%u argument%s, got %u", kiln__word_quote(name).text,
             least == most   ? ""
             : given < least ? "at least "
                             : "at most ",
             given < least ? least : most, (given < least ? least : most) == 1 ? "" : "s", given);
    node.count = (uint16_t)given;
    if (op != NULL)
        add_defaults(p, &node, op, name.text);
    return add_node(p, name.text, node);
}

static uint16_t read_primary(parser *p)
{
    skip_blanks(p);
    const char *start = p->at;
    if (kiln__word_is_digit(*start) || (*start == '.' && kiln__word_is_digit(start[1])))
        return read_number(p);
    if (kiln__word_is_name_char(*start)) {
        kiln__word name = kiln__word_take(&p->at);
        return take(p, '(') ? read_call(p, name) : read_variable(p, name);
    }
    if (*start == '\0')
        FAIL(p, start, "a value is missing at the end");
    if (!take(p, '('))
        FAIL(p, start, "expected a value at '%s'", kiln__word_quote((kiln__word){ start, strlen(start) }).text);
    uint16_t value = read_choice(p);
    expect(p, ')');
    return value;
}

static bool enter(parser *p)
{
    if (p->depth >= KILN__REAL_DEPTH_MAX)
        FAIL(p, p->at, "the expression is nested deeper than %d: name a part of it as an op of its own",
             KILN__REAL_DEPTH_MAX);
    p->depth += p->status == KILN_OK;
    return p->status == KILN_OK;
}

static uint16_t read_unary(parser *p)
{
    skip_blanks(p);
    const char *start = p->at;
    char sign = *start;
    bool denies = sign == '!' && start[1] != '=';
    if (sign != '-' && sign != '+' && !denies)
        return read_primary(p);
    if (!enter(p))
        return 0;
    p->at++;
    uint16_t value = read_unary(p);
    p->depth--;
    if (p->status != KILN_OK || sign == '+')
        return value;
    if (sign == '-' && p->out->nodes[value].kind == KILN__REAL_NUMBER && value + 1u == p->out->count) {
        p->out->nodes[value].value = -p->out->nodes[value].value;
        return value;
    }
    kiln__real_node node = { .kind = denies ? KILN__REAL_NOT : KILN__REAL_NEGATE, .count = 1, .args = { value } };
    return add_node(p, start, node);
}

static int peek_operator(parser *p)
{
    skip_blanks(p);
    for (int i = 0; i < KILN__OPERATIONS; i++)
        if (strncmp(p->at, kiln__operators[i].text, strlen(kiln__operators[i].text)) == 0)
            return i;
    return -1;
}

static uint16_t read_binary(parser *p, int least)
{
    uint16_t left = read_unary(p);
    while (p->status == KILN_OK) {
        const char *start = p->at;
        int id = peek_operator(p);
        if (id < 0 || kiln__operators[id].precedence < least)
            break;
        if (id == KILN__OPERATION_MUL && p->at[1] == '*')
            FAIL(p, p->at, "there is no power **: write x * x");
        p->at += strlen(kiln__operators[id].text);
        uint16_t right = read_binary(p, kiln__operators[id].precedence + 1);
        kiln__real_node node = {
            .kind = KILN__REAL_BINARY, .index = (uint16_t)id, .count = 2, .args = { left, right }
        };
        left = add_node(p, start, node);
    }
    return left;
}

static uint16_t read_choice(parser *p)
{
    if (p->status != KILN_OK || !enter(p))
        return 0;
    uint16_t value = read_binary(p, 1);
    const char *start = p->at;
    if (p->status == KILN_OK && take(p, '?')) {
        uint16_t yes = read_choice(p);
        expect(p, ':');
        uint16_t no = read_choice(p);
        kiln__real_node node = { .kind = KILN__REAL_CHOICE, .count = 3, .args = { value, yes, no } };
        value = add_node(p, start, node);
    }
    p->depth--;
    return value;
}

kiln_status kiln__real_parse(kiln__real **out, const kiln__real_scope *scope, const char **at, kiln_report *report)
{
    parser p = { .scope = scope, .at = *at, .report = report };
    *out = NULL;
    read_choice(&p);
    *at = p.at;
    if (p.status == KILN_OK)
        *out = p.out;
    else
        kiln__free(p.out);
    return p.status;
}

void kiln__real_free(kiln__real *real)
{
    kiln__free(real);
}
