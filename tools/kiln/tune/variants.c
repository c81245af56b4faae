#include "tune/variants.h"

#include <stdlib.h>
#include <string.h>

#include "text/format.h"
#include "text/spectext.h"
#include "tune/variantcsv.h"

int variants_open(struct variants *out, const char *csv, const char *picture)
{
    *out = (struct variants){ .groups = NULL };
    return results_open(&out->results, csv, picture);
}

static const char *const verdicts[] = {
    [KILN_VERDICT_UNMEASURED] = "unmeasured", [KILN_VERDICT_WINNER] = "winner", [KILN_VERDICT_TIED] = "tied",
    [KILN_VERDICT_GIVEN_UP] = "given up",     [KILN_VERDICT_SLOWER] = "slower", [KILN_VERDICT_REJECTED] = "out",
};

enum { VERDICTS = sizeof(verdicts) / sizeof(verdicts[0]) };

const char *variants_verdict_like(const char *word)
{
    for (size_t i = 0; i < VERDICTS; i++)
        if (strcmp(verdicts[i], word) == 0)
            return verdicts[i];
    return "unknown";
}

variant_row variants_row(const kiln_variant_result *result, uint64_t bytes)
{
    return (variant_row){ .spec = need_copy(result->spec),
                          .problem = need_copy(result->problem),
                          .verdict = (size_t)result->verdict < VERDICTS ? verdicts[result->verdict] : "unknown",
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

int variants_begin(struct variants *variants, struct session *session, const char *device)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    variants->groups = need_array(variants->groups, variants->count + 1, sizeof(*variants->groups));
    variant_group *group = &variants->groups[variants->count++];
    *group = (variant_group){ .device = need_copy(device) };
    kiln_status status = kiln_device_open(&group->handle, session->service, device, &session->report);
    if (!status)
        status = kiln_device_get_info(group->handle, &info);
    if (status)
        return session_fail(session, status, NULL);
    group->model = need_copy(info.model);
    group->target = need_copy(info.target);
    return STATUS_DONE;
}

void variants_add_row(struct variants *variants, const variant_row *row)
{
    variant_group *group = &variants->groups[variants->count - 1];
    if (group->count == 0) {
        if (!spectext_field(&group->op, row->spec, "op"))
            spectext_field(&group->op, row->spec, "template");
        spectext_field(&group->dtype, row->spec, "dtype");
    }
    group->variants = need_array(group->variants, group->count + 1, sizeof(*group->variants));
    group->variants[group->count++] = *row;
}

int variants_add(struct variants *variants, struct session *session, const kiln_tuning *tuning)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_status status = kiln_tuning_get_info(tuning, &info);
    if (status)
        return session_fail(session, status, NULL);
    int result = variants_begin(variants, session, info.device);
    if (result)
        return result;
    variant_group *group = &variants->groups[variants->count - 1];
    group->elements = info.elements;
    group->bytes = info.bytes;
    group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    for (size_t i = 0; i < info.result_count; i++) {
        variant_row row = variants_row(info.results[i], info.bytes);
        variants_add_row(variants, &row);
    }
    return STATUS_DONE;
}

void variants_add_gap(struct variants *variants, const char *spec, const char *problem)
{
    variant_group *group = &variants->groups[variants->count - 1];
    group->gaps = need_array(group->gaps, group->gap_count + 1, sizeof(*group->gaps));
    group->gaps[group->gap_count++] = (variant_gap){ need_copy(spec), need_copy(problem) };
}

int variants_write(struct variants *variants)
{
    struct draft rows;
    if (!results_wanted(&variants->results))
        return STATUS_DONE;
    draft_begin(&rows);
    variantcsv_write(rows.stream, variants->groups, variants->count);
    draft_end(&rows);
    int status = results_write(&variants->results, &rows);
    draft_drop(&rows);
    return status;
}

static void free_group(variant_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        free(group->variants[i].spec);
        free(group->variants[i].problem);
    }
    for (size_t i = 0; i < group->gap_count; i++) {
        free(group->gaps[i].spec);
        free(group->gaps[i].problem);
    }
    free(group->variants);
    free(group->gaps);
    free(group->device);
    free(group->model);
    free(group->target);
    free(group->op);
    free(group->dtype);
}

void variants_close(struct variants *variants)
{
    for (size_t i = 0; i < variants->count; i++)
        free_group(&variants->groups[i]);
    free(variants->groups);
    results_close(&variants->results);
    *variants = (struct variants){ .groups = NULL };
}
