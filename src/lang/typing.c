/* Two walks over the nodes: types go from the arrays up, and numbers get those of their surroundings. */
#include "lang/typing.h"

#include "base/number.h"
#include "lang/primitive.h"
#include "lang/reduction.h"
#include "lang/syntax.h"
#include <math.h>

/* The types of some arguments. */
typedef struct joined {
    kiln__dtype types[KILN__REAL_ARGS_MAX];
    uint32_t count;
    bool real, whole; /* there are such numbers among them */
} joined;

static void join(joined *all, const kiln__typing *typing, uint16_t argument)
{
    kiln__dtype own = (kiln__dtype)typing->own[argument];
    if (own != KILN__DTYPE_UNSET)
        all->types[all->count++] = own;
    else if (typing->real[argument])
        all->real = true;
    else
        all->whole = true;
}

/* KILN__DTYPE_UNSET of numbers alone. */
static kiln__dtype promote(const joined *all)
{
    kiln__dtype type = kiln__dtype_promote_all(all->types, all->count);
    if (all->count == 0)
        return KILN__DTYPE_UNSET;
    if (all->real && !kiln__dtype_is_real(type))
        return KILN__DTYPE_F32;
    return all->whole && type == KILN__DTYPE_BOOL ? KILN__DTYPE_I64 : type;
}

/* Whether argument j of a node is true or false, whatever its type is. */
static bool is_condition(const kiln__real_node *node, uint32_t j)
{
    return kiln__real_is_logical(node) || (node->kind == KILN__REAL_CHOICE && j == 0);
}

/* Whether a node gives real numbers of whole ones. */
static bool makes_real(const kiln__real_node *node, const kiln__op_table *ops)
{
    if (node->kind == KILN__REAL_FUNCTION)
        return kiln__primitive_at(node->index)->domain == KILN__DOMAIN_REAL;
    if (node->kind == KILN__REAL_OP)
        return !kiln__op_of_integers(kiln__op_at(ops, node->index))->whole;
    return node->kind == KILN__REAL_BINARY && node->index == KILN__OPERATOR_DIV;
}

/* The type of a number that stands alone. */
static kiln__dtype number_type(const kiln__typing *typing, bool real)
{
    if (real && !kiln__dtype_is_real(typing->dtype))
        return KILN__DTYPE_F32;
    return typing->dtype == KILN__DTYPE_BOOL ? KILN__DTYPE_I64 : typing->dtype;
}

/* A node that an op's definition is the value of has its type. */
static void type_body(kiln__typing *typing, const kiln__real_node *node, uint32_t i)
{
    typing->own[i] = typing->own[node->body];
    typing->in[i] = typing->in[node->body];
    typing->real[i] = typing->real[node->body];
}

/* The value of a reduction is calculated in its own type, and so are its elements, but those of argmax. */
static void type_reduction(kiln__typing *typing, const kiln__real_node *node, uint32_t i)
{
    kiln__dtype elements = (kiln__dtype)typing->own[node->args[0]];
    typing->own[i] = typing->in[i] = (uint8_t)kiln__reduction_type((kiln__reduction)node->index, elements);
    typing->picked[node->args[0]] |= kiln__reduction_picks((kiln__reduction)node->index);
}

/* An op of bools whose parameters are whole numbers stays one of bools. */
static void type_step(kiln__typing *typing, const kiln__real_node *node, const kiln__op_table *ops, uint32_t i)
{
    joined all = { .count = 0 };
    uint32_t inputs = node->kind == KILN__REAL_OP ? kiln__op_at(ops, node->index)->inputs : node->count;
    for (uint32_t j = node->kind == KILN__REAL_CHOICE ? 1 : 0; j < inputs; j++)
        join(&all, typing, node->args[j]);
    for (uint32_t j = inputs; j < node->count; j++)
        all.real = all.real || typing->real[node->args[j]];
    all.real = all.real || makes_real(node, ops);
    kiln__dtype type = promote(&all);
    typing->real[i] = all.real;
    typing->own[i] = (uint8_t)type;
    typing->in[i] = (uint8_t)type;
    if (kiln__real_is_comparison(node) && type == KILN__DTYPE_UNSET)
        typing->in[i] = (uint8_t)number_type(typing, all.real);
    if (kiln__real_is_comparison(node) || (node->truth && node->kind == KILN__REAL_OP))
        typing->own[i] = KILN__DTYPE_BOOL;
}

