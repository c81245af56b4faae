/* The parts of a call with reduce=, and its launches. */
#include "service/parts.h"

#include "service/apply.h"
#include "service/service.h"
#include "service/tensors.h"
#include <stdio.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_SPEC, 0, __VA_ARGS__)

/* ---- Texts */

/* The op NAME_weight of a single outermost op NAME; NULL: there is none. */
static kiln_status find_weight(const kiln__op **out, const kiln_spec *spec, kiln_report *report)
{
    const kiln__op_table *ops = &spec->fields.catalog->ops;
    const kiln__real_node *root = kiln__real_root(spec->fields.op, 0);
    char name[KILN__OP_NAME_SIZE + 8];
    int found = -1;
    kiln_status status = KILN_OK;
    *out = NULL;
    if (spec->fields.op->outputs != 1 || root->kind != KILN__REAL_OP)
        return KILN_OK;
    snprintf(name, sizeof(name), "%s_weight", kiln__op_at(ops, root->index)->name);
    status = kiln__op_find(ops, kiln__word_of(name), UINT32_MAX, &found, report);
    if (status == KILN_OK && found >= 0)
        *out = kiln__op_at(ops, (uint32_t)found);
    return status;
}

/* " op=(NAME(x,t),NAME_weight(t))". False, and nothing, where that op takes other arguments. */
static bool append_weighted(kiln__text *out, const kiln_spec *spec, const kiln__op *weight)
{
    const kiln__op_table *ops = &spec->fields.catalog->ops;
    kiln__text call = { 0 };
    const bool fits = kiln__expr_format_other(spec->fields.op, ops, weight, &call);
    if (fits) {
        kiln__text_append(out, " op=(");
        kiln__expr_format_calls(spec->fields.op, ops, "", out);
        kiln__text_printf(out, ",%s)", kiln__text_string(&call));
        out->failed = out->failed || call.failed;
    }
    kiln__text_fini(&call);
    return fits;
}

/* "op=(sum(r0),sum(r1)) axis=all" for so many results. */
static void append_total(kiln__text *out, const kiln_spec *spec, const char *function, bool weighted)
{
    const uint32_t count = spec->fields.op->outputs;
    kiln__text_append(out, weighted ? "op=sum(r0)/sum(r1)" : count > 1 ? "op=(" : "op=");
    for (uint32_t k = 0; k < count && !weighted; k++)
        kiln__text_printf(out, "%s%s(r%u)", k > 0 ? "," : "", function, k);
    kiln__text_append(out, count > 1 ? ") axis=all" : " axis=all");
    kiln__text_append(out, spec->fields.keep ? " keep=1" : "");
}

/* " op=mean(x*y) axis=all", where one kernel may give the total: of one expression that reduces nothing, with the
 * template of the ops. */
static void append_whole(kiln__text *out, const kiln_spec *spec, const char *function)
{
    const kiln__fields *fields = &spec->fields;
    bool fits = fields->op->reductions == 0 && fields->op->outputs == 1 && !fields->template_set &&
                kiln__axis_same(&fields->axis, &kiln__axis_last);
    for (uint32_t i = 0; i < fields->template->param_count; i++)
        fits = fits && !fields->param_set[i];
    if (!fits)
        return;
    kiln__text_append(out, "reduce= axis=all op=");
    kiln__expr_format_calls(fields->op, &fields->catalog->ops, function, out);
}

/* Appends the text of a spec with other fields, unless there are none. */
static kiln_status append_changed(kiln__text *out, const kiln_spec *spec, const kiln__text *line, kiln_report *report)
{
    kiln_spec *changed = NULL;
    if (line->failed)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    if (line->length == 0)
        return KILN_OK;
    const kiln_status status = kiln__spec_with(&changed, spec, kiln__text_string(line), report);
    if (status == KILN_OK)
        kiln__text_append(out, changed->text);
    kiln__spec_release(changed);
    return status;
}

