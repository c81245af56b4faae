/* The types and shapes of the outputs of an op for some inputs, and its gradient. */
#include "service/infer.h"

#include "base/digest.h"
#include "lang/derive.h"
#include "service/parts.h"
#include "service/service.h"
#include "service/tensors.h"
#include <inttypes.h>
#include <stdio.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_LAUNCH, 0, __VA_ARGS__)

/* ---- Outputs */

static kiln_status check_inputs(const kiln_spec *spec, size_t in_count, kiln_report *report)
{
    const kiln__real *op = spec->fields.op;
    if (!spec->fields.op_set)
        return kiln__tensors_fail_without_op(report);
    if (op->inputs == in_count)
        return KILN_OK;
    return FAIL(report, KILN_EINVAL, "the op reads %u tensor%s, and %zu are given", op->inputs,
                op->inputs == 1 ? "" : "s", in_count);
}

/* Sets the types of inputs, and their layouts where the op reduces. */
static kiln_status type_inputs(kiln_spec **spec, const kiln__inputs *inputs, const kiln_tensor *ins, size_t in_count,
                               kiln_report *report)
{
    kiln__text line = { 0 };
    if (in_count == 0)
        return KILN_OK;
    kiln__tensors_append_types(&line, "dtype", ins, in_count);
    for (size_t k = 0; k < in_count && (*spec)->fields.op->reductions > 0; k++)
        kiln__text_printf(&line, "%s%s%s", k == 0 ? " layout=(" : ",", kiln__layout_name(inputs->layouts[k]),
                          k + 1 == in_count ? ")" : "");
    return kiln__tensors_set_fields(spec, &line, report);
}

/* A result of an op that reduces may lack the axis. */
static void shape_output(kiln_output *out, const kiln__inputs *inputs, bool reduced, bool keep)
{
    out->ndim = 0;
    for (uint32_t d = 0; d < inputs->ndim; d++) {
        const bool along = reduced && d >= inputs->axis[0] && d <= inputs->axis[1];
        if (!along || keep)
            out->shape[out->ndim++] = along ? 1 : inputs->shape[d];
    }
}

/* Reads a text and the types and layouts of its inputs. */
static kiln_status read_inputs(kiln_spec **spec, kiln__inputs *inputs, kiln_service *service, const char *text,
                               const kiln_tensor *ins, size_t in_count, kiln_report *report)
{
    kiln_status status = kiln__spec_parse(spec, &service->catalog, text, report);
    if (status != KILN_OK)
        return status;
    const kiln__along along = kiln__tensors_along(*spec);
    status = check_inputs(*spec, in_count, report);
    if (status == KILN_OK)
        status = kiln__tensors_check_open(*spec, report);
    if (status == KILN_OK)
        status = kiln__loop_inputs(inputs, ins, in_count, (*spec)->fields.op->reductions > 0 ? &along : NULL, report);
    if (status == KILN_OK)
        status = type_inputs(spec, inputs, ins, in_count, report);
    if (status == KILN_OK)
        status = kiln__spec_check_numbers(&(*spec)->fields, report);
    if (status != KILN_OK)
        kiln__spec_release(*spec);
    return status;
}

/* Whether an output lacks the axis, or has the extent 1 there. */
static bool is_reduced(const kiln_spec *spec, uint32_t k)
{
    return spec->fields.op->reductions > 0 && kiln__spec_out_layout(&spec->fields, k) == KILN__LAYOUT_COLUMN;
}

/* The outputs of a call in one launch. */
static kiln_status infer_launch(kiln_output *outs, size_t room, size_t *count, const kiln_spec *spec,
                                const kiln__inputs *inputs, kiln_report *report)
{
    *count = spec->fields.op->outputs;
    if (room < *count)
        return FAIL(report, KILN_EINVAL, "the op has %zu outputs, and there is room for %zu", *count, room);
    for (uint32_t k = 0; k < *count; k++) {
        outs[k].dtype = (kiln_dtype)kiln__spec_result(&spec->fields, k);
        shape_output(&outs[k], inputs, is_reduced(spec, k), spec->fields.keep);
    }
    return KILN_OK;
}

