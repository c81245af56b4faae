/* The types of values and of results. */
#include "spec/fields.h"

#include "base/number.h"
#include "lang/primitive.h"
#include "lang/reduction.h"

void kiln__spec_type(const kiln__fields *spec, kiln__typing *out)
{
    kiln__dtype inputs[KILN__INPUTS_MAX];
    for (uint32_t k = 0; k < KILN__INPUTS_MAX; k++)
        inputs[k] = kiln__spec_input(spec, k);
    kiln__typing_make(out, spec->op, &spec->catalog->ops, spec->dtype, inputs);
}

bool kiln__spec_computes_in(const kiln__fields *spec, kiln__dtype type)
{
    kiln__typing typing;
    bool nodes[KILN__REAL_NODES_MAX];
    kiln__spec_type(spec, &typing);
    if (!typing.mixed)
        return kiln__typing_computed(typing.step) == type;
    for (int i = KILN__DTYPE_UNSET + 1; i < KILN__DTYPE_SPECS_END; i++)
        if (kiln__typing_computed((kiln__dtype)i) == type &&
            kiln__typing_mark(&typing, spec->op, (kiln__dtype)i, nodes))
            return true;
    return false;
}

kiln__dtype kiln__spec_input(const kiln__fields *spec, uint32_t k)
{
    return k < spec->typed ? spec->inputs[k] : spec->dtype;
}

kiln__layout kiln__spec_layout(const kiln__fields *spec, uint32_t k)
{
    if (kiln__template_strided(spec->template))
        k += kiln__spec_outputs(spec);
    if (k < spec->layout_count)
        return spec->layouts[k];
    return kiln__template_strided(spec->template) ? KILN__LAYOUT_UNIT : kiln__spec_plain_layout(spec, k);
}

kiln__layout kiln__spec_plain_layout(const kiln__fields *spec, uint32_t k)
{
    return k < spec->op->inputs && (spec->op->columns >> k & 1) != 0 ? KILN__LAYOUT_COLUMN : KILN__LAYOUT_FULL;
}

uint32_t kiln__spec_inputs_of(const kiln__fields *spec, kiln__layout layout)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < kiln__spec_inputs(spec); k++)
        count += kiln__spec_layout(spec, k) == layout;
    return count;
}

kiln__layout kiln__spec_out_layout(const kiln__fields *spec, uint32_t k)
{
    if (kiln__arguments_reduce(&spec->template->arguments) && k < spec->op->outputs) {
        bool varies[KILN__REAL_NODES_MAX];
        kiln__spec_varies(spec, varies);
        return varies[spec->op->roots[k]] ? KILN__LAYOUT_FULL : KILN__LAYOUT_COLUMN;
    }
    if (!kiln__template_strided(spec->template))
        return KILN__LAYOUT_FULL;
    return k < spec->layout_count ? spec->layouts[k] : KILN__LAYOUT_UNIT;
}

kiln__operands kiln__spec_operands(const kiln__fields *spec, bool named)
{
    static const char *const outputs[KILN__OUTPUTS_MAX] = { "out0", "out1", "out2", "out3",
                                                            "out4", "out5", "out6", "out7" };
    static const char *const scalars[KILN__SCALARS_MAX] = { "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7" };
    const kiln__real *op = spec->op;
    kiln__operands out = kiln__operands_plain(spec->dtype, op->inputs);
    out.output_count = kiln__spec_outputs(spec);
    out.scalar_count = op->scalars;
    out.indexed = op->indexed;
    out.counts = op->indexed && op->reductions == 0;
    out.columns = op->columns;
    out.dims = spec->layout_dims;
    for (uint32_t k = 0; k < op->inputs; k++) {
        out.inputs[k].type = kiln__spec_input(spec, k);
        out.inputs[k].layout = kiln__spec_layout(spec, k);
        out.inputs[k].name = named ? op->input_names[k] : kiln__input_names[k];
    }
    for (uint32_t k = 0; k < out.output_count; k++) {
        kiln__dtype result = kiln__spec_result(spec, k);
        out.outputs[k].layout = kiln__spec_out_layout(spec, k);
        out.outputs[k].type = result != KILN__DTYPE_UNSET ? result : spec->dtype;
        out.outputs[k].name = named && op->output_names[k][0] != '\0' ? op->output_names[k]
                              : out.output_count > 1                  ? outputs[k]
                                                                      : "out";
    }
    for (uint32_t k = 0; k < op->scalars; k++)
        out.scalars[k] = named ? op->scalar_names[k] : scalars[k];
    return out;
}