kiln_status kiln__parts_make(kiln__parts *out, const kiln_spec *spec, kiln_report *report)
{
    const char *function = spec->fields.reduce == KILN__TOTAL_MEAN ? "mean" : "sum";
    const kiln__op *weight = NULL;
    kiln__text line = { 0 }, whole = { 0 };
    kiln_status status = KILN_OK;
    *out = (kiln__parts){ .weighted = false };
    if (!spec->fields.op_set)
        return FAIL(report, KILN_ESPEC, "the text has no op: write one, such as op=x+y");
    if (spec->fields.reduce == KILN__TOTAL_MEAN)
        status = find_weight(&weight, spec, report);
    kiln__text_append(&line, spec->fields.op->reductions > 0 ? "reduce= keep=1" : "reduce= keep=");
    out->weighted = weight != NULL && append_weighted(&line, spec, weight);
    append_total(&out->second, spec, function, out->weighted);
    if (!out->weighted)
        append_whole(&whole, spec, function);
    if (status == KILN_OK)
        status = append_changed(&out->first, spec, &line, report);
    if (status == KILN_OK)
        status = append_changed(&out->whole, spec, &whole, report);
    if (status == KILN_OK && (out->first.failed || out->second.failed || out->whole.failed))
        status = kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln__text_fini(&line);
    kiln__text_fini(&whole);
    return status;
}

void kiln__parts_fini(kiln__parts *parts)
{
    kiln__text_fini(&parts->first);
    kiln__text_fini(&parts->second);
    kiln__text_fini(&parts->whole);
}

/* ---- Launches */

/* The results of the first call, between the launches in a stream. */
typedef struct rows_results {
    kiln_device *device;
    void *memory; /* NULL: there are no rows */
    int64_t shape[KILN_TENSOR_DIMS_MAX];
    uint32_t ndim;
    uint64_t bytes; /* of a tensor, up to the next */
    size_t count;
    kiln_tensor tensors[KILN__OUTPUTS_MAX];
} rows_results;

enum { RESULTS_ALIGNMENT = 256 };

static bool is_dtype(kiln_dtype type)
{
    return type > KILN_DTYPE_NONE && type <= KILN_BOOL;
}

/* Finds the types of the op's results for these inputs, of which kiln__apply makes sure later. */
static void type_results(kiln__dtype out[KILN__OUTPUTS_MAX], const kiln_spec *spec, const kiln_tensor *ins,
                         size_t in_count)
{
    const kiln__real *op = spec->fields.op;
    kiln__dtype inputs[KILN__INPUTS_MAX] = { KILN__DTYPE_UNSET };
    kiln__typing typing;
    for (size_t k = 0; k < in_count && k < KILN__INPUTS_MAX; k++)
        inputs[k] = is_dtype(ins[k].dtype) ? (kiln__dtype)ins[k].dtype : KILN__DTYPE_UNSET;
    const kiln__dtype all = kiln__dtype_promote_all(inputs, op->inputs);
    kiln__typing_make(&typing, op, &spec->fields.catalog->ops, all, inputs);
    for (uint32_t k = 0; k < op->outputs; k++)
        out[k] = kiln__typing_result(&typing, op, k);
}

/* Results lose no bits that their total would show. The mean of whole numbers is a real one, and sums real ones. */
static kiln_dtype type_of_rows(kiln__dtype result, kiln_dtype total, bool is_mean)
{
    if (!kiln__dtype_is_real(result))
        return is_mean ? KILN_F64 : KILN_I64;
    return result == KILN__DTYPE_F64 || total == KILN_F64 ? KILN_F64 : KILN_F32;
}

