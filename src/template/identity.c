#include "template/identity.h"

#include <string.h>

static uint8_t *put(uint8_t *at, const void *bytes, size_t length)
{
    memcpy(at, bytes, length);
    return at + length;
}

static uint8_t *put_node(uint8_t *at, const kiln__expr_node *node, const kiln__op_table *ops)
{
    at = put(at, &node->op, sizeof(node->op));
    if (node->op < 0)
        return put(at, &node->input, sizeof(node->input));
    const kiln__op *op = kiln__op_at(ops, node->op);
    at = put(at, node->args, op->inputs * sizeof(node->args[0]));
    return put(at, node->params, op->params * sizeof(node->params[0]));
}

size_t kiln__spec_identity(const kiln_spec *spec, uint8_t *out)
{
    _Static_assert(KILN__EXPR_NODES_MAX * sizeof(kiln__expr_node) + KILN__PARAMS_MAX * sizeof(int64_t) + 256 <
                       KILN__IDENTITY_MAX,
                   "the largest spec must fit");
    uint8_t *at = out;
    uint32_t set = 0;
    for (uint32_t i = 0; i < spec->template->param_count; i++)
        set |= (uint32_t)spec->param_set[i] << i;
    at = put(at, &spec->template, sizeof(spec->template));
    at = put(at, &spec->dtype, sizeof(spec->dtype));
    at = put(at, &set, sizeof(set));
    for (uint32_t i = 0; i < spec->template->param_count; i++)
        if (spec->param_set[i])
            at = put(at, &spec->params[i], sizeof(spec->params[i]));
    *at++ = spec->op_set;
    for (uint32_t i = 0; spec->op_set && i < spec->op.count; i++)
        at = put_node(at, &spec->op.nodes[i], &spec->catalog->ops);
    if (spec->target_set) /* last, because its length varies */
        at = put(at, spec->target.name, strlen(spec->target.name));
    return (size_t)(at - out);
}