unsigned kiln__spec_bytes(const kiln__fields *spec)
{
    unsigned bytes = 0, single = spec->typed > 0 ? 0 : kiln__dtype_bytes(spec->dtype);
    for (uint32_t k = 0; k < spec->typed; k++) {
        const kiln__layout layout = kiln__spec_layout(spec, k);
        unsigned *widest = layout == KILN__LAYOUT_COLUMN || layout == KILN__LAYOUT_ONE ? &single : &bytes;
        if (kiln__dtype_bytes(spec->inputs[k]) > *widest)
            *widest = kiln__dtype_bytes(spec->inputs[k]);
    }
    return bytes > 0 ? bytes : single;
}

unsigned kiln__spec_out_bytes(const kiln__fields *spec)
{
    unsigned bytes = 0;
    for (uint32_t k = 0; k < kiln__spec_outputs(spec); k++) {
        unsigned own = kiln__dtype_bytes(kiln__spec_result(spec, k));
        if (kiln__spec_out_layout(spec, k) != KILN__LAYOUT_COLUMN)
            bytes = own > bytes ? own : bytes;
    }
    return bytes > 0 ? bytes : kiln__spec_bytes(spec);
}

double kiln__spec_input_value(const kiln__fields *spec, uint32_t k, const void *array, uint64_t i, uint64_t columns,
                              uint64_t inner)
{
    kiln__dtype type = kiln__spec_input(spec, k);
    kiln__layout layout = kiln__spec_layout(spec, k);
    uint64_t at = layout == KILN__LAYOUT_FULL || layout >= KILN__LAYOUT_ANY || layout == KILN__LAYOUT_UNIT ? i
                  : layout == KILN__LAYOUT_ROW    ? i / inner % columns
                  : layout == KILN__LAYOUT_COLUMN ? i / (columns * inner) * inner + i % inner
                                                  : 0;
    return kiln__dtype_value(array, at, type);
}

uint32_t kiln__spec_outputs(const kiln__fields *spec)
{
    return spec->op->outputs > 0 ? spec->op->outputs : 1;
}

static kiln__dtype usual_result(const kiln__fields *spec, uint32_t output)
{
    bool open = spec->dtype == KILN__DTYPE_UNSET || (!spec->op_set && kiln__template_takes_op(spec->template));
    if (open)
        return KILN__DTYPE_UNSET;
    if (!kiln__template_has_result(spec->template))
        return spec->dtype;
    kiln__typing typing;
    kiln__spec_type(spec, &typing);
    return spec->op_set ? kiln__typing_result(&typing, spec->op, output) : typing.step;
}

kiln__dtype kiln__spec_result(const kiln__fields *spec, uint32_t output)
{
    if (spec->result_count == 0)
        return usual_result(spec, output);
    return spec->results[output < spec->result_count ? output : 0];
}

void kiln__spec_fill_results(kiln__fields *spec)
{
    for (uint32_t k = 0; k < kiln__spec_outputs(spec); k++)
        spec->results[k] = kiln__spec_result(spec, k);
    spec->result_count = kiln__spec_outputs(spec);
}

bool kiln__spec_casts(const kiln__fields *spec)
{
    for (uint32_t k = 0; k < kiln__spec_outputs(spec) && spec->result_count > 0; k++)
        if (kiln__spec_result(spec, k) != usual_result(spec, k))
            return true;
    return false;
}

bool kiln__spec_has_other_results(const kiln__fields *spec)
{
    for (uint32_t k = 0; k < kiln__spec_outputs(spec); k++)
        if (kiln__spec_result(spec, k) != spec->dtype)
            return true;
    return false;
}

/* "op OP BEFORE f32AFTER" */
static kiln_status refuse(const kiln__fields *spec, const char *before, kiln__dtype type, const char *after,
                          kiln_report *report)
{
    kiln__text op = { 0 };
    kiln__expr_format(spec->op, &spec->catalog->ops, true, &op);
    kiln_status status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "op %.128s %s %s%s",
                                    kiln__text_string(&op), before, kiln__dtype_name(type), after);
    kiln__text_fini(&op);
    return status;
}

/* The op that a node calls as one step, or NULL. */
static const kiln__op *op_of(const kiln__fields *spec, const kiln__real_node *node)
{
    return node->kind == KILN__REAL_OP && node->body == 0 ? kiln__op_at(&spec->catalog->ops, node->index) : NULL;
}

