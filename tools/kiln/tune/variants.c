/* Keeps the results of variants and writes them as JSON and as a table. */
#include "tune/variants.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "kernels/crash.h"
#include "text/format.h"
#include "text/spectext.h"

static const char *const verdicts[] = {
    [KILN_VERDICT_UNMEASURED] = "unmeasured", [KILN_VERDICT_WINNER] = "winner", [KILN_VERDICT_TIED] = "tied",
    [KILN_VERDICT_GIVEN_UP] = "given up",     [KILN_VERDICT_SLOWER] = "slower", [KILN_VERDICT_REJECTED] = "out",
};

variant_row variant_of(const kiln_variant_result *result, uint64_t bytes)
{
    return (variant_row){ .spec = need_copy(result->spec),
                          .problem = need_copy(result->problem),
                          .verdict =
                              (size_t)result->verdict < COUNT_OF(verdicts) ? verdicts[result->verdict] : "unknown",
                          .ms = result->median_ms,
                          .gbps = gigabytes_per_second(bytes, result->median_ms),
                          .ratio = result->ratio,
                          .low = result->low,
                          .high = result->high,
                          .ceiling_ratio = result->ceiling_ratio,
                          .samples = result->samples,
                          .registers = result->registers,
                          .local_bytes = result->local_bytes };
}

/* ---- JSON */

json_t *variant_json(const variant_row *row)
{
    return json_new("spec", json_text(row->spec), "verdict", json_text(row->verdict), "problem",
                    json_text(row->problem), "time_ms", json_number(row->ms), "gbps", json_number(row->gbps), "ratio",
                    json_number(row->ratio), "ratio_low", json_number(row->low), "ratio_high", json_number(row->high),
                    "samples", json_count(row->samples), "registers", json_known(row->registers), "local_bytes",
                    json_known(row->local_bytes), NULL);
}

bool take_text(const char **out, const json_t *object, const char *name)
{
    *out = json_string_value(json_object_get(object, name));
    return *out;
}

bool take_count(uint64_t *out, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

bool take_number(double *out, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    *out = json_is_null(value) ? INFINITY : json_number_value(value);
    return json_is_null(value) || json_is_number(value);
}

/* Null is -1. */
static bool take_known(int *out, const json_t *object, const char *name)
{
    uint64_t count = 0;
    bool known = take_count(&count, object, name);
    *out = known ? (int)count : -1;
    return known ? count <= INT_MAX : json_is_null(json_object_get(object, name));
}

bool variant_read(variant_row *out, const json_t *object)
{
    *out = (variant_row){ .spec = NULL };
    return take_text(&out->spec, object, "spec") && take_text(&out->verdict, object, "verdict") &&
           take_text(&out->problem, object, "problem") && take_number(&out->ms, object, "time_ms") &&
           take_number(&out->gbps, object, "gbps") && take_number(&out->ratio, object, "ratio") &&
           take_number(&out->low, object, "ratio_low") && take_number(&out->high, object, "ratio_high") &&
           take_count(&out->samples, object, "samples") && take_known(&out->registers, object, "registers") &&
           take_known(&out->local_bytes, object, "local_bytes");
}

/* ---- Groups */

void variant_add_gap(variant_row **list, size_t *count, const kiln_variant *variant)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*list)[i].spec, variant->spec) == 0)
            return;
    *list = need_array(*list, *count + 1, sizeof(**list));
    (*list)[(*count)++] = (variant_row){ .spec = need_copy(variant->spec),
                                         .problem = need_copy(variant->problem),
                                         .verdict = "impossible",
                                         .registers = -1,
                                         .local_bytes = -1 };
}

variant_group *variants_begin(struct variants *variants, struct session *session, const char *device)
{
    kiln_device_info info;
    variants->groups = need_array(variants->groups, variants->count + 1, sizeof(*variants->groups));
    variant_group *group = &variants->groups[variants->count++];
    *group = (variant_group){ .device = need_copy(device) };
    kiln_status status = session_device(&group->handle, &info, session, device);
    if (session_status(session, status, NULL))
        return NULL;
    group->model = need_copy(info.model);
    group->target = need_copy(info.target);
    return group;
}

kiln_status variants_sweep(kiln_tuning **out, struct session *session, const text_list *texts,
                           const kiln_sweep_options *options)
{
    kiln_spec **specs = need_alloc(texts->count * sizeof(*specs));
    kiln_status status = KILN_OK;
    *out = NULL;
    for (size_t i = 0; i < texts->count && !status; i++)
        status = kiln_spec_parse(&specs[i], session->service, texts->items[i], &session->report);
    if (!status) {
        crash_watch(crash_question(session->service, specs[0]));
        status =
            kiln_sweep(out, session->service, (const kiln_spec *const *)specs, texts->count, options, &session->report);
        crash_forget();
    }
    for (size_t i = 0; i < texts->count; i++)
        kiln_spec_free(specs[i]);
    return status;
}

/* ---- CSV */

/* Zero stands for a value that was not measured. */
static void put_measured(struct csv *csv, double value)
{
    csv_text(csv, value > 0 && isfinite(value) ? format_exact(value) : NULL);
}

static void put_row(struct csv *csv, const variant_group *group, const variant_row *one)
{
    static const char *const fields[] = { "block", "elems", "vector" };
    const double measured[] = { one->ms, one->gbps, one->ratio, one->low, one->high, one->ceiling_ratio };
    const int per_thread[] = { one->registers, one->local_bytes };
    const char *first = group->rows[0].spec;
    csv_text(csv, group->device);
    csv_text(csv, group->model);
    csv_text(csv, group->target);
    csv_text(csv, spectext_op(first));
    csv_text(csv, spectext_field(first, "dtype"));
    csv_count(csv, group->elements);
    csv_count(csv, group->bytes);
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        csv_text(csv, spectext_field(one->spec, fields[i]));
    csv_text(csv, one->spec);
    csv_text(csv, one->verdict);
    csv_text(csv, one->problem);
    for (size_t i = 0; i < COUNT_OF(measured); i++)
        put_measured(csv, measured[i]);
    csv_count(csv, one->samples);
    for (size_t i = 0; i < COUNT_OF(per_thread); i++)
        csv_text(csv, per_thread[i] >= 0 ? format_count((uint64_t)per_thread[i]) : NULL);
    put_measured(csv, group->ceiling_gbps);
    csv_end_row(csv);
}

static void write_rows(FILE *stream, const void *data)
{
    const struct variants *variants = data;
    struct csv csv;
    csv_begin(&csv, stream,
              "device,model,target,op,dtype,elements,bytes,block,elems,vector,spec,verdict,problem,time_ms,gbps,"
              "ratio,ratio_low,ratio_high,ceiling_ratio,samples,registers,local_bytes,ceiling_gbps");
    for (size_t i = 0; i < variants->count; i++) {
        const variant_group *group = &variants->groups[i];
        for (size_t k = 0; k < group->count; k++)
            put_row(&csv, group, &group->rows[k]);
        for (size_t k = 0; k < group->gap_count && group->count > 0; k++)
            put_row(&csv, group, &group->gaps[k]);
    }
}

int variants_write(struct variants *variants)
{
    return results_write(&variants->results, write_rows, variants);
}