/* The total of each output: of the type that the second launch gives for results of the type that the op has. */
static kiln_status total_outputs(kiln_output *outs, size_t count, const kiln_spec *spec, const kiln__inputs *inputs,
                                 kiln_report *report)
{
    bool is_short = true; /* the axis: an element is a row */
    for (uint32_t d = inputs->axis[0]; spec->fields.op->reductions > 0 && d <= inputs->axis[1] && d < inputs->ndim; d++)
        is_short = is_short && inputs->shape[d] == 1;
    for (uint32_t k = 0; k < count; k++) {
        const kiln__reduction total = spec->fields.reduce == KILN__TOTAL_MEAN ? KILN__REDUCE_MEAN : KILN__REDUCE_SUM;
        if (spec->fields.op->reductions > 0 && !is_reduced(spec, k) && !is_short)
            return FAIL(report, KILN_EINVAL,
                        "reduce=%s takes results of one value for each row, and output %u has one for each element",
                        kiln__reduction_name(total), k);
        outs[k].dtype = (kiln_dtype)kiln__reduction_type(total, (kiln__dtype)outs[k].dtype);
        outs[k].ndim = spec->fields.keep ? inputs->ndim : 0;
        for (uint32_t d = 0; d < outs[k].ndim; d++)
            outs[k].shape[d] = 1;
    }
    return KILN_OK;
}

kiln_status kiln__infer_outputs(kiln_output *outs, size_t room, size_t *count, kiln_service *service, const char *text,
                                const kiln_tensor *ins, size_t in_count, kiln_report *report)
{
    kiln__inputs inputs;
    kiln_spec *spec;
    *count = 0;
    kiln_status status = read_inputs(&spec, &inputs, service, text, ins, in_count, report);
    if (status != KILN_OK)
        return status;
    status = infer_launch(outs, room, count, spec, &inputs, report);
    if (status == KILN_OK && spec->fields.reduce != KILN__TOTAL_NONE)
        status = total_outputs(outs, *count, spec, &inputs, report);
    kiln__spec_release(spec);
    return status;
}

kiln_status kiln__infer_parts(char **first, char **second, kiln_service *service, const char *text, kiln_report *report)
{
    kiln__parts parts = { .weighted = false };
    kiln_spec *spec;
    *first = *second = NULL;
    kiln_status status = kiln__spec_parse(&spec, &service->catalog, text, report);
    if (status != KILN_OK)
        return status;
    if (spec->fields.reduce != KILN__TOTAL_NONE)
        status = kiln__parts_make(&parts, spec, report);
    else
        kiln__text_append(&parts.first, spec->text);
    if (status == KILN_OK) {
        *first = kiln__text_take(&parts.first);
        *second = parts.second.length > 0 ? kiln__text_take(&parts.second) : NULL;
        if (*first == NULL || (*second == NULL && parts.second.failed))
            status = kiln__fail_memory(report, KILN__STAGE_SPEC);
    }
    kiln__parts_fini(&parts);
    kiln__spec_release(spec);
    return status;
}

/* ---- Gradients */

static kiln_status check_wanted(const kiln_spec *spec, uint64_t wanted, kiln_report *report)
{
    const kiln__real *op = spec->fields.op;
    if (wanted == 0 || wanted >> op->inputs != 0)
        return FAIL(report, KILN_EINVAL, "the gradients of inputs %#" PRIx64 " are wanted, and the op has %u", wanted,
                    op->inputs);
    if (op->outputs + op->inputs > KILN__INPUTS_MAX)
        return FAIL(report, KILN_EINVAL, "the gradient of an op of %u inputs and %u outputs takes more than %d arrays",
                    op->inputs, op->outputs, KILN__INPUTS_MAX);
    return KILN_OK;
}