static void type_node(kiln__typing *typing, const kiln__real_node *node, const kiln__op_table *ops,
                      const kiln__dtype *inputs, uint32_t i)
{
    typing->own[i] = typing->in[i] = KILN__DTYPE_UNSET;
    typing->real[i] = typing->picked[i] = false;
    switch ((kiln__real_kind)node->kind) {
    case KILN__REAL_NUMBER:
        typing->real[i] = node->pointed || !kiln__number_is_whole(node->value);
        return;
    case KILN__REAL_PARAM:
    case KILN__REAL_SCALAR:
        typing->real[i] = true;
        return;
    case KILN__REAL_INPUT:
        typing->own[i] = typing->in[i] = (uint8_t)inputs[node->index];
        return;
    case KILN__REAL_INDEX:
        typing->own[i] = typing->in[i] = KILN__DTYPE_I64;
        return;
    case KILN__REAL_REDUCTION:
        type_reduction(typing, node, i);
        return;
    default:
        break;
    }
    if (node->body > 0) {
        type_body(typing, node, i);
        return;
    }
    if (!kiln__real_is_logical(node)) {
        type_step(typing, node, ops, i);
        return;
    }
    typing->own[i] = KILN__DTYPE_BOOL;
    typing->in[i] = (uint8_t)typing->dtype;
}

/* Gives the numbers among the arguments of a node the type that it is calculated in. */
static void type_numbers(kiln__typing *typing, const kiln__real_node *node, uint32_t i)
{
    for (uint32_t j = 0; j < node->count; j++) {
        uint16_t argument = node->args[j];
        kiln__dtype alone = number_type(typing, typing->real[argument]);
        if (typing->own[argument] == KILN__DTYPE_UNSET)
            typing->in[argument] = is_condition(node, j) ? (uint8_t)alone : typing->in[i];
    }
}

/* Whether values of the node's own kind are calculated: an array, a condition and a number within a step are not. */
static bool calculates(const kiln__typing *typing, const kiln__real_node *node, uint32_t i)
{
    return node->kind > KILN__REAL_INDEX && !kiln__real_is_logical(node) && typing->in[i] != KILN__DTYPE_UNSET;
}

/* Whether argument j of a node is a number that is a condition: no step gives it a type. */
static bool is_lone_number(const kiln__typing *typing, const kiln__real_node *node, uint32_t j)
{
    return typing->own[node->args[j]] == KILN__DTYPE_UNSET && is_condition(node, j);
}

static void need(kiln__typing *typing, kiln__dtype type)
{
    if (typing->step == KILN__DTYPE_UNSET)
        typing->step = type;
    else if (typing->step != type)
        typing->mixed = true;
}

/* Finds out whether all steps have one type, which the arrays are converted to when they are loaded. */
static void find_step(kiln__typing *typing, const kiln__real *real)
{
    typing->step = KILN__DTYPE_UNSET;
    typing->mixed = false;
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        if (calculates(typing, node, i) || node->kind == KILN__REAL_INDEX)
            need(typing, (kiln__dtype)typing->in[i]);
        for (uint32_t j = 0; j < node->count; j++)
            if (is_lone_number(typing, node, j))
                need(typing, (kiln__dtype)typing->in[node->args[j]]);
    }
    for (uint32_t i = 0; i < real->outputs; i++)
        if (!kiln__real_is_condition(kiln__real_root(real, i)))
            need(typing, kiln__typing_in(typing, real, i));
    if (typing->step == KILN__DTYPE_UNSET) /* without an op values are real */
        typing->step = real->count == 0 ? number_type(typing, true) : typing->dtype;
    bool real_of_whole = typing->step == KILN__DTYPE_F32 && !kiln__dtype_is_real(typing->dtype);
    typing->mixed = typing->mixed || real->indexed || (typing->step != typing->dtype && !real_of_whole);
}