/* Finds the shape of the results: that of the inputs, with the extent 1 along the axis of an op that reduces. */
static kiln_status shape_rows(rows_results *out, const kiln_spec *spec, const kiln_tensor *ins, size_t in_count,
                              kiln_report *report)
{
    const bool reduces = spec->fields.op->reductions > 0;
    const kiln__along along = kiln__tensors_along(spec);
    kiln__inputs inputs;
    uint64_t bytes = sizeof(double);
    bool fits = true;
    kiln_status status = kiln__loop_inputs(&inputs, ins, in_count, reduces ? &along : NULL, report);
    if (status != KILN_OK)
        return status;
    out->ndim = inputs.ndim;
    for (uint32_t d = 0; d < inputs.ndim; d++) {
        out->shape[d] = reduces && d >= inputs.axis[0] && d <= inputs.axis[1] ? 1 : inputs.shape[d];
        fits = fits && !__builtin_mul_overflow(bytes, (uint64_t)out->shape[d], &bytes);
    }
    if (!fits || bytes > INT64_MAX / KILN__OUTPUTS_MAX)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "the results are larger than any memory");
    out->bytes = (bytes + RESULTS_ALIGNMENT - 1) / RESULTS_ALIGNMENT * RESULTS_ALIGNMENT;
    return KILN_OK;
}

/* Takes memory for the results of the first call. release_rows gives it back. */
static kiln_status make_rows(rows_results *out, const kiln_spec *spec, const kiln__parts *parts,
                             const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                             void *stream, kiln_report *report)
{
    kiln__dtype results[KILN__OUTPUTS_MAX];
    out->memory = NULL;
    out->count = out_count + parts->weighted;
    for (size_t k = 0; k < out_count; k++)
        if (!is_dtype(outs[k].dtype))
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "output %zu: %d is no kiln_dtype", k,
                              (int)outs[k].dtype);
    kiln_status status = shape_rows(out, spec, ins, in_count, report);
    if (status == KILN_OK && out->bytes > 0)
        status =
            out->device->backend->vtable->scratch(out->device, out->bytes * out->count, stream, &out->memory, report);
    if (status == KILN_OK)
        type_results(results, spec, ins, in_count);
    for (size_t k = 0; status == KILN_OK && k < out->count; k++) {
        const size_t total = k < out_count ? k : 0; /* that it is part of: the weights are of the first */
        out->tensors[k] = (kiln_tensor){ .data = out->bytes > 0 ? (char *)out->memory + k * out->bytes : NULL,
                                         .device = out->device,
                                         .dtype = type_of_rows(results[total], outs[total].dtype,
                                                               spec->fields.reduce == KILN__TOTAL_MEAN),
                                         .ndim = out->ndim,
                                         .shape = out->shape };
    }
    return status;
}

static kiln_status release_rows(const rows_results *rows, kiln_status status, void *stream, kiln_report *report)
{
    if (rows->memory == NULL)
        return status;
    const kiln_status released = rows->device->backend->vtable->release_scratch(rows->device, rows->memory, stream,
                                                                                status == KILN_OK ? report : NULL);
    return status == KILN_OK ? released : status;
}

static const kiln__along all_dimensions = { .axis.all = true };

kiln_status kiln__parts_apply(kiln_service *service, const kiln_spec *spec, const kiln__parts *parts,
                              const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                              const double *scalars, size_t scalar_count, void *stream, kiln_report *report)
{
    rows_results rows;
    kiln__inputs inputs;
    const char *first = kiln__text_string(&parts->first), *second = kiln__text_string(&parts->second);
    if (parts->whole.length > 0 && kiln__loop_inputs(&inputs, ins, in_count, &all_dimensions, NULL) == KILN_OK)
        return kiln__apply(service, kiln__text_string(&parts->whole), outs, out_count, ins, in_count, scalars,
                           scalar_count, stream, report);
    if (out_count != spec->fields.op->outputs)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "the op writes %u tensors, and %zu are given",
                          spec->fields.op->outputs, out_count);
    kiln_status status = kiln__apply_device(&rows.device, service, outs, out_count, ins, in_count, report);
    if (status == KILN_OK)
        status = make_rows(&rows, spec, parts, outs, out_count, ins, in_count, stream, report);
    if (status != KILN_OK)
        return status;
    status =
        kiln__apply(service, first, rows.tensors, rows.count, ins, in_count, scalars, scalar_count, stream, report);
    if (status == KILN_OK)
        status = kiln__apply(service, second, outs, out_count, rows.tensors, rows.count, NULL, 0, stream, report);
    return release_rows(&rows, status, stream, report);
}
