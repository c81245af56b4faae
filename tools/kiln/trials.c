#include "trials.h"

#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "spectext.h"
#include "trialcsv.h"

int trials_open(struct trials *out, const char *csv, const char *picture)
{
    *out = (struct trials){ .groups = NULL };
    return results_open(&out->results, csv, picture);
}

static const char *const verdicts[] = {
    [KILN_VERDICT_UNMEASURED] = "unmeasured", [KILN_VERDICT_WINNER] = "winner", [KILN_VERDICT_TIED] = "tied",
    [KILN_VERDICT_GIVEN_UP] = "given up",     [KILN_VERDICT_SLOWER] = "slower", [KILN_VERDICT_REJECTED] = "out",
};

enum { VERDICTS = sizeof(verdicts) / sizeof(verdicts[0]) };

const char *trials_verdict(kiln_verdict verdict)
{
    return (size_t)verdict < VERDICTS ? verdicts[verdict] : "unknown";
}

const char *trials_verdict_like(const char *word)
{
    for (size_t i = 0; i < VERDICTS; i++)
        if (strcmp(verdicts[i], word) == 0)
            return verdicts[i];
    return "unknown";
}

int trials_begin(struct trials *trials, struct session *session, const char *device)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    trials->groups = need_array(trials->groups, trials->count + 1, sizeof(*trials->groups));
    trial_group *group = &trials->groups[trials->count++];
    *group = (trial_group){ .device = need_copy(device) };
    kiln_status status = kiln_device_open(&group->handle, session->service, device, &session->report);
    if (!status)
        status = kiln_device_get_info(group->handle, &info);
    if (status)
        return session_fail(session, status, NULL);
    group->model = need_copy(info.model);
    group->target = need_copy(info.target);
    return STATUS_DONE;
}

void trials_add_row(struct trials *trials, const trial_row *row)
{
    trial_group *group = &trials->groups[trials->count - 1];
    if (group->count == 0) {
        if (!spectext_field(&group->op, row->spec, "op"))
            spectext_field(&group->op, row->spec, "template");
        spectext_field(&group->dtype, row->spec, "dtype");
    }
    group->trials = need_array(group->trials, group->count + 1, sizeof(*group->trials));
    group->trials[group->count++] = *row;
}

int trials_add(struct trials *trials, struct session *session, const kiln_tuning *tuning)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_status status = kiln_tuning_get_info(tuning, &info);
    if (status)
        return session_fail(session, status, NULL);
    int result = trials_begin(trials, session, info.device);
    if (result)
        return result;
    trial_group *group = &trials->groups[trials->count - 1];
    group->elements = info.elements;
    group->bytes = info.bytes;
    group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    for (size_t i = 0; i < info.result_count; i++) {
        const kiln_variant_result *one = info.results[i];
        trials_add_row(trials, &(trial_row){ .spec = need_copy(one->spec),
                                             .problem = need_copy(one->problem),
                                             .verdict = trials_verdict(one->verdict),
                                             .ms = one->median_ms,
                                             .gbps = gigabytes_per_second(info.bytes, one->median_ms),
                                             .ratio = one->ratio,
                                             .low = one->low,
                                             .high = one->high,
                                             .ceiling_ratio = one->ceiling_ratio,
                                             .samples = one->samples,
                                             .registers = one->registers,
                                             .local_bytes = one->local_bytes });
    }
    return STATUS_DONE;
}

void trials_add_gap(struct trials *trials, const char *spec, const char *problem)
{
    trial_group *group = &trials->groups[trials->count - 1];
    group->gaps = need_array(group->gaps, group->gap_count + 1, sizeof(*group->gaps));
    group->gaps[group->gap_count++] = (trial_gap){ need_copy(spec), need_copy(problem) };
}

int trials_write(struct trials *trials)
{
    struct draft rows;
    if (!results_wanted(&trials->results))
        return STATUS_DONE;
    draft_begin(&rows);
    trialcsv_write(rows.stream, trials->groups, trials->count);
    draft_end(&rows);
    int status = results_write(&trials->results, &rows);
    draft_drop(&rows);
    return status;
}

static void free_group(trial_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        free(group->trials[i].spec);
        free(group->trials[i].problem);
    }
    for (size_t i = 0; i < group->gap_count; i++) {
        free(group->gaps[i].spec);
        free(group->gaps[i].problem);
    }
    free(group->trials);
    free(group->gaps);
    free(group->device);
    free(group->model);
    free(group->target);
    free(group->op);
    free(group->dtype);
}

void trials_close(struct trials *trials)
{
    for (size_t i = 0; i < trials->count; i++)
        free_group(&trials->groups[i]);
    free(trials->groups);
    results_close(&trials->results);
    *trials = (struct trials){ .groups = NULL };
}
