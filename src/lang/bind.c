/* From a tree to nodes with a meaning. */
#include "lang/real.h"

#include "base/alloc.h"
#include "base/number.h"
#include "lang/primitive.h"
#include "lang/reduction.h"
#include "lang/syntax.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct binder {
    const kiln__real_scope *scope;
    const char *end; /* of the text */
    const kiln__syntax *tree;
    uint16_t *bound; /* for each node of the tree the number of its node in `out` */
    kiln__real *out;
    kiln__word locals[KILN__REAL_LOCALS_MAX]; /* their names */
    const char *params[KILN__SCALARS_MAX]; /* of each scalar, the parameter in whose place it first stands, or NULL */
    uint16_t bodies[KILN__OUTPUTS_MAX];    /* of the op that was expanded last, the node of each output */
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
    size_t place = (size_t)(at - scope->text) + 1;
    if (scope->free && place == 1) /* most are a name and nothing else */
        return kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0, "%s", what);
    return kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0, "op%s%s, character %zu: %s", scope->free ? "" : " ",
                      scope->free ? "" : scope->op, place, what);
}

bool kiln__real_is_reserved(kiln__word name, bool functions)
{
    static const char *const words[] = { "x", "y", "z", "inf", "nan", "within", "of", "ulp", "index" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (kiln__word_is(name, words[i]))
            return true;
    return functions && (kiln__word_is(name, "where") || kiln__primitive_find(name) >= 0);
}

static uint32_t cost_of(const binder *b, const kiln__real_node *node)
{
    if (node->output > 0 || node->body > 0) /* counted with the first, or with the body */
        return 0;
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_BINARY:
        return node->index == KILN__OPERATOR_DIV ? KILN__COST_DIV : 1;
    case KILN__REAL_FUNCTION:
        return kiln__primitive_at(node->index)->cost;
    case KILN__REAL_OP:
        return kiln__op_at(b->scope->ops, node->index)->operations;
    case KILN__REAL_NEGATE:
    case KILN__REAL_NOT:
    case KILN__REAL_CHOICE:
    case KILN__REAL_REDUCTION:
        return 1;
    default:
        return 0;
    }
}

/* An op counts with the depth of its expression: a compiler inlines it. */
static uint32_t depth_of(const binder *b, const kiln__real_node *node)
{
    const bool calls = node->kind == KILN__REAL_OP && node->body == 0;
    const kiln__real *inside = calls ? kiln__op_at(b->scope->ops, node->index)->real : NULL;
    return inside != NULL ? kiln__real_root(inside, node->output)->depth + 1u : 1;
}

static bool is_portable(const binder *b, const kiln__real_node *node)
{
    if (node->kind == KILN__REAL_FUNCTION)
        return kiln__primitive_at(node->index)->portable;
    return node->kind != KILN__REAL_OP || kiln__op_is_portable(kiln__op_at(b->scope->ops, node->index));
}

/* Whether math=fast calculates a node in another way. */
static bool is_fast(const binder *b, const kiln__real_node *node)
{
    if (node->kind == KILN__REAL_FUNCTION)
        return kiln__primitive_fast(node->index) != NULL;
    if (node->kind == KILN__REAL_OP)
        return kiln__op_has_fast(kiln__op_at(b->scope->ops, node->index));
    return kiln__real_is_division(b->out, node);
}

/* Whether a node gives a whole number from such arguments. A number does that is written as one: bind_number. */
static bool is_whole(const binder *b, const kiln__real_node *node)
{
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_BINARY:
        return node->index != KILN__OPERATOR_DIV;
    case KILN__REAL_FUNCTION:
        return kiln__primitive_at(node->index)->domain != KILN__DOMAIN_REAL;
    case KILN__REAL_OP:
        return kiln__op_of_integers(kiln__op_at(b->scope->ops, node->index))->whole;
    case KILN__REAL_REDUCTION:
        return kiln__reduction_is_whole((kiln__reduction)node->index);
    case KILN__REAL_NUMBER:
        return !node->pointed && kiln__number_is_whole(node->value);
    case KILN__REAL_SCALAR:
        return false;
    default:
        return true;
    }
}

static bool is_wide(const binder *b, const kiln__real_node *node)
{
    if (node->kind == KILN__REAL_OP)
        return kiln__op_of_integers(kiln__op_at(b->scope->ops, node->index))->wide;
    return node->kind == KILN__REAL_NUMBER && kiln__number_is_wide(node->value);
}

/* Whether a node takes whole numbers alone. */
static bool is_integral(const binder *b, const kiln__real_node *node)
{
    if (node->kind == KILN__REAL_FUNCTION)
        return kiln__primitive_at(node->index)->domain == KILN__DOMAIN_WHOLE;
    return node->kind == KILN__REAL_OP && kiln__op_at(b->scope->ops, node->index)->real->integral;
}

static bool is_exact(const binder *b, const kiln__real_node *node)
{
    if (node->kind == KILN__REAL_FUNCTION)
        return kiln__primitive_at(node->index)->ulps == 0;
    if (node->kind == KILN__REAL_REDUCTION)
        return kiln__reduction_is_exact((kiln__reduction)node->index);
    return node->kind != KILN__REAL_OP || kiln__op_is_exact(kiln__op_at(b->scope->ops, node->index));
}

/* Whether the value of a node is that of a comparison. */
static bool is_truth(const binder *b, const kiln__real_node *node)
{
    if (node->kind == KILN__REAL_OP)
        return kiln__real_root(kiln__op_at(b->scope->ops, node->index)->real, node->output)->truth;
    if (node->kind == KILN__REAL_CHOICE)
        return b->out->nodes[node->args[1]].truth && b->out->nodes[node->args[2]].truth;
    if (node->kind == KILN__REAL_REDUCTION && !kiln__reduction_is_truth((kiln__reduction)node->index))
        return kiln__reduction_is_exact((kiln__reduction)node->index) && b->out->nodes[node->args[0]].truth;
    if (node->kind == KILN__REAL_REDUCTION)
        return true;
    return node->kind == KILN__REAL_NOT || (node->kind == KILN__REAL_BINARY && node->index < KILN__OPERATOR_ADD);
}