void kiln__typing_make(kiln__typing *out, const kiln__real *real, const kiln__op_table *ops, kiln__dtype dtype,
                       const kiln__dtype inputs[KILN__INPUTS_MAX])
{
    out->dtype = dtype;
    for (uint32_t i = 0; i < real->count; i++)
        type_node(out, &real->nodes[i], ops, inputs, i);
    for (uint32_t i = 0; i < real->outputs; i++)
        if (out->own[real->roots[i]] == KILN__DTYPE_UNSET)
            out->in[real->roots[i]] = (uint8_t)number_type(out, out->real[real->roots[i]]);
    for (uint32_t i = real->count; i-- > 0;)
        type_numbers(out, &real->nodes[i], i);
    find_step(out, real);
}

kiln__dtype kiln__typing_in(const kiln__typing *typing, const kiln__real *real, uint32_t output)
{
    bool condition = kiln__real_is_condition(kiln__real_root(real, output));
    return condition ? typing->dtype : (kiln__dtype)typing->in[real->roots[output]];
}

kiln__dtype kiln__typing_result(const kiln__typing *typing, const kiln__real *real, uint32_t output)
{
    uint16_t root = real->roots[output];
    return (kiln__dtype)(typing->own[root] != KILN__DTYPE_UNSET ? typing->own[root] : typing->in[root]);
}

kiln__dtype kiln__typing_computed(kiln__dtype dtype)
{
    if (kiln__dtype_is_real(dtype))
        return dtype == KILN__DTYPE_F64 ? KILN__DTYPE_F64 : KILN__DTYPE_F32;
    return dtype == KILN__DTYPE_I64 ? KILN__DTYPE_I64 : KILN__DTYPE_I32;
}

const char *kiln__typing_c_type(kiln__dtype dtype)
{
    switch (kiln__typing_computed(dtype)) {
    case KILN__DTYPE_F64:
        return "double";
    case KILN__DTYPE_F32:
        return "float";
    case KILN__DTYPE_I64:
        return "long long";
    default:
        return "int";
    }
}

bool kiln__typing_rounds(const kiln__typing *typing, const kiln__real *real, uint32_t node, bool eager)
{
    kiln__dtype own = (kiln__dtype)typing->own[node];
    bool is_step = own == typing->in[node] && calculates(typing, &real->nodes[node], node);
    const bool is_whole =
        own == KILN__DTYPE_BOOL ? !real->nodes[node].truth : !kiln__dtype_is_real(own) && typing->picked[node];
    return is_step && own != kiln__typing_computed(own) && ((eager && !real->nodes[node].inside) || is_whole);
}

bool kiln__typing_rounds_number(const kiln__typing *typing, const kiln__real *real, uint32_t node, uint32_t j)
{
    const kiln__real_node *step = &real->nodes[node], *number = &real->nodes[step->args[j]];
    kiln__dtype in = (kiln__dtype)typing->in[node];
    bool compares = kiln__real_is_comparison(step) || (step->kind == KILN__REAL_OP && step->truth);
    bool narrow = in == KILN__DTYPE_F16 || in == KILN__DTYPE_BF16;
    if (!narrow || typing->own[step->args[j]] != KILN__DTYPE_UNSET)
        return false;
    bool stays = number->kind == KILN__REAL_NUMBER && !isfinite(kiln__dtype_round(number->value, in));
    return !stays && (compares || (kiln__real_is_division(real, step) && j == 0));
}

bool kiln__typing_mark(const kiln__typing *typing, const kiln__real *real, kiln__dtype in,
                       bool nodes[KILN__REAL_NODES_MAX])
{
    bool any = false;
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        nodes[i] = typing->in[i] == in && calculates(typing, node, i);
        any = any || nodes[i];
        for (uint32_t j = 0; j < node->count; j++)
            any = any || (is_lone_number(typing, node, j) && typing->in[node->args[j]] == in);
    }
    for (uint32_t i = 0; i < real->outputs; i++)
        any = any || kiln__typing_in(typing, real, i) == in;
    return any;
}
