/* The parts of a call with reduce=, and its launches. */
#include "service/parts.h"

#include "service/apply.h"
#include "service/service.h"
#include "spec/loop.h"
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

/* " op=mean(x*y) axis=all": of an op that reduces nothing one kernel gives the total. */
static kiln_status append_whole(kiln__text *out, const kiln_spec *spec, const char *function, kiln_report *report)
{
    const kiln__fields *fields = &spec->fields;
    bool is_open = !fields->template_set;
    for (uint32_t i = 0; i < fields->template->param_count; i++)
        is_open = is_open && !fields->param_set[i];
    if (!is_open)
        return FAIL(report, KILN_ESPEC,
                    "reduce=%s takes another template than the op alone: leave template and its parameters out",
                    function);
    kiln__text_append(out, " axis=all op=");
    if (!kiln__expr_format_calls(fields->op, &fields->catalog->ops, function, out))
        return FAIL(report, KILN_ESPEC, "reduce=%s takes an op of one result, or several expressions", function);
    return KILN_OK;
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

/* "op=(sum(x),sum(y)) axis=all" for so many results of rows. */
static void append_total(kiln__text *out, const kiln_spec *spec, const char *function)
{
    const uint32_t count = spec->fields.op->outputs;
    for (uint32_t k = 0; k < count; k++)
        kiln__text_printf(out, "%s%s(r%u)", k > 0 ? "," : count > 1 ? "op=(" : "op=", function, k);
    kiln__text_append(out, count > 1 ? ") axis=all" : " axis=all");
}

/* The rows have the op of the spec, and the total takes their results. */
static kiln_status append_rows(kiln__text *line, kiln__parts *out, const kiln_spec *spec, const char *function,
                               kiln_report *report)
{
    const kiln__op *weight = NULL;
    if (spec->fields.reduce == KILN__TOTAL_MEAN) {
        kiln_status status = find_weight(&weight, spec, report);
        if (status != KILN_OK)
            return status;
    }
    kiln__text_append(line, " keep=");
    out->weighted = weight != NULL && append_weighted(line, spec, weight);
    if (out->weighted)
        kiln__text_append(&out->second, "op=sum(r0)/sum(r1) axis=all");
    else
        append_total(&out->second, spec, function);
    return KILN_OK;
}

kiln_status kiln__parts_make(kiln__parts *out, const kiln_spec *spec, kiln_report *report)
{
    const char *function = spec->fields.reduce == KILN__TOTAL_MEAN ? "mean" : "sum";
    kiln__text line = { 0 };
    kiln_spec *first = NULL;
    *out = (kiln__parts){ .weighted = false };
    if (!spec->fields.op_set)
        return FAIL(report, KILN_ESPEC, "the text has no op: write one, such as op=x+y");
    kiln__text_append(&line, "reduce=");
    kiln_status status = spec->fields.op->reductions > 0 ? append_rows(&line, out, spec, function, report)
                                                         : append_whole(&line, spec, function, report);
    if (status == KILN_OK)
        status = line.failed ? kiln__fail_memory(report, KILN__STAGE_SPEC)
                             : kiln__spec_with(&first, spec, kiln__text_string(&line), report);
    if (status == KILN_OK)
        kiln__text_append(&out->first, first->text);
    if (status == KILN_OK && (out->first.failed || out->second.failed))
        status = kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln__spec_release(first);
    kiln__text_fini(&line);
    return status;
}

void kiln__parts_fini(kiln__parts *parts)
{
    kiln__text_fini(&parts->first);
    kiln__text_fini(&parts->second);
}

/* ---- Launches */

/* The results of rows, between the launches in a stream. */
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

/* Results of rows lose no bits that their total would show. */
static kiln_dtype type_of_rows(kiln_dtype total)
{
    if (!kiln__dtype_is_real((kiln__dtype)total))
        return KILN_I64;
    return total == KILN_F64 ? KILN_F64 : KILN_F32;
}

/* Finds the shape of the results of rows: that of the inputs, with the extent 1 along the axis. */
static kiln_status shape_rows(rows_results *out, const kiln_spec *spec, const kiln_tensor *ins, size_t in_count,
                              kiln_report *report)
{
    kiln__inputs inputs;
    uint64_t bytes = sizeof(double);
    bool fits = true;
    kiln_status status = kiln__loop_inputs(&inputs, ins, in_count, &spec->fields.axis, report);
    if (status != KILN_OK)
        return status;
    out->ndim = inputs.ndim;
    for (uint32_t d = 0; d < inputs.ndim; d++) {
        out->shape[d] = d >= inputs.axis[0] && d <= inputs.axis[1] ? 1 : inputs.shape[d];
        fits = fits && !__builtin_mul_overflow(bytes, (uint64_t)out->shape[d], &bytes);
    }
    if (!fits || bytes > INT64_MAX / KILN__OUTPUTS_MAX)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "the results of rows are larger than any memory");
    out->bytes = (bytes + RESULTS_ALIGNMENT - 1) / RESULTS_ALIGNMENT * RESULTS_ALIGNMENT;
    return KILN_OK;
}

/* Takes memory for the results of rows. release_rows gives it back. */
static kiln_status make_rows(rows_results *out, const kiln_spec *spec, const kiln__parts *parts,
                             const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                             void *stream, kiln_report *report)
{
    out->memory = NULL;
    out->count = out_count + parts->weighted;
    kiln_status status = shape_rows(out, spec, ins, in_count, report);
    if (status == KILN_OK && out->bytes > 0)
        status =
            out->device->backend->vtable->scratch(out->device, out->bytes * out->count, stream, &out->memory, report);
    for (size_t k = 0; k < out->count; k++)
        out->tensors[k] = (kiln_tensor){ .data = out->bytes > 0 ? (char *)out->memory + k * out->bytes : NULL,
                                         .device = out->device,
                                         .dtype = type_of_rows(outs[k < out_count ? k : 0].dtype),
                                         .ndim = out->ndim,
                                         .shape = out->shape };
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

kiln_status kiln__parts_apply(kiln_service *service, const kiln_spec *spec, const kiln__parts *parts,
                              const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                              const double *scalars, size_t scalar_count, void *stream, kiln_report *report)
{
    rows_results rows;
    const char *first = kiln__text_string(&parts->first), *second = kiln__text_string(&parts->second);
    if (parts->second.length == 0)
        return kiln__apply(service, first, outs, out_count, ins, in_count, scalars, scalar_count, stream, report);
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
