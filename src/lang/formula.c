/* Integer formulas: from a tree to values, or to steps for numbers that are known later. */
#include "lang/formula.h"

#include "base/alloc.h"
#include "base/number.h"
#include "lang/syntax.h"
#include <stdio.h>
#include <string.h>

typedef enum action {
    ACTION_NEGATE = KILN__OPERATOR_MOD + 1, /* the actions before are the operators */
    ACTION_NOT,
    ACTION_CHOICE,
    ACTION_MIN,
    ACTION_MAX,
    ACTION_GCD,
    ACTION_POW2
} action;

enum { DEPTH_MAX = 64 };

/* ---- Arithmetic: the same while formulas are compiled and when they are calculated */

static const char overflow[] = "overflow", division[] = "division by zero";

static kiln__number_or number(int64_t value)
{
    return (kiln__number_or){ value, NULL };
}

static kiln__number_or checked(bool overflows, int64_t value)
{
    return (kiln__number_or){ value, overflows ? overflow : NULL };
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static kiln__number_or greatest_divisor(int64_t left, int64_t right)
{
    uint64_t a = magnitude(left), b = magnitude(right);
    while (b != 0) {
        uint64_t next = a % b;
        a = b;
        b = next;
    }
    return checked(a > INT64_MAX, (int64_t)a);
}

/* The least power of two that is not below a number. */
static kiln__number_or power_above(int64_t least)
{
    int64_t power = 1;
    while (power < least && power <= INT64_MAX / 2)
        power *= 2;
    return checked(power < least, power);
}

static kiln__number_or divide(bool remainder, int64_t left, int64_t right)
{
    if (right == 0)
        return (kiln__number_or){ 0, division };
    if (right == -1) /* the one quotient that overflows; its remainder is 0 */
        return checked(!remainder && left == INT64_MIN, remainder || left == INT64_MIN ? 0 : -left);
    return number(remainder ? left % right : left / right);
}

static kiln__number_or apply_to_values(int what, int64_t a, int64_t b)
{
    int64_t value = 0;
    bool overflows;
    switch (what) {
    case KILN__OPERATOR_EQ:
        return number(a == b);
    case KILN__OPERATOR_NE:
        return number(a != b);
    case KILN__OPERATOR_LE:
        return number(a <= b);
    case KILN__OPERATOR_GE:
        return number(a >= b);
    case KILN__OPERATOR_LT:
        return number(a < b);
    case KILN__OPERATOR_GT:
        return number(a > b);
    case KILN__OPERATOR_ADD:
        overflows = __builtin_add_overflow(a, b, &value);
        return checked(overflows, value);
    case KILN__OPERATOR_SUB:
        overflows = __builtin_sub_overflow(a, b, &value);
        return checked(overflows, value);
    case KILN__OPERATOR_MUL:
        overflows = __builtin_mul_overflow(a, b, &value);
        return checked(overflows, value);
    case KILN__OPERATOR_DIV:
    case KILN__OPERATOR_MOD:
        return divide(what == KILN__OPERATOR_MOD, a, b);
    case ACTION_NEGATE:
        overflows = __builtin_sub_overflow((int64_t)0, a, &value);
        return checked(overflows, value);
    case ACTION_NOT:
        return number(a == 0);
    case ACTION_MIN:
        return number(a < b ? a : b);
    case ACTION_MAX:
        return number(a > b ? a : b);
    case ACTION_POW2:
        return power_above(a);
    default:
        return greatest_divisor(a, b);
    }
}

static kiln__number_or truth(kiln__number_or a)
{
    return a.missing != NULL ? a : number(a.value != 0);
}

static kiln__number_or apply(int what, kiln__number_or a, kiln__number_or b, kiln__number_or c)
{
    if (a.missing != NULL)
        return a;
    if (what == KILN__OPERATOR_OR)
        return a.value != 0 ? number(1) : truth(b);
    if (what == KILN__OPERATOR_AND)
        return a.value == 0 ? number(0) : truth(b);
    if (what == ACTION_CHOICE)
        return a.value != 0 ? b : c;
    return b.missing != NULL ? b : apply_to_values(what, a.value, b.value);
}

/* ---- From a tree to steps */

/* The value of a node: a slot, a line, or a constant. */
typedef struct operand {
    bool in_slot;
    uint8_t slot;
    kiln__line line; /* divide is 0 where it is none */
    kiln__number_or constant;
} operand;

typedef struct builder {
    const char *formula;
    kiln__formula_lookup lookup;
    const void *data;
    const char *const *names; /* variables */
    uint32_t name_count;
    kiln__formulas *out; /* NULL: every name has a value now */
    operand *operands;   /* of the nodes */
    kiln__syntax_fault fault;
} builder;

static bool is_constant(const operand *from)
{
    return !from->in_slot && from->line.divide == 0;
}

static operand constant(kiln__number_or value)
{
    return (operand){ .constant = value };
}

static kiln_status fail(builder *b, const char *what, kiln__word culprit)
{
    return kiln__syntax_fail(&b->fault, culprit.text, what, culprit);
}

static bool is_full(const builder *b)
{
    return b->out->variables + b->out->steps + b->out->constants >= KILN__SLOTS_MAX;
}

static kiln_status fail_full(builder *b)
{
    return fail(b, "the formulas of sizes have too many steps", (kiln__word){ NULL, 0 });
}

static kiln_status append_step(builder *b, kiln__step step, uint8_t *slot)
{
    kiln__formulas *out = b->out;
    if (is_full(b))
        return fail_full(b);
    out->step[out->steps] = step;
    *slot = out->variables + out->steps++;
    return KILN_OK;
}

static kiln_status constant_slot(builder *b, int64_t value, uint8_t *slot)
{
    kiln__formulas *out = b->out;
    uint32_t i = 0;
    while (i < out->constants && out->constant[i] != value)
        i++;
    if (i == out->constants && is_full(b))
        return fail_full(b);
    if (i == out->constants)
        out->constant[out->constants++] = value;
    *slot = (uint8_t)(KILN__SLOTS_MAX - 1 - i);
    return KILN_OK;
}

/* A step that combines the value in `*slot` with a constant, and takes its place. */
static kiln_status append_constant(builder *b, int what, int64_t value, uint8_t *slot)
{
    uint8_t by = 0;
    kiln_status status = constant_slot(b, value, &by);
    return status == KILN_OK ? append_step(b, (kiln__step){ (uint8_t)what, *slot, by, *slot }, slot) : status;
}

static kiln_status line_slot(builder *b, const kiln__line *line, uint8_t *slot)
{
    kiln_status status = KILN_OK;
    *slot = (uint8_t)line->variable;
    if (line->most_added != 0)
        status = append_constant(b, KILN__OPERATOR_ADD, line->most_added, slot);
    if (status == KILN_OK && line->add != line->most_added)
        status = append_constant(b, KILN__OPERATOR_SUB, line->most_added - line->add, slot);
    if (status == KILN_OK && line->divide != 1)
        status = append_constant(b, KILN__OPERATOR_DIV, line->divide, slot);
    return status;
}

/* A slot holds no constant without a value. Such a constant decides most steps now, but a choice or a condition may
 * pass it by: those get a step that has no value either, 0 / 0 or an overflow. */
static kiln_status missing_slot(builder *b, const char *missing, uint8_t *slot)
{
    bool divides = missing == division;
    kiln_status status = constant_slot(b, divides ? 0 : INT64_MAX, slot);
    kiln__step step = { divides ? KILN__OPERATOR_DIV : KILN__OPERATOR_ADD, *slot, *slot, *slot };
    return status == KILN_OK ? append_step(b, step, slot) : status;
}

static kiln_status give_slot(builder *b, const operand *from, uint8_t *slot)
{
    *slot = from->slot;
    if (from->in_slot)
        return KILN_OK;
    if (!is_constant(from))
        return line_slot(b, &from->line, slot);
    if (from->constant.missing != NULL)
        return missing_slot(b, from->constant.missing, slot);
    return constant_slot(b, from->constant.value, slot);
}

static kiln_status add_step(builder *b, int what, const operand given[3], uint32_t count, operand *out)
{
    kiln__step step = { .action = (uint8_t)what };
    uint8_t *const slots[3] = { &step.a, &step.b, &step.c };
    for (uint32_t i = 0; i < count; i++) {
        kiln_status status = give_slot(b, &given[i], slots[i]);
        if (status != KILN_OK)
            return status;
    }
    for (uint32_t i = count; i < 3; i++)
        *slots[i] = step.a;
    *out = (operand){ .in_slot = true };
    return append_step(b, step, &out->slot);
}

/* The sum of a variable and constants is a line, and its quotient by a constant. */
static bool extend_line(int what, const operand given[3], operand *out)
{
    bool turned = what == KILN__OPERATOR_ADD && is_constant(&given[0]);
    const operand *from = &given[turned ? 1 : 0], *by = &given[turned ? 0 : 1];
    int64_t value = by->constant.value;
    if (from->line.divide != 1 || !is_constant(by) || by->constant.missing != NULL || value < 0 || value > INT32_MAX)
        return false;
    *out = *from;
    if (what == KILN__OPERATOR_ADD && value <= INT32_MAX - from->line.add)
        out->line.add += (int32_t)value;
    else if (what == KILN__OPERATOR_SUB && value <= from->line.add)
        out->line.add -= (int32_t)value;
    else if (what == KILN__OPERATOR_DIV && value > 0)
        out->line.divide = (int32_t)value;
    else
        return false;
    if (out->line.add > out->line.most_added)
        out->line.most_added = out->line.add;
    return true;
}

/* A constant condition chooses now, so that a step is made only where a variable decides. */
static kiln_status combine(builder *b, int what, operand given[3], uint32_t count, operand *out)
{
    bool known = true;
    for (uint32_t i = 0; i < count; i++)
        known = known && is_constant(&given[i]);
    if (what == ACTION_CHOICE && is_constant(&given[0]) && given[0].constant.missing == NULL)
        *out = given[given[0].constant.value != 0 ? 1 : 2];
    else if (known)
        *out = constant(apply(what, given[0].constant, given[1].constant, given[2].constant));
    else if (!extend_line(what, given, out))
        return add_step(b, what, given, count, out);
    return KILN_OK;
}

static kiln_status build_number(builder *b, const kiln__node *node, operand *out)
{
    uint64_t value = 0;
    if (!kiln__number_parse_uint(node->text.text, node->text.length, &value) || value > INT64_MAX)
        return fail(b, "not a whole number that fits:", node->text);
    *out = constant(number((int64_t)value));
    return KILN_OK;
}

static kiln_status build_name(builder *b, const kiln__node *node, operand *out)
{
    int64_t value = 0;
    for (uint32_t i = 0; i < b->name_count; i++)
        if (kiln__word_is(node->text, b->names[i])) {
            *out = (operand){ .line = { .variable = i, .divide = 1 } };
            return KILN_OK;
        }
    if (!b->lookup(b->data, node->text.text, node->text.length, &value))
        return fail(b, "unknown name", node->text);
    *out = constant(number(value));
    return KILN_OK;
}

static kiln_status find_action(builder *b, const kiln__node *node, int *out)
{
    static const struct {
        const char *name;
        uint32_t arity;
    } functions[] = { { "min", 2 }, { "max", 2 }, { "gcd", 2 }, { "pow2", 1 } };
    uint32_t arity = node->count;
    char what[64];
    *out = node->kind == KILN__NODE_BINARY   ? (int)node->sign
           : node->kind == KILN__NODE_NEGATE ? (int)ACTION_NEGATE
           : node->kind == KILN__NODE_NOT    ? (int)ACTION_NOT
           : node->kind == KILN__NODE_CHOICE ? (int)ACTION_CHOICE
                                             : 0;
    for (int i = 0; i < 4 && node->kind == KILN__NODE_CALL; i++)
        if (kiln__word_is(node->text, functions[i].name)) {
            *out = ACTION_MIN + i;
            arity = functions[i].arity;
        }
    if (*out == 0)
        return fail(b, "min, max, gcd and pow2 are the functions there are, not", node->text);
    if (node->count == arity)
        return KILN_OK;
    snprintf(what, sizeof(what), "%s takes %u argument%s, got %u", functions[*out - ACTION_MIN].name, arity,
             arity == 1 ? "" : "s", node->count);
    return fail(b, what, (kiln__word){ NULL, 0 });
}

static kiln_status build_node(builder *b, const kiln__syntax *tree, const kiln__node *node, operand *out)
{
    operand given[3] = { 0 };
    int what;
    if (node->kind == KILN__NODE_NUMBER)
        return build_number(b, node, out);
    if (node->kind == KILN__NODE_NAME)
        return build_name(b, node, out);
    if (node->kind == KILN__NODE_OPEN)
        return fail(b, "expected a value at", node->text);
    if (node->kind == KILN__NODE_NAMED)
        return fail(b, "arguments are given by their place here, not by name:", node->text);
    kiln_status status = find_action(b, node, &what);
    if (status != KILN_OK)
        return status;
    uint32_t child = node->first;
    for (uint32_t i = 0; i < node->count; i++, child = tree->nodes[child].next)
        given[i] = b->operands[child];
    return combine(b, what, given, node->count, out);
}

/* ---- Whole formulas */

static kiln_status refuse(const char *formula, const char *why, char *problem, size_t size)
{
    snprintf(problem, size, "formula '%s': %s", kiln__word_quote(kiln__word_of(formula)).text, why);
    return KILN_ESPEC;
}

static kiln_status build(builder *b, operand *out, char *problem, size_t size)
{
    kiln__syntax tree;
    const char *at = b->formula, *end = at + strlen(at);
    kiln_status status = kiln__syntax_read(&tree, &at, end, DEPTH_MAX, &b->fault);
    if (status == KILN_OK && at < end)
        status = fail(b, "expected an operator at", (kiln__word){ at, (size_t)(end - at) });
    b->operands = status == KILN_OK ? kiln__alloc(tree.count * sizeof(*b->operands)) : NULL;
    if (status == KILN_OK && b->operands == NULL)
        status = KILN_ENOMEM;
    for (uint32_t i = 0; i < tree.count && status == KILN_OK; i++)
        status = build_node(b, &tree, &tree.nodes[i], &b->operands[i]);
    if (status == KILN_OK)
        *out = b->operands[tree.count - 1];
    kiln__free(b->operands);
    kiln__syntax_free(&tree);
    if (status == KILN_ENOMEM)
        snprintf(problem, size, "out of memory");
    return status == KILN_ESPEC ? refuse(b->formula, b->fault.text, problem, size) : status;
}

kiln_status kiln__formula_eval(const char *formula, kiln__formula_lookup lookup, const void *data, int64_t *out,
                               char *problem, size_t size)
{
    builder b = { .formula = formula, .lookup = lookup, .data = data };
    operand result;
    kiln_status status = build(&b, &result, problem, size);
    if (status == KILN_OK && result.constant.missing != NULL)
        return refuse(formula, result.constant.missing, problem, size);
    if (status == KILN_OK)
        *out = result.constant.value;
    return status;
}

kiln_status kiln__formula_check(const char *formula, kiln__formula_lookup lookup, const void *data, char *problem,
                                size_t size)
{
    builder b = { .formula = formula, .lookup = lookup, .data = data };
    operand ignored;
    return build(&b, &ignored, problem, size);
}

/* The result of a formula: a line where it is one. */
static kiln_status set_result(builder *b, const operand *result, uint32_t index)
{
    const kiln__number_or *constant = &result->constant;
    kiln__line *line = &b->out->line[index];
    *line = result->line;
    if (is_constant(result) && constant->missing == NULL && constant->value >= 0 && constant->value <= INT32_MAX)
        *line = (kiln__line){ KILN__VARIABLES_MAX, (int32_t)constant->value, 1, 0 };
    return line->divide == 0 ? give_slot(b, result, &b->out->result[index]) : KILN_OK;
}

kiln_status kiln__formulas_add(kiln__formulas *out, const char *formula, kiln__formula_lookup lookup, const void *data,
                               const char *const *names, uint32_t name_count, uint32_t *index, char *problem,
                               size_t size)
{
    builder b = { formula, lookup, data, names, name_count, out, NULL, { 0 } };
    operand result;
    out->variables = (uint8_t)name_count;
    if (out->count == KILN__FORMULAS_MAX) {
        snprintf(problem, size, "there are more than %d formulas of sizes", KILN__FORMULAS_MAX);
        return KILN_ESPEC;
    }
    kiln_status status = build(&b, &result, problem, size);
    if (status == KILN_OK && (status = set_result(&b, &result, out->count)) != KILN_OK)
        snprintf(problem, size, "%s", b.fault.text);
    if (status == KILN_OK)
        *index = out->count++;
    return status;
}

void kiln__formulas_calculate(const kiln__formulas *formulas, kiln__formula_values *values)
{
    kiln__number_or *slot = values->slot;
    for (uint32_t i = 0; i < formulas->constants; i++)
        slot[KILN__SLOTS_MAX - 1 - i] = number(formulas->constant[i]);
    for (uint32_t i = 0; i < formulas->steps; i++) {
        const kiln__step *step = &formulas->step[i];
        slot[formulas->variables + i] = apply(step->action, slot[step->a], slot[step->b], slot[step->c]);
    }
}

kiln__number_or kiln__line_value(const kiln__line *line, int64_t variable)
{
    kiln__number_or most = apply_to_values(KILN__OPERATOR_ADD, variable, line->most_added);
    return most.missing != NULL ? most : number((variable + line->add) / line->divide);
}

bool kiln__formula_next_name(const char **at, kiln__word *name)
{
    while (**at != '\0') {
        *name = kiln__word_take(at);
        const char *after = *at;
        while (kiln__word_is_blank(*after))
            after++;
        if (name->length > 0 && !kiln__word_is_digit(name->text[0]) && *after != '(')
            return true;
        *at += name->length == 0;
    }
    return false;
}
