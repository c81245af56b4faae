#include "template/real.h"

#include "base/alloc.h"
#include "base/number.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef enum operation {
    OP_OR,
    OP_AND,
    OP_EQ,
    OP_NE,
    OP_LE,
    OP_GE,
    OP_LT,
    OP_GT,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV
} operation;

/* Two-character operators come before their first characters. */
static const struct {
    char text[3];
    int precedence;
} operators[] = {
    [OP_OR] = { "||", 1 }, [OP_AND] = { "&&", 2 }, [OP_EQ] = { "==", 3 }, [OP_NE] = { "!=", 3 },
    [OP_LE] = { "<=", 4 }, [OP_GE] = { ">=", 4 },  [OP_LT] = { "<", 4 },  [OP_GT] = { ">", 4 },
    [OP_ADD] = { "+", 5 }, [OP_SUB] = { "-", 5 },  [OP_MUL] = { "*", 6 }, [OP_DIV] = { "/", 6 },
};

enum { OPERATORS = sizeof(operators) / sizeof(operators[0]) };

/* What a call means: the C function kiln_NAME, which stands in real.h or in functions.h, and the same in double. The cost is
 * what a compiler has to do for one; those of no cost are for references, because GPU and cpu differ in them. */
#define FUNCTIONS(X)                                  \
    X(min, 2, 1, lesser(v[0], v[1]))                  \
    X(max, 2, 1, greater(v[0], v[1]))                 \
    X(fmin, 2, 3, fmin(v[0], v[1]))                   \
    X(fmax, 2, 3, fmax(v[0], v[1]))                   \
    X(clamp, 3, 2, lesser(greater(v[0], v[1]), v[2])) \
    X(fma, 3, 1, fma(v[0], v[1], v[2]))               \
    X(abs, 1, 1, fabs(v[0]))                          \
    X(copysign, 2, 1, copysign(v[0], v[1]))           \
    X(sqrt, 1, 16, sqrt(v[0]))                        \
    X(floor, 1, 1, floor(v[0]))                       \
    X(ceil, 1, 1, ceil(v[0]))                         \
    X(trunc, 1, 1, trunc(v[0]))                       \
    X(rint, 1, 1, rint(v[0]))                         \
    X(exp, 1, 18, exp(v[0]))                          \
    X(log, 1, 36, log(v[0]))                          \
    X(tanh, 1, 60, tanh(v[0]))                        \
    X(expm1, 1, 0, expm1(v[0]))                       \
    X(log1p, 1, 0, log1p(v[0]))                       \
    X(erf, 1, 0, erf(v[0]))                           \
    X(sin, 1, 0, sin(v[0]))                           \
    X(cos, 1, 0, cos(v[0]))                           \
    X(pow, 2, 0, pow(v[0], v[1]))

enum { COST_DIV = 16 };

/* NaN if either is, -0 below +0, as kiln_min and kiln_max. */
static double lesser(double a, double b)
{
    if (a == b)
        return signbit(a) ? a : b;
    return a != a || a < b ? a : b;
}

static double greater(double a, double b)
{
    if (a == b)
        return signbit(a) ? b : a;
    return a != a || a > b ? a : b;
}

#define EVALUATE(name, arity, cost, value)      \
    static double value_##name(const double *v) \
    {                                           \
        return value;                           \
    }
FUNCTIONS(EVALUATE)
#undef EVALUATE

static const struct {
    const char *name;
    uint16_t arity, cost;
    double (*value)(const double *v);
} functions[] = {
#define ROW(name, arity, cost, value) { #name, arity, cost, value_##name },
    FUNCTIONS(ROW)
#undef ROW
};

enum { FUNCTION_COUNT = sizeof(functions) / sizeof(functions[0]) };

