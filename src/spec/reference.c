/* Compares results with the reference that an op's definition gives. */
#include "base/fpenv.h"
#include "lang/real.h"
#include "spec/fields.h"

const kiln__op *kiln__reference_op(const kiln__fields *spec)
{
    if (!spec->op_set || spec->op->count == 0)
        return NULL;
    const kiln__real_node *nodes = spec->op->nodes, *root = kiln__real_root(spec->op, 0);
    const kiln__op *op = root->kind == KILN__REAL_OP ? kiln__op_at(&spec->catalog->ops, root->index) : NULL;
    for (uint32_t i = 0; op != NULL && i < op->inputs; i++)
        if (nodes[root->args[i]].kind != KILN__REAL_INPUT || nodes[root->args[i]].index != i)
            op = NULL;
    return op != NULL && op->bounded && op->outputs == spec->op->outputs ? op : NULL;
}

void kiln__reference_compare(const kiln__fields *spec, uint32_t output, uint64_t n, const void *results,
                             const void *const *in, const double *scalars, kiln__worst_error *out)
{
    const kiln__op *op = kiln__reference_op(spec);
    const kiln__real *reference = op->reference != NULL ? op->reference : op->real;
    const kiln__real_node *nodes = spec->op->nodes, *root = kiln__real_root(spec->op, 0);
    double params[KILN__OP_ARGS_MAX];
    for (uint32_t i = 0; i < op->params; i++) {
        const kiln__real_node *param = &nodes[root->args[op->inputs + i]];
        params[i] = param->kind == KILN__REAL_SCALAR ? scalars[param->index] : param->value;
    }
    kiln__dtype result = kiln__spec_result(spec, output);
    kiln__fpenv host;
    memset(out, 0, sizeof(*out));
    kiln__fpenv_enter(&host);
    for (uint64_t i = 0; i < n; i++) {
        double inputs[KILN__INPUTS_MAX];
        for (uint32_t j = 0; j < op->inputs; j++)
            inputs[j] = kiln__dtype_convert(kiln__spec_input_value(spec, j, in[j], i, 1, 1), kiln__spec_input(spec, j),
                                            spec->dtype);
        const kiln__real_numbers numbers = { .inputs = inputs, .params = params };
        double want = kiln__real_value(reference, &spec->catalog->ops, &numbers, output);
        double got = kiln__dtype_value(results, i, result);
        double far = kiln__dtype_distance(got, want, result);
        if (far > out->worst)
            *out = (kiln__worst_error){ far, got, want, i };
    }
    kiln__fpenv_leave(&host);
}