/* Finds out about a node by its arguments. */
static void mark_node(const binder *b, kiln__real_node *node)
{
    const kiln__real_node *nodes = b->out->nodes;
    bool joins =
        node->kind == KILN__REAL_NEGATE || (node->kind == KILN__REAL_BINARY && node->index >= KILN__OPERATOR_ADD);
    node->truth = is_truth(b, node);
    node->varies = node->kind == KILN__REAL_INPUT || node->kind == KILN__REAL_INDEX;
    node->scans = false;
    node->scalar = node->kind == KILN__REAL_PARAM;
    node->constant = joins || node->scalar || node->kind == KILN__REAL_NUMBER;
    for (uint32_t i = 0; i < node->count; i++) {
        node->depth = nodes[node->args[i]].depth > node->depth ? nodes[node->args[i]].depth : node->depth;
        node->constant = node->constant && nodes[node->args[i]].constant;
        node->scalar = node->scalar || nodes[node->args[i]].scalar;
        node->varies = node->varies || nodes[node->args[i]].varies;
        node->scans = node->scans || nodes[node->args[i]].scans;
    }
    if (node->body > 0) {
        node->varies = nodes[node->body].varies;
        node->scans = nodes[node->body].scans;
        node->depth = nodes[node->body].depth;
    }
    node->scalar = node->scalar && node->constant;
    node->depth = (uint16_t)(node->depth + depth_of(b, node));
}

/* All scans go along the axis in one walk, and so in one direction. */
static void mark_scan(binder *b, const char *at, kiln__real_node *node)
{
    const bool reverse = ((unsigned)node->value & KILN__SCAN_REVERSE) != 0;
    if (b->out->scans && b->out->reverse != reverse)
        FAIL(b, at, "one scan begins at the end of the axis, and another does not: calculate one by itself");
    node->scans = b->out->scans = true;
    b->out->reverse = reverse;
}

/* The value of a reduction is the same along the axis, and its argument is not. */
static void mark_reduction(binder *b, const char *at, kiln__real_node *node)
{
    kiln__reduction reduction = (kiln__reduction)node->index;
    const bool scans = kiln__reduction_scans(reduction);
    if (!node->varies)
        FAIL(b, at, "%s %s an axis, and its argument is the same all along it", kiln__reduction_name(reduction),
             scans ? "scans" : "reduces");
    if (b->out->reductions == KILN__REAL_REDUCTIONS_MAX)
        FAIL(b, at, "an expression reduces at most %d times", KILN__REAL_REDUCTIONS_MAX);
    if (node->scans)
        FAIL(b, at, "%s of a scan: calculate the scan by itself, then this", kiln__reduction_name(reduction));
    node->varies = scans;
    if (scans)
        mark_scan(b, at, node);
    b->out->reductions++;
    b->out->summed = b->out->summed || !kiln__reduction_is_exact(reduction);
}

static uint16_t add_node(binder *b, const char *at, kiln__real_node node)
{
    const uint32_t depth_max = b->scope->free ? KILN__REAL_DEPTH_FREE : KILN__REAL_DEPTH_MAX;
    if (b->status == KILN_OK && b->out->count == KILN__REAL_NODES_MAX)
        FAIL(b, at, "an expression has at most %d parts: name some of them as ops", KILN__REAL_NODES_MAX);
    if (b->status != KILN_OK)
        return 0;
    mark_node(b, &node);
    if (node.kind == KILN__REAL_REDUCTION)
        mark_reduction(b, at, &node);
    if (node.depth > depth_max)
        FAIL(b, at, "the expression is nested deeper than %u: name a part of it as an op", depth_max);
    b->out->indexed = b->out->indexed || node.kind == KILN__REAL_INDEX;
    b->out->operations += cost_of(b, &node);
    b->out->portable = b->out->portable && is_portable(b, &node);
    b->out->fast = b->out->fast || is_fast(b, &node);
    b->out->exact = b->out->exact && is_exact(b, &node);
    b->out->integral = b->out->integral || is_integral(b, &node);
    if (b->out->operations > KILN__REAL_OPERATIONS_MAX)
        FAIL(b, at, "this comes to more than %d operations", KILN__REAL_OPERATIONS_MAX);
    b->out->nodes[b->out->count] = node;
    return (uint16_t)b->out->count++;
}

static const char *name_at(const void *data, size_t i)
{
    const kiln__real_scope *scope = data;
    if (i < scope->inputs)
        return scope->input_names[i];
    return i - scope->inputs < scope->params ? scope->param_names[i - scope->inputs] : NULL;
}