/* How else the same is called elsewhere. */
static const struct {
    const char *name, *meant;
} aliases[] = {
    { "fminf", "fmin" },  { "fmaxf", "fmax" },   { "fabs", "abs" },   { "fabsf", "abs" },          { "fmaf", "fma" },
    { "sqrtf", "sqrt" },  { "floorf", "floor" }, { "ceilf", "ceil" }, { "truncf", "trunc" },       { "rintf", "rint" },
    { "minimum", "min" }, { "maximum", "max" },  { "clip", "clamp" }, { "copysignf", "copysign" }, { "expf", "exp" },
    { "logf", "log" },    { "tanhf", "tanh" },
};

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

static int function_index(kiln__word name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (kiln__word_is(name, aliases[i].name))
            name = (kiln__word){ aliases[i].meant, strlen(aliases[i].meant) };
    for (int i = 0; i < FUNCTION_COUNT; i++)
        if (kiln__word_is(name, functions[i].name))
            return i;
    return -1;
}

bool kiln__real_is_reserved(kiln__word name)
{
    static const char *const words[] = { "x", "y", "z", "inf", "nan", "within", "of", "ulp" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (kiln__word_is(name, words[i]))
            return true;
    return function_index(name) >= 0;
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

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static kiln__word take_name(parser *p)
{
    kiln__word word = { p->at, 0 };
    while (is_name_char(*p->at))
        p->at++;
    word.length = (size_t)(p->at - word.text);
    return word;
}

static uint32_t cost_of(const parser *p, const kiln__real_node *node)
{
    switch (node->kind) {
    case KILN__REAL_BINARY:
        return node->index == OP_DIV ? COST_DIV : 1;
    case KILN__REAL_FUNCTION:
        return functions[node->index].cost;
    case KILN__REAL_OP:
        return p->scope->ops->ops[node->index]->operations + 1;
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
    const kiln__real *inside = node->kind == KILN__REAL_OP ? p->scope->ops->ops[node->index]->real : NULL;
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
    while (is_name_char(*p->at) || *p->at == '.' ||
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
    if (i < FUNCTION_COUNT)
        return functions[i].name;
    return i - FUNCTION_COUNT < scope->ops->count ? scope->ops->ops[i - FUNCTION_COUNT]->name : NULL;
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
    if (function_index(name) >= 0 || kiln__op_find(scope->ops, name.text, name.length) >= 0)
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
    int function = function_index(name), index = kiln__op_find(ops, name.text, name.length);
    const kiln__op *op = function < 0 && index >= 0 ? ops->ops[index] : NULL;
    kiln__real_node node = { .kind = op != NULL ? KILN__REAL_OP : KILN__REAL_FUNCTION };
    if (op == NULL && function < 0)
        FAIL(p, name.text, "unknown function or op '%s': %s", kiln__word_quote(name).text,
             kiln__word_hint(name, callee_at, p->scope).text);
    if (op == NULL && function >= 0 && functions[function].cost == 0 && !p->scope->reference)
        FAIL(p, name.text, "%s has other bits on a GPU than on the cpu: it is for what follows 'of' only",
             functions[function].name);
    if (p->status != KILN_OK)
        return 0;
    node.index = (uint16_t)(op != NULL ? index : function);
    uint32_t least = op != NULL ? op->inputs : functions[function].arity;
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
    if (is_digit(*start) || (*start == '.' && is_digit(start[1])))
        return read_number(p);
    if (is_name_char(*start)) {
        kiln__word name = take_name(p);
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
    for (int i = 0; i < OPERATORS; i++)
        if (strncmp(p->at, operators[i].text, strlen(operators[i].text)) == 0)
            return i;
    return -1;
}

static uint16_t read_binary(parser *p, int least)
{
    uint16_t left = read_unary(p);
    while (p->status == KILN_OK) {
        const char *start = p->at;
        int id = peek_operator(p);
        if (id < 0 || operators[id].precedence < least)
            break;
        if (id == OP_MUL && p->at[1] == '*')
            FAIL(p, p->at, "there is no power **: write x * x");
        p->at += strlen(operators[id].text);
        uint16_t right = read_binary(p, operators[id].precedence + 1);
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

/* ---- C text */

typedef struct writer {
    const kiln__real *real;
    const kiln__op_table *ops;
    char *const *param_names;
    kiln__text *out;
} writer;

void kiln__real_emit_number(double value, kiln__text *out)
{
    char number[KILN__NUMBER_SIZE];
    if (isinf(value))
        strcpy(number, value < 0 ? "-KILN_INFINITY" : "KILN_INFINITY");
    else
        kiln__number_format_hex(number, value);
    kiln__text_append(out, "(kiln_real)");
    kiln__text_append(out, number);
}

static void emit_value(const writer *w, uint16_t index);

static bool is_condition(const kiln__real_node *node)
{
    return node->kind == KILN__REAL_NOT || (node->kind == KILN__REAL_BINARY && node->index < OP_ADD);
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
        bool joins = node->index == OP_OR || node->index == OP_AND;
        void (*emit)(const writer *, uint16_t) = joins ? emit_condition : emit_value;
        kiln__text_append(w->out, joins ? "(" : "");
        emit(w, node->args[0]);
        kiln__text_printf(w->out, joins ? ") %s (" : " %s ", operators[node->index].text);
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
    static const char *const names[] = { [OP_ADD] = "add", [OP_SUB] = "add", [OP_MUL] = "mul", [OP_DIV] = "div" };
    if (node->index != OP_SUB) {
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
        emit_call(w, "kiln_", functions[node->index].name, node);
        return;
    case KILN__REAL_OP:
        emit_call(w, "kiln_op_", w->ops->ops[node->index]->name, node);
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
            function(data, functions[node->index].name);
        else if (node->kind == KILN__REAL_BINARY && node->index == OP_DIV)
            function(data, "div");
    }
}

/* ---- Values in double */

bool kiln__real_has_value(const kiln__real *real, const kiln__op_table *ops)
{
    for (uint32_t i = 0; i < real->count; i++)
        if (real->nodes[i].kind == KILN__REAL_OP && (ops->ops[real->nodes[i].index]->real == NULL ||
                                                     !kiln__real_has_value(ops->ops[real->nodes[i].index]->real, ops)))
            return false;
    return true;
}

static double binary_value(uint16_t id, double a, double b)
{
    switch ((operation)id) {
    case OP_OR:
        return a != 0 || b != 0;
    case OP_AND:
        return a != 0 && b != 0;
    case OP_EQ:
        return a == b;
    case OP_NE:
        return a != b;
    case OP_LE:
        return a <= b;
    case OP_GE:
        return a >= b;
    case OP_LT:
        return a < b;
    case OP_GT:
        return a > b;
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        return a * b;
    case OP_DIV:
        break;
    }
    return a / b;
}

/* Nodes come after those that they are made of, so one walk computes them all. */
double kiln__real_value(const kiln__real *real, const kiln__op_table *ops, const double *inputs, const double *params)
{
    double values[KILN__REAL_NODES_MAX];
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        double v[KILN__REAL_ARGS_MAX] = { 0 };
        for (uint32_t j = 0; j < node->count; j++)
            v[j] = values[node->args[j]];
        switch (node->kind) {
        case KILN__REAL_NUMBER:
            values[i] = node->value;
            break;
        case KILN__REAL_INPUT:
            values[i] = inputs[node->index];
            break;
        case KILN__REAL_PARAM:
            values[i] = params[node->index];
            break;
        case KILN__REAL_NEGATE:
            values[i] = -v[0];
            break;
        case KILN__REAL_NOT:
            values[i] = v[0] == 0;
            break;
        case KILN__REAL_BINARY:
            values[i] = binary_value(node->index, v[0], v[1]);
            break;
        case KILN__REAL_CHOICE:
            values[i] = v[0] != 0 ? v[1] : v[2];
            break;
        case KILN__REAL_FUNCTION:
            values[i] = functions[node->index].value(v);
            break;
        case KILN__REAL_OP:
            values[i] = kiln__real_value(ops->ops[node->index]->real, ops, v, v + ops->ops[node->index]->inputs);
            break;
        }
    }
    return real->count > 0 ? values[real->count - 1] : 0;
}
