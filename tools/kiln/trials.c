#include "trials.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "argvalues.h"
#include "csv.h"
#include "format.h"
#include "options.h"
#include "spectext.h"
#include "trialmap.h"

enum { CEILING_ROUNDS = 10 };

int trials_open(struct trials *out, const char *csv, const char *plot)
{
    *out = (struct trials){ .groups = NULL };
    int status = resultfile_open(&out->csv, csv);
    return status ? status : resultfile_open(&out->plot, plot);
}

static int begin_group(struct trials *trials, struct session *session, const char *device)
{
    kiln_device_info info = { .size = sizeof(info) };
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

/* Takes over the texts of the row. */
static void add_row(trial_group *group, const trial_row *row)
{
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
    kiln_tuning_info info = { .size = sizeof(info) };
    kiln_trial one = { .size = sizeof(one) };
    kiln_status status = kiln_tuning_get_info(tuning, &info);
    if (status)
        return session_fail(session, status, NULL);
    int result = begin_group(trials, session, info.device);
    if (result)
        return result;
    trial_group *group = &trials->groups[trials->count - 1];
    group->elements = info.elements;
    group->bytes = info.bytes;
    group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    for (uint64_t i = 0; kiln_tuning_trial(tuning, i, &one) == KILN_OK; i++)
        add_row(group, &(trial_row){ .spec = need_copy(one.spec),
                                     .problem = need_copy(one.problem),
                                     .verdict = kiln_verdict_name(one.verdict),
                                     .ms = one.median_ms,
                                     .gbps = gigabytes_per_second(info.bytes, one.median_ms),
                                     .ratio = one.ratio,
                                     .low = one.low,
                                     .high = one.high,
                                     .ceiling_ratio = one.ceiling_ratio,
                                     .samples = one.samples,
                                     .registers = one.registers,
                                     .local_bytes = one.local_bytes });
    return STATUS_DONE;
}

void trials_add_gap(struct trials *trials, const char *spec, const char *problem)
{
    trial_group *group = &trials->groups[trials->count - 1];
    group->gaps = need_array(group->gaps, group->gap_count + 1, sizeof(*group->gaps));
    group->gaps[group->gap_count++] = (trial_gap){ need_copy(spec), need_copy(problem) };
}

/* ---- What a tuning tells as JSON */

static const char *text_in(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static uint64_t count_in(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static double real_in(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* -1 where there is no such number. */
static int per_thread_in(const json_t *object, const char *key)
{
    return json_is_integer(json_object_get(object, key)) ? (int)count_in(object, key) : -1;
}

static const char *verdict_in(const json_t *object)
{
    for (int i = KILN_VERDICT_WINNER; i <= KILN_VERDICT_OUT; i++)
        if (strcmp(kiln_verdict_name((kiln_verdict)i), text_in(object, "verdict")) == 0)
            return kiln_verdict_name((kiln_verdict)i);
    return "unknown";
}

static void add_tuned_row(trial_group *group, const json_t *one)
{
    add_row(group, &(trial_row){ .spec = need_copy(text_in(one, "spec")),
                                 .problem = need_copy(text_in(one, "problem")),
                                 .verdict = verdict_in(one),
                                 .ms = real_in(one, "time_ms"),
                                 .gbps = real_in(one, "gbps"),
                                 .ratio = real_in(one, "ratio"),
                                 .low = real_in(one, "ratio_low"),
                                 .high = real_in(one, "ratio_high"),
                                 .samples = count_in(one, "samples"),
                                 .registers = per_thread_in(one, "registers"),
                                 .local_bytes = per_thread_in(one, "local_bytes") });
}

/* Whether all trials of the group have this value. */
static bool is_common(const trial_group *group, const char *field, const char *value)
{
    bool same = true;
    for (size_t i = 1; i < group->count && same; i++) {
        char *other = NULL;
        same = spectext_field(&other, group->trials[i].spec, field) && strcmp(other, value) == 0;
        free(other);
    }
    return same;
}

/* The spec that leaves open what differs: its space is that of the trials. */
static char *common_spec(const trial_group *group)
{
    char *words = need_copy(group->trials[0].spec), *text = need_copy("");
    for (char *at = words, *word; (word = strsep(&at, " "));) {
        char *value = strchr(word, '='), *longer;
        if (!value)
            continue;
        *value++ = '\0';
        if (!is_common(group, word, value))
            continue;
        longer = need_format("%s%s%s=%s", text, *text ? " " : "", word, value);
        free(text);
        text = longer;
    }
    free(words);
    return text;
}

static int visit_gap(void *data, const kiln_variant *variant)
{
    if (*variant->problem)
        trials_add_gap(data, variant->spec, variant->problem);
    return 0;
}

static int add_gaps(struct trials *trials, struct session *session)
{
    char *text = common_spec(&trials->groups[trials->count - 1]);
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, session->service, text, &session->report);
    if (!status)
        status = kiln_variants(session->service, spec, visit_gap, trials, &session->report);
    kiln_spec_free(spec);
    free(text);
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

/* The members of an object as texts "NAME=VALUE". */
static text_list texts_in(const json_t *object)
{
    text_list texts = { NULL, 0 };
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) text_list_add(
        &texts, json_is_string(value) ? need_format("%s=%s", name, json_string_value(value))
                                      : need_format("%s=%" PRIu64, name, (uint64_t)json_integer_value(value)));
    return texts;
}

static void free_texts(text_list *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free((char *)(uintptr_t)texts->items[i]);
    free(texts->items);
}

/* What the tuning was measured with, or the exit status after a message. */
static int read_values(arg_values *out, struct session *session, const char *text, const json_t *result)
{
    arg_texts texts = { texts_in(json_object_get(result, "sizes")), texts_in(json_object_get(result, "args")) };
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, session->service, text, &session->report);
    char *problem = status ? NULL : argvalues_read(out, spec, &texts);
    if (!status && !argvalues_wanted(spec))
        out->elements = count_in(result, "elements");
    kiln_spec_free(spec);
    free_texts(&texts.sizes);
    free_texts(&texts.numbers);
    int failed = status ? session_fail(session, status, NULL) : problem ? fail(STATUS_FAILED, "%s", problem) : 0;
    free(problem);
    return failed;
}

/* A sweep of the winner alone, beside which the copies are timed. */
static int measure_ceiling(trial_group *group, struct session *session, const json_t *result)
{
    arg_values values = { .elements = 0 };
    kiln_sweep_options options = KILN_SWEEP_OPTIONS_INIT;
    kiln_tuning_info info = { .size = sizeof(info) };
    kiln_tuning *tuning = NULL;
    const char *spec = group->trials[0].spec;
    options.rounds = CEILING_ROUNDS;
    options.device = group->handle;
    int failed = read_values(&values, session, spec, result);
    if (failed)
        return failed;
    ARGVALUES_PUT(&options, &values);
    kiln_status status = kiln_sweep(&tuning, session->service, &spec, 1, &options, &session->report);
    if (!status)
        status = kiln_tuning_get_info(tuning, &info);
    kiln_tuning_free(tuning);
    if (status)
        return session_fail(session, status, NULL);
    group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    return STATUS_DONE;
}

int trials_add_tuned(struct trials *trials, struct session *session, const json_t *result)
{
    const json_t *list = json_object_get(result, "trials");
    if (!trials->csv.path && !trials->plot.path)
        return STATUS_DONE;
    int status = begin_group(trials, session, text_in(result, "device"));
    if (status)
        return status;
    trial_group *group = &trials->groups[trials->count - 1];
    group->elements = count_in(result, "elements");
    group->bytes = count_in(result, "bytes");
    for (size_t i = 0; i < json_array_size(list); i++)
        add_tuned_row(group, json_array_get(list, i));
    if (!trials->plot.path || group->count == 0)
        return STATUS_DONE;
    status = add_gaps(trials, session);
    bool stopped = strcmp(text_in(result, "end"), "stopped") == 0;
    return status || stopped ? status : measure_ceiling(group, session, result);
}

/* ---- The files */

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
    csv_text(csv, one->verdict);
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