/* "op=NAME(d1,i1,?s1)" */
static void append_call(kiln__text *out, const kiln__real *op, const char *name)
{
    kiln__text_printf(out, "op=%s(", name);
    for (uint32_t k = 0; k < op->outputs; k++)
        kiln__text_printf(out, "%sd%u", k > 0 ? "," : "", k + 1);
    for (uint32_t k = 0; k < op->inputs; k++)
        kiln__text_printf(out, ",i%u", k + 1);
    for (uint32_t k = 0; k < op->scalars; k++)
        kiln__text_printf(out, ",?s%u", k + 1);
    kiln__text_append(out, ")");
}

/* " axis=-1 keep=1 math=fast": the fields that the gradient takes over. It may reduce nothing. */
static kiln_status append_call_fields(kiln__text *out, kiln_service *service, const kiln_spec *spec, const char *name,
                                      kiln_report *report)
{
    const int math = kiln__fields_find(spec->fields.template, kiln__word_of("math"));
    int op = -1;
    kiln_status status = kiln__op_find(&service->catalog.ops, kiln__word_of(name), UINT32_MAX, &op, report);
    if (status != KILN_OK)
        return status;
    if (op >= 0 && kiln__op_at(&service->catalog.ops, (uint32_t)op)->real->reductions > 0) {
        kiln__text_append(out, " axis=");
        kiln__axis_format(&spec->fields.axis, out);
        kiln__text_append(out, " keep=1");
    }
    if (spec->fields.math != KILN__MATH_UNSET)
        kiln__text_printf(out, " math=%s", spec->values[math]);
    return out->failed ? kiln__fail_memory(report, KILN__STAGE_SPEC) : KILN_OK;
}

static kiln_status define_gradient(kiln__text *call, kiln_service *service, const kiln_spec *spec,
                                   const kiln__derivation *d, kiln_report *report)
{
    char name[32];
    kiln__text body = { 0 }, definition = { 0 };
    kiln_status status = kiln__derive(d, &body, report);
    if (status == KILN_OK) {
        snprintf(name, sizeof(name), "gradient_%016" PRIx64, kiln__hash(body.data, body.length));
        kiln__text_printf(&definition, "%s%s", name, kiln__text_string(&body));
        append_call(call, d->real, name);
        status = definition.failed || call->failed
                     ? kiln__fail_memory(report, KILN__STAGE_SPEC)
                     : kiln__service_define_op(service, kiln__text_string(&definition), report);
    }
    if (status == KILN_OK)
        status = append_call_fields(call, service, spec, name, report);
    kiln__text_fini(&body);
    kiln__text_fini(&definition);
    return status;
}

kiln_status kiln__infer_gradient(char **out, kiln_service *service, const char *text, const kiln_tensor *ins,
                                 size_t in_count, uint64_t wanted, kiln_report *report)
{
    kiln__inputs inputs;
    kiln__text call = { 0 };
    kiln_spec *spec;
    *out = NULL;
    kiln_status status = read_inputs(&spec, &inputs, service, text, ins, in_count, report);
    if (status != KILN_OK)
        return status;
    kiln__derivation d = { .real = spec->fields.op, .ops = &service->catalog.ops, .wanted = wanted };
    for (size_t k = 0; k < in_count; k++) {
        d.inputs[k] = inputs.layouts[k] <= KILN__LAYOUT_ROW;
        d.wide = d.wide || ins[k].dtype == KILN_F64;
    }
    for (uint32_t k = 0; k < d.real->outputs; k++)
        d.outputs[k] = !is_reduced(spec, k);
    status = spec->fields.reduce != KILN__TOTAL_NONE
                 ? FAIL(report, KILN_EINVAL, "reduce= has the gradients of its calls: see kiln_apply_parts")
                 : check_wanted(spec, wanted, report);
    if (status == KILN_OK)
        status = define_gradient(&call, service, spec, &d, report);
    if (status == KILN_OK)
        *out = kiln__text_take(&call);
    kiln__text_fini(&call);
    kiln__spec_release(spec);
    return status;
}
