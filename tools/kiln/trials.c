#include "trials.h"

#include <stdlib.h>
#include <string.h>

#include "csv.h"
#include "format.h"
#include "spectext.h"
#include "trialmap.h"

enum { CEILING_ROUNDS = 10 };

int trials_open(struct trials *out, const char *csv, const char *plot)
{
    *out = (struct trials){ .groups = NULL };
    int status = resultfile_open(&out->csv, csv);
    return status ? status : resultfile_open(&out->plot, plot);
}

static kiln_status describe_device(trial_group *group, struct session *session, const char *name)
{
    kiln_device *device = NULL;
    kiln_device_info info = { .size = sizeof(info) };
    kiln_status status = kiln_device_open(&device, session->service, name, &session->report);
    if (!status)
        status = kiln_device_get_info(device, &info);
    group->device = need_copy(name);
    group->model = need_copy(status ? "?" : info.model);
    group->target = need_copy(status ? "?" : info.target);
    return status;
}

static void add_trial(trial_group *group, const kiln_trial *from)
{
    group->trials = need_array(group->trials, group->count + 1, sizeof(*group->trials));
    group->trials[group->count++] = (trial_row){ .spec = need_copy(from->spec),
                                                 .problem = need_copy(from->problem),
                                                 .verdict = from->verdict,
                                                 .ms = from->median_ms,
                                                 .gbps = gigabytes_per_second(group->bytes, from->median_ms),
                                                 .ratio = from->ratio,
                                                 .low = from->low,
                                                 .high = from->high,
                                                 .ceiling_ratio = from->ceiling_ratio,
                                                 .samples = from->samples,
                                                 .registers = from->registers,
                                                 .local_bytes = from->local_bytes };
}

int trials_add(struct trials *trials, struct session *session, const kiln_tuning *tuning)
{
    kiln_tuning_info info = { .size = sizeof(info) };
    kiln_trial one = { .size = sizeof(one) };
    trials->groups = need_array(trials->groups, trials->count + 1, sizeof(*trials->groups));
    trial_group *group = &trials->groups[trials->count++];
    *group = (trial_group){ .device = NULL };
    kiln_status status = kiln_tuning_get_info(tuning, &info);
    if (!status)
        status = describe_device(group, session, info.device);
    if (status)
        return session_fail(session, status, NULL);
    group->elements = info.elements;
    group->bytes = info.bytes;
    group->rounds = info.rounds;
    group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    for (uint64_t i = 0; kiln_tuning_trial(tuning, i, &one) == KILN_OK; i++)
        add_trial(group, &one);
    if (group->count > 0) {
        spectext_field(&group->op, group->trials[0].spec, "op");
        spectext_field(&group->dtype, group->trials[0].spec, "dtype");
    }
    return STATUS_DONE;
}

void trials_add_gap(struct trials *trials, const char *spec, const char *problem)
{
    trial_group *group = &trials->groups[trials->count - 1];
    group->gaps = need_array(group->gaps, group->gap_count + 1, sizeof(*group->gaps));
    group->gaps[group->gap_count++] = (trial_gap){ need_copy(spec), need_copy(problem) };
}

static int visit_gap(void *data, const kiln_variant *variant)
{
    if (*variant->problem)
        trials_add_gap(data, variant->spec, variant->problem);
    return 0;
}

/* A sweep of the winner alone, beside which the copies are timed. */
static int measure_ceiling(trial_group *group, struct session *session)
{
    kiln_sweep_options options = KILN_SWEEP_OPTIONS_INIT;
    kiln_tuning_info info = { .size = sizeof(info) };
    kiln_tuning *tuning = NULL;
    const char *spec = group->trials[0].spec;
    options.elements = group->elements;
    options.rounds = CEILING_ROUNDS;
    kiln_status status = kiln_sweep(&tuning, session->service, &spec, 1, &options, &session->report);
    if (!status)
        status = kiln_tuning_get_info(tuning, &info);
    kiln_tuning_free(tuning);
    if (status)
        return session_fail(session, status, NULL);
    group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    return STATUS_DONE;
}

int trials_add_tuned(struct trials *trials, struct session *session, const kiln_spec *spec, const kiln_tuning *tuning)
{
    if (!trials->csv.path && !trials->plot.path)
        return STATUS_DONE;
    int result = trials_add(trials, session, tuning);
    if (result || !trials->plot.path || trials->groups[trials->count - 1].count == 0)
        return result;
    kiln_tuning_info info = { .size = sizeof(info) };
    kiln_status status = kiln_tuning_get_info(tuning, &info);
    if (!status)
        status = kiln_variants(session->service, spec, visit_gap, trials, &session->report);
    if (status)
        return session_fail(session, status, NULL);
    if (strcmp(info.end, "stopped") == 0)
        return STATUS_DONE;
    return measure_ceiling(&trials->groups[trials->count - 1], session);
}

/* A field of the spec, empty if it has none. */
static void put_field(struct csv *csv, const char *spec, const char *field)
{
    char *value = NULL;
    spectext_field(&value, spec, field);
    csv_text(csv, value);
    free(value);
}

/* Zero stands for what was not measured. */
static void put_measured(struct csv *csv, double value)
{
    if (value > 0)
        csv_real(csv, value);
    else
        csv_text(csv, NULL);
}

static void put_per_thread(struct csv *csv, int count)
{
    if (count >= 0)
        csv_count(csv, (uint64_t)count);
    else
        csv_text(csv, NULL);
}

static void put_row(struct csv *csv, const trial_group *group, const trial_row *one)
{
    static const char *const fields[] = { "block", "elems", "vector" };
    csv_text(csv, group->device);
    csv_text(csv, group->model);
    csv_text(csv, group->target);
    csv_text(csv, group->op);
    csv_text(csv, group->dtype);
    csv_count(csv, group->elements);
    csv_count(csv, group->bytes);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        put_field(csv, one->spec, fields[i]);
    csv_text(csv, one->spec);
    csv_text(csv, kiln_verdict_name(one->verdict));
    csv_text(csv, one->problem);
    put_measured(csv, one->ms);
    put_measured(csv, one->gbps);
    put_measured(csv, one->ratio);
    put_measured(csv, one->low);
    put_measured(csv, one->high);
    put_measured(csv, one->ceiling_ratio);
    csv_count(csv, one->samples);
    put_per_thread(csv, one->registers);
    put_per_thread(csv, one->local_bytes);
    csv_end_row(csv);
}

static void write_csv(FILE *stream, const struct trials *trials)
{
    struct csv csv;
    csv_begin(&csv, stream);
    csv_titles(&csv, "device|model|target|op|dtype|elements|bytes|block|elems|vector|spec|verdict|problem|time_ms|gbps|"
                     "ratio|ratio_low|ratio_high|ceiling_ratio|samples|registers|local_bytes");
    for (size_t i = 0; i < trials->count; i++)
        for (size_t k = 0; k < trials->groups[i].count; k++)
            put_row(&csv, &trials->groups[i], &trials->groups[i].trials[k]);
}

int trials_write(struct trials *trials)
{
    FILE *stream = resultfile_begin(&trials->csv);
    if (stream)
        write_csv(stream, trials);
    int status = resultfile_end(&trials->csv);
    if (status)
        return status;
    stream = resultfile_begin(&trials->plot);
    if (stream)
        trialmap_draw(stream, trials->groups, trials->count);
    return resultfile_end(&trials->plot);
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
    resultfile_close(&trials->csv);
    resultfile_close(&trials->plot);
    *trials = (struct trials){ .groups = NULL };
}
