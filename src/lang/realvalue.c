/* What an expression comes to in double. */
#include "lang/primitive.h"
#include "lang/real.h"
#include "lang/syntax.h"

static double binary_value(uint16_t id, double a, double b)
{
    switch ((kiln__operator)id) {
    case KILN__OPERATOR_OR:
        return a != 0 || b != 0;
    case KILN__OPERATOR_AND:
        return a != 0 && b != 0;
    case KILN__OPERATOR_EQ:
        return a == b;
    case KILN__OPERATOR_NE:
        return a != b;
    case KILN__OPERATOR_LE:
        return a <= b;
    case KILN__OPERATOR_GE:
        return a >= b;
    case KILN__OPERATOR_LT:
        return a < b;
    case KILN__OPERATOR_GT:
        return a > b;
    case KILN__OPERATOR_ADD:
        return a + b;
    case KILN__OPERATOR_SUB:
        return a - b;
    case KILN__OPERATOR_MUL:
        return a * b;
    default:
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
            values[i] = kiln__primitives[node->index].value(v);
            break;
        case KILN__REAL_OP:
            values[i] = kiln__real_value(kiln__op_at(ops, node->index)->real, ops, v,
                                         v + kiln__op_at(ops, node->index)->inputs);
            break;
        }
    }
    return real->count > 0 ? values[real->count - 1] : 0;
}