/* Whether a node calls what takes whole numbers alone. */
static bool takes_whole(const kiln__fields *spec, const kiln__real_node *node)
{
    const kiln__op *op = op_of(spec, node);
    if (op != NULL)
        return op->real->integral;
    return node->kind == KILN__REAL_FUNCTION && kiln__primitive_at(node->index)->domain == KILN__DOMAIN_WHOLE;
}

/* Whether it has a number in it that 32 bits do not hold. */
static bool is_wide(const kiln__fields *spec, const kiln__real_node *node)
{
    const kiln__op *op = op_of(spec, node);
    if (op != NULL)
        return kiln__op_of_integers(op)->wide;
    return node->kind == KILN__REAL_NUMBER && kiln__number_is_wide(node->value);
}

void kiln__spec_varies(const kiln__fields *spec, bool out[KILN__REAL_NODES_MAX])
{
    for (uint32_t i = 0; i < spec->op->count; i++) {
        const kiln__real_node *node = &spec->op->nodes[i];
        kiln__layout layout = node->kind == KILN__REAL_INPUT ? kiln__spec_layout(spec, node->index) : KILN__LAYOUT_FULL;
        out[i] = node->kind == KILN__REAL_INDEX ||
                 (node->kind == KILN__REAL_INPUT && layout != KILN__LAYOUT_COLUMN && layout != KILN__LAYOUT_ONE);
        const bool reduces = node->kind == KILN__REAL_REDUCTION && !kiln__reduction_scans((kiln__reduction)node->index);
        for (uint32_t j = 0; j < node->count && !reduces && node->body == 0; j++)
            out[i] = out[i] || out[node->args[j]];
        if (node->body > 0)
            out[i] = out[node->body];
    }
}

/* An input of one value for a row is not reduced: a hint says which. */
static kiln_status check_reduction(const kiln__real_node *node, const bool *varies, kiln_report *report)
{
    if (node->kind != KILN__REAL_REDUCTION || varies[node->args[0]])
        return KILN_OK;
    return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                      "%s %s an axis, and its argument has one value in each row: layout is column or one",
                      kiln__reduction_name((kiln__reduction)node->index),
                      kiln__reduction_scans((kiln__reduction)node->index) ? "scans" : "reduces");
}

/* A column that varies along the axis would make the results others. */
static kiln_status check_columns(const kiln__fields *spec, const kiln__real_node *node, const bool *varies,
                                 kiln_report *report)
{
    const kiln__op *op = node->kind == KILN__REAL_OP ? kiln__op_at(&spec->catalog->ops, node->index) : NULL;
    for (uint32_t j = 0; op != NULL && j < op->inputs; j++)
        if ((op->columns >> j & 1) != 0 && varies[node->args[j]])
            return kiln__fail(
                report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                "%s takes a column as %s, of one element for each row: a shape without the axis or with 1 there, and "
                "layout column or one",
                op->name, op->input_names[j]);
    return KILN_OK;
}

static kiln_status check_step(const kiln__fields *spec, const kiln__real_node *node, kiln__dtype in,
                              kiln_report *report)
{
    const kiln__op *op = op_of(spec, node);
    bool real = kiln__dtype_is_real(in);
    if (takes_whole(spec, node) && real)
        return refuse(spec, "takes whole numbers, and gets those of", in, ": use i8, i16, i32, i64, u8 or bool",
                      report);
    if (op != NULL && op->real->mixed && !real)
        return refuse(spec, "gives whole and real numbers of", in, ": calculate these in an op of their own", report);
    if (is_wide(spec, node) && kiln__typing_computed(in) == KILN__DTYPE_I32)
        return refuse(spec, "has a number that 32 bits do not hold, in which", in, " is calculated: use i64", report);
    return KILN_OK;
}

kiln_status kiln__spec_check_numbers(const kiln__fields *spec, kiln_report *report)
{
    kiln__typing typing;
    bool varies[KILN__REAL_NODES_MAX];
    kiln_status status = KILN_OK;
    kiln__spec_type(spec, &typing);
    kiln__spec_varies(spec, varies);
    for (uint32_t i = 0; i < spec->op->count && status == KILN_OK; i++)
        status = check_step(spec, &spec->op->nodes[i], (kiln__dtype)typing.in[i], report);
    for (uint32_t i = 0; i < spec->op->count && status == KILN_OK; i++)
        status = check_reduction(&spec->op->nodes[i], varies, report);
    for (uint32_t i = 0; i < spec->op->count && status == KILN_OK; i++)
        status = check_columns(spec, &spec->op->nodes[i], varies, report);
    return status;
}