/* The functions, the reductions and scans, and the ops. */
static const char *callee_at(const void *data, size_t i)
{
    const kiln__real_scope *scope = data;
    const size_t functions = kiln__primitive_count(), others = functions + KILN__REDUCTIONS;
    if (i < functions)
        return kiln__primitive_at((uint32_t)i)->name;
    if (i < others)
        return kiln__reduction_name((kiln__reduction)(i - functions));
    return i - others < scope->op_limit ? kiln__op_name(scope->ops, (uint32_t)(i - others)) : NULL;
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
    number.pointed = single || memchr(text.text, '.', text.length) != NULL; /* as in C */
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

/* The number of the local of that name, or -1. */
static int find_local_name(const binder *b, kiln__word name)
{
    for (uint32_t i = 0; i < b->out->local_count; i++)
        if (kiln__word_same(name, b->locals[i]))
            return (int)i;
    return -1;
}

/* Numbers that have a name, some of them in specs alone: a definition may have an input e. */
static const struct {
    const char *name;
    bool free;
    double value;
} constants[] = {
    { "inf", false, INFINITY },
    { "INFINITY", false, INFINITY },
    { "pi", true, 0x1.921fb54442d18p+1 },
    { "e", true, 0x1.5bf0a8b145769p+1 },
};

static const double *find_constant(const binder *b, kiln__word name)
{
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
        if (kiln__word_is(name, constants[i].name) && (b->scope->free || !constants[i].free))
            return &constants[i].value;
    return NULL;
}

static void refuse_bare(binder *b, kiln__word name)
{
    FAIL(b, name.text, "'%s' is called with its arguments: %s(...)", kiln__word_quote(name).text,
         kiln__word_quote(name).text);
}

static int find_name(char (*names)[KILN__OP_NAME_SIZE], uint32_t count, kiln__word name)
{
    for (uint32_t i = 0; i < count; i++)
        if (kiln__word_is(name, names[i]))
            return (int)i;
    return -1;
}

/* A node of an input that the expression names itself, the first time it does or again. */
static uint16_t bind_free_input(binder *b, kiln__word name)
{
    kiln__real *out = b->out;
    int known = find_name(out->input_names, out->inputs, name);
    if (known < 0 && out->inputs == KILN__INPUTS_MAX)
        FAIL(b, name.text, "'%s' is one array too many: an expression takes at most %d", kiln__word_quote(name).text,
             KILN__INPUTS_MAX);
    if (find_name(out->scalar_names, out->scalars, name) >= 0)
        FAIL(b, name.text, "'%s' is an array here, and a scalar before", kiln__word_quote(name).text);
    uint16_t i = (uint16_t)(known >= 0 ? (uint32_t)known : out->inputs);
    if (b->status == KILN_OK && known < 0)
        memcpy(out->input_names[out->inputs++], name.text, name.length); /* all zero before */
    return add_node(b, name.text, (kiln__real_node){ .kind = KILN__REAL_INPUT, .index = i });
}

/* A name that an expression gives to an array or a scalar. */
static void check_name(binder *b, kiln__word name, const char *what)
{
    if (kiln__real_is_reserved(name, true) && !kiln__op_is_letter(name))
        FAIL(b, name.text, "'%s' cannot name %s: it is a word of the language", kiln__word_quote(name).text, what);
    if (!kiln__word_is_name(name) || name.length >= KILN__OP_NAME_SIZE)
        FAIL(b, name.text, "'%s' cannot name %s: take lower-case letters, digits and '_'", kiln__word_quote(name).text,
             what);
}

static void check_free_input(binder *b, kiln__word name)
{
    if (kiln__op_is_letter(name))
        return;
    if (find_op(b, name) >= 0 || kiln__primitive_find(name) >= 0)
        refuse_bare(b, name);
    check_name(b, name, "an array");
}

/* "?name" is one scalar wherever it stands, and each "?" another. These get names last. */
static uint16_t bind_scalar(binder *b, kiln__word mark)
{
    kiln__real *out = b->out;
    kiln__word name = { mark.text + 1, mark.length - 1 };
    int known = name.length > 0 ? find_name(out->scalar_names, out->scalars, name) : -1;
    if (name.length > 0)
        check_name(b, name, "a scalar");
    if (name.length > 0 && find_name(out->input_names, out->inputs, name) >= 0)
        FAIL(b, mark.text, "'%s' is a scalar here, and an array before", kiln__word_quote(name).text);
    if (known < 0 && out->scalars == KILN__SCALARS_MAX)
        FAIL(b, mark.text, "one scalar too many: an expression takes at most %d", KILN__SCALARS_MAX);
    uint16_t i = (uint16_t)(known >= 0 ? (uint32_t)known : out->scalars);
    if (b->status == KILN_OK && known < 0)
        memcpy(out->scalar_names[out->scalars++], name.text, name.length); /* all zero before */
    return add_node(b, mark.text, (kiln__real_node){ .kind = KILN__REAL_SCALAR, .index = i });
}

static bool is_number(const kiln__real_node *node)
{
    return node->kind == KILN__REAL_NUMBER || node->kind == KILN__REAL_SCALAR;
}

static uint16_t bind_name(binder *b, kiln__word name)
{
    const kiln__real_scope *scope = b->scope;
    const double *constant = find_constant(b, name);
    int local = find_local_name(b, name);
    if (local >= 0)
        return b->out->locals[local];
    for (uint32_t i = 0; i < scope->inputs + scope->params; i++) {
        if (!kiln__word_is(name, name_at(scope, i)))
            continue;
        bool input = i < scope->inputs;
        kiln__real_node node = { .kind = input ? KILN__REAL_INPUT : KILN__REAL_PARAM,
                                 .index = (uint16_t)(input ? i : i - scope->inputs) };
        uint16_t made = add_node(b, name.text, node);
        if (b->status == KILN_OK && input && i + 1 > b->out->inputs)
            b->out->inputs = i + 1;
        return made;
    }
    if (constant != NULL) {
        kiln__real_node node = { .kind = KILN__REAL_NUMBER, .pointed = isfinite(*constant), .value = *constant };
        return add_node(b, name.text, node);
    }
    if (kiln__word_is(name, "index"))
        return add_node(b, name.text, (kiln__real_node){ .kind = KILN__REAL_INDEX });
    if (scope->free) {
        check_free_input(b, name);
        return bind_free_input(b, name);
    }
    if (kiln__primitive_find(name) >= 0 || find_op(b, name) >= 0)
        refuse_bare(b, name);
    FAIL(b, name.text, "unknown name '%s': %s", kiln__word_quote(name).text,
         kiln__word_hint(name, name_at, scope).text);
    return 0;
}

static const char *op_name_at(const void *data, size_t i)
{
    const kiln__real_scope *scope = data;
    return i < scope->op_limit ? kiln__op_name(scope->ops, (uint32_t)i) : NULL;
}

static void refuse_callee(binder *b, kiln__word name)
{
    kiln__quote quoted = kiln__word_quote(name);
    kiln__hint hint = kiln__word_hint_function(name, callee_at, b->scope);
    if (!b->scope->free)
        FAIL(b, name.text, "unknown function or op '%s': %s", quoted.text, hint.text);
    else if (hint.text[strlen(hint.text) - 1] == '?')
        FAIL(b, name.text, "unknown op '%s': %s", quoted.text, hint.text);
    else
        FAIL(b, name.text, "unknown op '%s': %s; --define-op (kiln_op_define) defines others", quoted.text,
             kiln__word_choices(op_name_at, b->scope).text);
}

/* Finds the function or op of a call. In a definition a function hides an op of its name, which it defines. */
static const kiln__op *find_callee(binder *b, kiln__word name, kiln__real_node *node)
{
    int function = kiln__primitive_find(name), index = function < 0 || b->scope->free ? find_op(b, name) : -1;
    const kiln__op *op = index >= 0 ? kiln__op_at(b->scope->ops, (uint32_t)index) : NULL;
    node->kind = op != NULL ? KILN__REAL_OP : KILN__REAL_FUNCTION;
    node->index = (uint16_t)(op != NULL ? index : function);
    if (op == NULL && function < 0)
        refuse_callee(b, name);
    return op;
}

static void take_children(const binder *b, const kiln__node *node, kiln__real_node *out)
{
    uint32_t child = node->first;
    out->count = (uint16_t)node->count;
    for (uint32_t i = 0; i < node->count; i++, child = b->tree->nodes[child].next)
        out->args[i] = b->bound[child];
}

static void refuse_count(binder *b, kiln__word name, uint32_t least, uint32_t most, uint32_t given)
{
    uint32_t bound = given < least ? least : most;
    FAIL(b, name.text, "%s takes %s%u argument%s, got %u", kiln__word_quote(name).text,
         least == most   ? ""
         : given < least ? "at least "
                         : "at most ",
         bound, bound == 1 ? "" : "s", given);
}

/* The arguments of an op while they are bound. */
typedef struct op_call {
    const kiln__node *node;
    const kiln__op *op;
    uint32_t by_place; /* how many arguments have no name */
    bool left_out;     /* the inputs are: arguments begin with the parameters */
    bool given[KILN__REAL_ARGS_MAX];
} op_call;

static const char *param_name_at(const void *data, size_t i)
{
    const kiln__op *op = data;
    return i < op->params ? op->param_names[i] : NULL;
}

/* The number of the parameter that a named argument gives, or the number of parameters. */
static uint32_t find_param(binder *b, const op_call *c, kiln__word name)
{
    uint32_t i = 0;
    while (i < c->op->params && !kiln__word_is(name, c->op->param_names[i]))
        i++;
    if (c->op->params == 0)
        FAIL(b, name.text, "%s takes no parameters, got '%s'", c->op->name, kiln__word_quote(name).text);
    if (i == c->op->params)
        FAIL(b, name.text, "%s has no parameter '%s': %s", c->op->name, kiln__word_quote(name).text,
             kiln__word_hint(name, param_name_at, c->op).text);
    return i;
}

/* Counts the arguments and finds out whether the inputs are left out: at the outermost call of a spec's expression they
 * are where there is none but numbers. */
static void look_at_arguments(binder *b, op_call *c, bool outermost)
{
    const kiln__node *nodes = b->tree->nodes;
    bool numbers = true, named = false;
    for (uint32_t i = 0, child = c->node->first; i < c->node->count; i++, child = nodes[child].next) {
        bool has_name = nodes[child].kind == KILN__NODE_NAMED;
        if (!has_name && named)
            FAIL(b, nodes[child].text.text, "an argument follows a named parameter of %s: name it too", c->op->name);
        named = named || has_name;
        c->by_place += !has_name;
        numbers = numbers && (has_name || is_number(&b->out->nodes[b->bound[child]]));
    }
    c->left_out = outermost && numbers;
}

static void check_count(binder *b, const op_call *c)
{
    const kiln__op *op = c->op;
    kiln__word name = c->node->text;
    uint32_t most = op->inputs + op->params, given = c->by_place;
    if (c->left_out && given > op->params && op->params == 0)
        FAIL(b, name.text, "%s takes no parameters: write its inputs, %s", op->name, op->signature);
    if (!c->left_out && (given < op->inputs || given > most))
        refuse_count(b, name, op->inputs, most, given);
    if (!c->left_out || given <= op->params)
        return;
    char names[160] = "";
    for (uint32_t i = 0, length = 0; i < op->params && length < sizeof(names); i++)
        length +=
            (uint32_t)snprintf(names + length, sizeof(names) - length, "%s%s", i == 0 ? "" : ", ", op->param_names[i]);
    FAIL(b, name.text, "%s takes at most %u parameter%s (%s), got %u", op->name, op->params, op->params == 1 ? "" : "s",
         names, given);
}

/* The value of a parameter counts as a whole number if it is one, however it is written. */
static void take_param(binder *b, op_call *c, uint32_t param, uint16_t value, const char *at, kiln__real_node *out)
{
    const kiln__op *op = c->op;
    kiln__real_node *number = &b->out->nodes[value];
    if (c->given[op->inputs + param])
        FAIL(b, at, "parameter %s of %s is given twice", op->param_names[param], op->name);
    if (b->scope->free && !is_number(number))
        FAIL(b, at, "parameter %s of %s is a number", op->param_names[param], op->name);
    if (b->scope->free && b->status == KILN_OK) {
        number->pointed = false;
        if (number->kind == KILN__REAL_SCALAR && b->params[number->index] == NULL)
            b->params[number->index] = op->param_names[param];
    }
    c->given[op->inputs + param] = true;
    out->args[op->inputs + param] = value;
}

static void take_arguments(binder *b, op_call *c, kiln__real_node *out)
{
    const kiln__node *nodes = b->tree->nodes;
    uint32_t place = c->left_out ? c->op->inputs : 0, child = c->node->first;
    for (uint32_t i = 0; i < c->node->count && b->status == KILN_OK; i++, child = nodes[child].next) {
        const kiln__node *argument = &nodes[child];
        bool named = argument->kind == KILN__NODE_NAMED;
        uint32_t param = named ? find_param(b, c, argument->text) : place - c->op->inputs;
        if (b->status == KILN_OK && (named || place >= c->op->inputs))
            take_param(b, c, param, b->bound[child], argument->text.text, out);
        else if (b->status == KILN_OK)
            out->args[place] = b->bound[child];
        place += !named;
    }
}

static void take_left_out(binder *b, const op_call *c, kiln__real_node *out)
{
    for (uint32_t i = 0; i < c->op->inputs && c->left_out && b->status == KILN_OK; i++)
        out->args[i] = bind_free_input(b, kiln__word_of(kiln__input_names[i]));
    for (uint32_t i = 0; i < c->op->params && b->status == KILN_OK; i++) {
        kiln__real_node number = { .kind = KILN__REAL_NUMBER, .value = c->op->defaults[i] };
        if (!c->given[c->op->inputs + i])
            out->args[c->op->inputs + i] = add_node(b, c->node->text.text, number);
    }
}

/* Whether a node of an op's definition is a number with these arguments: then *value is set. */
static bool finds_number(const binder *b, const kiln__op *op, const uint16_t *args, uint16_t node, double *value)
{
    const kiln__real_node *found = &op->real->nodes[node];
    if (found->kind == KILN__REAL_PARAM)
        found = &b->out->nodes[args[op->inputs + found->index]];
    *value = found->value;
    return found->kind == KILN__REAL_NUMBER;
}

/* The node that a choice stands for where it asks whether two numbers are equal; else the choice. It stays where the
 * result would be an argument of the op, or have another shape with other arguments. */
static uint16_t choose(const binder *b, const kiln__op *op, const uint16_t *args, uint16_t choice)
{
    const kiln__real_node *nodes = op->real->nodes, *node = &nodes[choice], *asked = &nodes[node->args[0]];
    double left, right;
    if (node->kind != KILN__REAL_CHOICE || asked->kind != KILN__REAL_BINARY || asked->index != KILN__OPERATOR_EQ ||
        !finds_number(b, op, args, asked->args[0], &left) || !finds_number(b, op, args, asked->args[1], &right))
        return choice;
    const uint16_t chosen = node->args[left == right ? 1 : 2];
    const bool is_argument = nodes[chosen].kind == KILN__REAL_INPUT || nodes[chosen].kind == KILN__REAL_PARAM ||
                             nodes[chosen].kind == KILN__REAL_CHOICE;
    return is_argument || nodes[node->args[1]].varies != nodes[node->args[2]].varies ? choice : chosen;
}

/* Which nodes of an op's definition a call needs, and the node that each stands for: another one for a choice that the
 * arguments decide. */
typedef struct decisions {
    bool needed[KILN__REAL_NODES_MAX];
    uint16_t chosen[KILN__REAL_NODES_MAX];
} decisions;

/* Whether a reduction is needed. */
static bool find_needed(const kiln__real *real, decisions *out)
{
    bool reduces = false;
    memset(out->needed, 0, real->count * sizeof(*out->needed));
    for (uint32_t i = 0; i < real->outputs; i++)
        out->needed[real->roots[i]] = true;
    for (uint32_t i = real->count; i-- > 0;) {
        const kiln__real_node *node = &real->nodes[i];
        if (!out->needed[i])
            continue;
        out->needed[out->chosen[i]] = true;
        for (uint32_t j = 0; out->chosen[i] == i && j < node->count; j++)
            out->needed[node->args[j]] = true;
        if (node->body > 0)
            out->needed[node->body] = true;
        reduces = reduces || node->kind == KILN__REAL_REDUCTION;
    }
    return reduces;
}

/* An op that reduces stays one: nothing is decided where no reduction would be left. */
static void decide(const binder *b, const kiln__op *op, const uint16_t *args, decisions *out)
{
    for (uint32_t i = 0; i < op->real->count; i++)
        out->chosen[i] = choose(b, op, args, (uint16_t)i);
    if (find_needed(op->real, out))
        return;
    for (uint32_t i = 0; i < op->real->count; i++)
        out->chosen[i] = (uint16_t)i;
    find_needed(op->real, out);
}

/* Adds a node with the value and the type of another: 1 ? x : x. Node 0 is no body, since 0 means none. */
static uint16_t add_same(binder *b, const char *at, uint16_t node)
{
    const uint16_t always = add_node(b, at, (kiln__real_node){ .kind = KILN__REAL_NUMBER, .value = 1 });
    return add_node(b, at, (kiln__real_node){ .kind = KILN__REAL_CHOICE, .count = 3, .args = { always, node, node } });
}

/* Adds the nodes of an op's definition, with the arguments of a call in place of its inputs and parameters. Finds the
 * nodes of its outputs. */
static void expand_op(binder *b, const char *at, const kiln__op *op, const uint16_t *args)
{
    const kiln__real *real = op->real;
    uint16_t made[KILN__REAL_NODES_MAX];
    decisions decided;
    if (b->status == KILN_OK)
        decide(b, op, args, &decided);
    for (uint32_t i = 0; i < real->count && b->status == KILN_OK; i++) {
        kiln__real_node node = real->nodes[i];
        if (!decided.needed[i])
            continue;
        if (decided.chosen[i] != i) {
            made[i] = made[decided.chosen[i]];
            continue;
        }
        node.inside = true;
        node.depth = 0;
        for (uint32_t j = 0; j < node.count; j++)
            node.args[j] = made[node.args[j]];
        node.body = node.body > 0 ? made[node.body] : 0;
        made[i] = node.kind == KILN__REAL_INPUT   ? args[node.index]
                  : node.kind == KILN__REAL_PARAM ? args[op->inputs + node.index]
                                                  : add_node(b, at, node);
    }
    for (uint32_t i = 0; i < real->outputs && b->status == KILN_OK; i++)
        b->bodies[i] = made[real->roots[i]] > 0 ? made[real->roots[i]] : add_same(b, at, 0);
}

static uint16_t bind_op_call(binder *b, const kiln__node *call, const kiln__op *op, kiln__real_node *node,
                             bool outermost)
{
    op_call c = { .node = call, .op = op };
    if (op->outputs > 1 && !outermost)
        FAIL(b, call->text.text, "%s gives %u values: it stands alone in a spec, and not within an expression",
             op->name, op->outputs);
    look_at_arguments(b, &c, outermost);
    check_count(b, &c);
    take_arguments(b, &c, node);
    bool constant = b->scope->free && !c.left_out && b->status == KILN_OK;
    for (uint32_t i = 0; i < op->inputs && constant; i++)
        constant = b->out->nodes[node->args[i]].kind == KILN__REAL_NUMBER;
    if (constant)
        FAIL(b, call->text.text, "%s has inputs that are left out at the outermost call alone: write %s", op->name,
             op->signature);
    take_left_out(b, &c, node);
    node->count = (uint16_t)(op->inputs + op->params);
    if (kiln__real_is_expanded(op->real)) {
        expand_op(b, call->text.text, op, node->args);
        node->body = b->bodies[0];
    }
    return add_node(b, call->text.text, *node);
}

/* Whether a call is one of a reduction: max(x) is, and max(x, y) is not. */
static bool is_reduction(const kiln__node *call)
{
    bool reduces = kiln__reduction_find(call->text) < KILN__REDUCTIONS;
    return reduces && (call->count == 1 || kiln__primitive_find(call->text) < 0);
}

/* The value of an argument behind the first: correction=, or exclusive= and reverse=, which are bits. */
static double bind_option(binder *b, const kiln__node *named, kiln__reduction reduction)
{
    const kiln__real_node *value = &b->out->nodes[b->bound[named - b->tree->nodes]];
    const bool scans = kiln__reduction_scans(reduction), corrects = kiln__reduction_corrects(reduction);
    const bool exclusive = kiln__word_is(named->text, "exclusive"), reverse = kiln__word_is(named->text, "reverse");
    if (named->kind != KILN__NODE_NAMED || !(scans ? exclusive || reverse : corrects) ||
        (corrects && !kiln__word_is(named->text, "correction")))
        FAIL(b, named->text.text, "%s takes an array%s", kiln__reduction_name(reduction),
             corrects ? " and correction=NUMBER"
             : scans  ? ", exclusive=1 and reverse=1"
                      : " and nothing else");
    else if (value->kind != KILN__REAL_NUMBER || (scans && value->value != 0 && value->value != 1))
        FAIL(b, named->text.text, "%s is %s", kiln__word_quote(named->text).text, scans ? "0 or 1" : "a number");
    if (b->status != KILN_OK)
        return 0;
    return value->value * (exclusive ? KILN__SCAN_EXCLUSIVE : reverse ? KILN__SCAN_REVERSE : 1);
}

static uint16_t bind_reduction(binder *b, const kiln__node *call)
{
    kiln__reduction reduction = kiln__reduction_find(call->text);
    kiln__real_node node = { .kind = KILN__REAL_REDUCTION, .index = (uint16_t)reduction, .count = 1 };
    const uint32_t most = kiln__reduction_scans(reduction) ? 3 : kiln__reduction_corrects(reduction) ? 2 : 1;
    if (call->count < 1 || call->count > most)
        refuse_count(b, call->text, 1, most, call->count);
    else if (b->tree->nodes[call->first].kind == KILN__NODE_NAMED)
        FAIL(b, call->text.text, "%s takes an array first", kiln__reduction_name(reduction));
    if (b->status != KILN_OK)
        return 0;
    node.args[0] = b->bound[call->first];
    uint32_t numbers = 0; /* those that stand last are no values of the expression */
    kiln__word last = { NULL, 0 };
    for (uint32_t child = b->tree->nodes[call->first].next, i = 1; i < call->count; i++) {
        const kiln__word name = b->tree->nodes[child].text;
        const double option = bind_option(b, &b->tree->nodes[child], reduction);
        if (last.length > 0 && kiln__word_same(name, last))
            FAIL(b, name.text, "%s is given twice", kiln__word_quote(name).text);
        last = name;
        node.value = most == 3 ? (double)((unsigned)node.value | (unsigned)option) : option;
        numbers += b->bound[child] + call->count - i == b->out->count;
        child = b->tree->nodes[child].next;
    }
    b->out->count -= numbers;
    return add_node(b, call->text.text, node);
}

static uint16_t bind_call(binder *b, const kiln__node *call, bool outermost)
{
    kiln__real_node node = { 0 };
    if (is_reduction(call))
        return bind_reduction(b, call);
    const kiln__op *op = find_callee(b, call->text, &node);
    if (b->status != KILN_OK)
        return 0;
    if (op != NULL)
        return bind_op_call(b, call, op, &node, outermost);
    uint32_t arity = kiln__primitive_at(node.index)->arity;
    if (call->count != arity) {
        refuse_count(b, call->text, arity, arity, call->count);
        return 0;
    }
    for (uint32_t i = 0, child = call->first; i < arity; i++, child = b->tree->nodes[child].next)
        if (b->tree->nodes[child].kind == KILN__NODE_NAMED)
            FAIL(b, b->tree->nodes[child].text.text, "arguments of a function are given by their place, not by name");
    take_children(b, call, &node);
    return add_node(b, call->text.text, node);
}

/* The sign of a number is part of it. */
static uint16_t bind_negation(binder *b, const kiln__node *node, kiln__real_node *out)
{
    uint16_t value = b->bound[node->first];
    bool is_last = value + 1u == b->out->count && kiln__real_find_local(b->out, b->out->local_count, value) < 0;
    if (b->out->nodes[value].kind != KILN__REAL_NUMBER || !is_last) {
        out->kind = KILN__REAL_NEGATE;
        return add_node(b, node->text.text, *out);
    }
    b->out->nodes[value].value = -b->out->nodes[value].value;
    return value;
}

/* The value of an argument, which the call around it knows by its name. */
static uint16_t bind_named(binder *b, const kiln__node *node)
{
    if (node->count == 0)
        FAIL(b, node->text.text, "a value is missing behind '%s='", kiln__word_quote(node->text).text);
    return b->status == KILN_OK ? b->bound[node->first] : 0;
}

/* The outermost name of a spec's expression is an op whose inputs are left out. */
static uint16_t bind_outermost_name(binder *b, const kiln__node *node)
{
    kiln__word name = node->text;
    int index = find_op(b, name);
    if (index >= 0) {
        kiln__real_node out = { .kind = KILN__REAL_OP, .index = (uint16_t)index };
        return bind_op_call(b, node, kiln__op_at(b->scope->ops, (uint32_t)index), &out, true);
    }
    if (find_constant(b, name) != NULL || kiln__word_is(name, "index"))
        return bind_name(b, name);
    if (kiln__op_is_letter(name))
        FAIL(b, name.text, "'%c' is an array: write an op of it, such as copy", name.text[0]);
    if (kiln__reduction_find(name) < KILN__REDUCTIONS)
        FAIL(b, name.text, "'%s' reduces an array: write %s(x)", kiln__word_quote(name).text,
             kiln__word_quote(name).text);
    if (kiln__primitive_find(name) >= 0)
        refuse_bare(b, name);
    refuse_callee(b, name);
    return 0;
}

static uint16_t bind_node(binder *b, const kiln__node *node, bool outermost)
{
    kiln__real_node out = { 0 };
    if (node->kind == KILN__NODE_NUMBER)
        return bind_number(b, node);
    if (node->kind == KILN__NODE_NAME)
        return outermost ? bind_outermost_name(b, node) : bind_name(b, node->text);
    if (node->kind == KILN__NODE_CALL)
        return bind_call(b, node, outermost);
    if (node->kind == KILN__NODE_NAMED)
        return bind_named(b, node);
    if (node->kind == KILN__NODE_OPEN && b->scope->free)
        return bind_scalar(b, node->text);
    if (node->kind == KILN__NODE_OPEN)
        FAIL(b, node->text.text, "expected a value at '?'");
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
        FAIL(b, node->text.text, "real numbers have no operator %%: call remainder or fmod");
    return add_node(b, node->text.text, out);
}

/* The number of the tree's value among the nodes. */
static uint16_t bind_tree(binder *b, const kiln__syntax *tree, bool outermost)
{
    uint16_t root = 0, few[KILN__NODES_FEW];
    b->tree = tree;
    b->bound = tree->count <= KILN__NODES_FEW ? few : kiln__alloc(tree->count * sizeof(*b->bound));
    if (b->bound == NULL && b->status == KILN_OK)
        b->status = kiln__fail_memory(b->report, KILN__STAGE_SPEC);
    for (uint32_t i = 0; i < tree->count && b->status == KILN_OK; i++)
        root = b->bound[i] = bind_node(b, &tree->nodes[i], outermost && i + 1 == tree->count);
    if (b->bound != few)
        kiln__free(b->bound);
    b->tree = NULL;
    b->bound = NULL;
    return root;
}

static const char *skip_blanks(const binder *b, const char *at)
{
    while (at < b->end && kiln__word_is_blank(*at))
        at++;
    return at;
}

static void read_tree(binder *b, const char **at, kiln__syntax *out)
{
    kiln__syntax_fault fault;
    kiln_status status = kiln__syntax_read(out, at, b->end, KILN__REAL_DEPTH_MAX, &fault);
    if (status == KILN_ENOMEM)
        b->status = kiln__fail_memory(b->report, KILN__STAGE_SPEC);
    else if (status != KILN_OK)
        FAIL(b, fault.at, "%s", fault.text);
}

static bool names_value(const binder *b, kiln__word name)
{
    for (uint32_t i = 0; i < b->scope->inputs + b->scope->params; i++)
        if (kiln__word_is(name, name_at(b->scope, i)))
            return true;
    return find_local_name(b, name) >= 0;
}

/* "a = EXPRESSION" */
static void read_local(binder *b, const char **at)
{
    kiln__syntax tree = { 0 };
    kiln__word_skip_blanks(at);
    kiln__word name = kiln__word_take(at);
    kiln__word_skip_blanks(at);
    if (b->out->local_count == KILN__REAL_LOCALS_MAX)
        FAIL(b, name.text, "'where' names at most %d values", KILN__REAL_LOCALS_MAX);
    if (!kiln__word_is_name(name) || kiln__real_is_reserved(name, true) || names_value(b, name))
        FAIL(b, name.text, "'%s' cannot name a value: it is taken, or not of lower-case letters, digits and '_'",
             kiln__word_quote(name).text);
    if (**at != '=')
        FAIL(b, *at, "expected '=' and a value for '%s'", kiln__word_quote(name).text);
    if (b->status != KILN_OK)
        return;
    ++*at;
    read_tree(b, at, &tree);
    uint16_t value = b->status == KILN_OK ? bind_tree(b, &tree, false) : 0;
    kiln__syntax_free(&tree);
    if (b->status != KILN_OK)
        return;
    b->locals[b->out->local_count] = name;
    b->out->locals[b->out->local_count++] = value;
}

/* Reads the values that "where" names, which stand behind the expression and are bound before it. */
static void read_locals(binder *b, const char **at)
{
    const char *start = *at;
    kiln__word_skip_blanks(&start);
    if (b->status != KILN_OK || !kiln__word_is(kiln__word_take(&start), "where"))
        return;
    for (*at = start; b->status == KILN_OK; ++*at) {
        read_local(b, at);
        kiln__word_skip_blanks(at);
        if (**at != ',')
            break;
    }
}

/* Inputs that are all among x, y and z stand in that order, others as they are named first. */
static void order_inputs(kiln__real *out)
{
    uint16_t place[KILN__INPUTS_MAX] = { 0 };
    char letters[KILN__INPUTS_MAX];
    for (uint32_t i = 0; i < out->inputs; i++) {
        if (!kiln__op_is_letter(kiln__word_of(out->input_names[i])))
            return;
        for (uint32_t j = 0; j < out->inputs; j++)
            place[i] = (uint16_t)(place[i] + (out->input_names[j][0] < out->input_names[i][0]));
        letters[place[i]] = out->input_names[i][0];
    }
    for (uint32_t i = 0; i < out->inputs; i++)
        out->input_names[i][0] = letters[i];
    for (uint32_t i = 0; i < out->count; i++)
        if (out->nodes[i].kind == KILN__REAL_INPUT)
            out->nodes[i].index = place[out->nodes[i].index];
}

/* ---- Outputs */

/* "(p, m, v) =" in front of the expression of a spec. Anything else stays where it is. */
static void read_output_names(binder *b, const char **at)
{
    const char *c = *at;
    kiln__word names[KILN__OUTPUTS_MAX];
    uint32_t count = 0;
    do {
        kiln__word name = { skip_blanks(b, c + 1), 0 };
        while (name.text + name.length < b->end && kiln__word_is_name_char(name.text[name.length]))
            name.length++;
        c = skip_blanks(b, name.text + name.length);
        if (name.length == 0 || c == b->end || count == KILN__OUTPUTS_MAX)
            return;
        names[count++] = name;
    } while (*c == ',');
    const char *sign = *c == ')' ? skip_blanks(b, c + 1) : b->end;
    if (sign == b->end || *sign != '=' || (sign + 1 < b->end && sign[1] == '='))
        return;
    for (uint32_t i = 0; i < count; i++) {
        check_name(b, names[i], "an output");
        if (find_name(b->out->output_names, i, names[i]) >= 0)
            FAIL(b, names[i].text, "two outputs are named '%s'", kiln__word_quote(names[i]).text);
        if (b->status == KILN_OK)
            memcpy(b->out->output_names[i], names[i].text, names[i].length);
    }
    *at = skip_blanks(b, sign + 1);
}

/* Whether "(E1, E2)" stands there: a comma within its first parentheses, which are not those of a call. */
static bool is_tuple(const binder *b, const char *at)
{
    int depth = 0;
    do {
        depth += (*at == '(') - (*at == ')');
        if (depth == 1 && *at == ',')
            return true;
    } while (depth > 0 && ++at < b->end);
    return false;
}

/* One expression, or several in parentheses. */
static void read_trees(binder *b, const char **at, kiln__syntax trees[KILN__OUTPUTS_MAX])
{
    uint32_t count = 0;
    bool several = *at < b->end && is_tuple(b, *at);
    do {
        *at += several; /* the '(' or ',' before it */
        if (count == KILN__OUTPUTS_MAX)
            FAIL(b, *at, "an expression gives at most %d values", KILN__OUTPUTS_MAX);
        if (b->status == KILN_OK)
            read_tree(b, at, &trees[count++]);
    } while (several && b->status == KILN_OK && *at < b->end && **at == ',');
    b->out->outputs = count;
    if (several && (*at == b->end || **at != ')'))
        FAIL(b, *at, "')' is missing behind the last value");
    *at += several && b->status == KILN_OK;
    *at = skip_blanks(b, *at);
}

/* An op that stands alone gives all its values. */
static void spread_op(binder *b)
{
    kiln__real *out = b->out;
    const kiln__real_node call = *kiln__real_root(out, 0);
    if (b->status != KILN_OK || out->outputs != 1 || call.kind != KILN__REAL_OP)
        return;
    uint32_t outputs = kiln__op_at(b->scope->ops, call.index)->outputs;
    for (; out->outputs < outputs && b->status == KILN_OK; out->outputs++) {
        kiln__real_node next = call;
        next.output = (uint8_t)out->outputs;
        next.body = next.body > 0 ? b->bodies[out->outputs] : 0;
        next.depth = 0;
        out->roots[out->outputs] = add_node(b, b->scope->text, next);
    }
}

static void bind_outputs(binder *b, const kiln__syntax *trees, const char *start)
{
    kiln__real *out = b->out;
    bool one = out->outputs == 1;
    uint32_t named = 0;
    for (uint32_t i = 0; i < out->outputs && b->status == KILN_OK; i++)
        out->roots[i] = bind_tree(b, &trees[i], b->scope->free && one);
    if (one && b->status == KILN_OK && out->roots[0] + 1u != out->count)
        FAIL(b, start, "the expression before 'where' is a name alone: write its value");
    if (b->scope->free)
        spread_op(b);
    while (named < KILN__OUTPUTS_MAX && out->output_names[named][0] != '\0')
        named++;
    if (named > 0 && named != out->outputs)
        FAIL(b, start, "%u name%s for %u value%s", named, named == 1 ? "" : "s", out->outputs,
             out->outputs == 1 ? "" : "s");
}

static bool is_free(binder *b, const char *name)
{
    kiln__word word = kiln__word_of(name);
    return find_name(b->out->scalar_names, b->out->scalars, word) < 0 &&
           find_name(b->out->input_names, b->out->inputs, word) < 0;
}

/* A scalar without a name gets that of its parameter, else s0, s1, ...: one that nothing else has, so that the
 * canonical text stands for the same expression. */
static void name_scalars(binder *b)
{
    for (uint32_t i = 0, number = 0; i < b->out->scalars; i++) {
        char *name = b->out->scalar_names[i];
        if (name[0] == '\0' && b->params[i] != NULL && is_free(b, b->params[i]))
            memcpy(name, b->params[i], strlen(b->params[i]));
        while (name[0] == '\0') {
            char text[KILN__OP_NAME_SIZE];
            snprintf(text, sizeof(text), "s%u", number++);
            if (is_free(b, text))
                memcpy(name, text, strlen(text));
        }
    }
}

static bool is_mixed(const binder *b, const kiln__real_node *node)
{
    return node->kind == KILN__REAL_OP && kiln__op_at(b->scope->ops, node->index)->real->mixed;
}

/* Whether an output gives whole numbers, by the nodes that it needs. */
static bool gives_whole(const binder *b, uint16_t root)
{
    bool needed[KILN__REAL_NODES_MAX] = { false };
    needed[root] = true;
    for (uint32_t i = root + 1u; i-- > 0;) {
        const kiln__real_node *node = &b->out->nodes[i];
        if (needed[i] && !is_whole(b, node))
            return false;
        for (uint32_t j = 0; needed[i] && j < node->count; j++)
            needed[node->args[j]] = true;
    }
    return true;
}

static void mark_columns(binder *b)
{
    for (uint32_t i = 0; i < b->out->count; i++) {
        const kiln__real_node *node = &b->out->nodes[i];
        const kiln__op *op = node->kind == KILN__REAL_OP ? kiln__op_at(b->scope->ops, node->index) : NULL;
        for (uint32_t j = 0; op != NULL && j < op->inputs; j++) {
            const kiln__real_node *argument = &b->out->nodes[node->args[j]];
            if (argument->kind == KILN__REAL_INPUT && (op->columns >> j & 1) != 0)
                b->out->columns |= 1u << argument->index;
        }
    }
}

static void finish(binder *b, const char *start)
{
    kiln__real *out = b->out;
    if (b->scope->free && out->inputs == 0)
        FAIL(b, start, "the expression takes no array%s",
             out->indexed ? ", and index alone does not say how many elements there are" : "");
    if (b->status != KILN_OK) {
        out->count = out->inputs = out->outputs = out->scalars = 0;
        return;
    }
    for (uint32_t i = 0; i < out->count; i++) { /* whose numbers have their signs now */
        out->whole = out->whole && is_whole(b, &out->nodes[i]);
        out->wide = out->wide || is_wide(b, &out->nodes[i]);
    }
    for (uint32_t i = 0; i < out->outputs; i++)
        out->mixed =
            out->mixed || is_mixed(b, kiln__real_root(out, i)) || (!out->whole && gives_whole(b, out->roots[i]));
    if (b->scope->free) {
        order_inputs(out);
        name_scalars(b);
    }
    mark_columns(b);
}

kiln_status kiln__real_read(kiln__real *out, const kiln__real_scope *scope, const char **at, kiln_report *report)
{
    kiln__syntax trees[KILN__OUTPUTS_MAX];
    binder b = { .scope = scope, .out = out, .status = KILN_OK, .report = report };
    b.end = scope->end != NULL ? scope->end : *at + strlen(*at);
    memset(out, 0, offsetof(kiln__real, nodes));
    for (uint32_t i = 0; i < KILN__OUTPUTS_MAX; i++)
        trees[i].nodes = NULL;
    out->portable = out->whole = out->exact = true;
    const char *start = *at = skip_blanks(&b, *at);
    if (scope->free && start < b.end && *start == '(')
        read_output_names(&b, at);
    if (scope->free && *at == b.end)
        FAIL(&b, scope->text, "an op is missing: %s", kiln__word_choices(op_name_at, scope).text);
    else
        read_trees(&b, at, trees);
    if (!scope->free)
        read_locals(&b, at);
    else if (*at < b.end)
        FAIL(&b, *at, "unexpected '%s' behind the expression",
             kiln__word_quote((kiln__word){ *at, (size_t)(b.end - *at) }).text);
    bind_outputs(&b, trees, start);
    for (uint32_t i = 0; i < KILN__OUTPUTS_MAX; i++)
        kiln__syntax_free(&trees[i]);
    finish(&b, start);
    return b.status;
}

kiln_status kiln__real_parse(kiln__real **out, const kiln__real_scope *scope, const char **at, kiln_report *report)
{
    kiln__real *room = kiln__alloc(sizeof(*room));
    *out = NULL;
    if (room == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = kiln__real_read(room, scope, at, report);
    if (status == KILN_OK) /* ops live as long as the service, so give back the unused room */
        *out = kiln__realloc(room, kiln__real_size(room));
    if (*out == NULL && status == KILN_OK)
        status = kiln__fail_memory(report, KILN__STAGE_SPEC);
    if (*out == NULL)
        kiln__free(room);
    return status;
}
