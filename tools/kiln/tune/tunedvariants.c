#include "tune/tunedvariants.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/argvalues.h"
#include "text/format.h"
#include "text/spectext.h"
#include "tune/sweepset.h"

enum { CEILING_ROUNDS = 10 };

/* Whether all variants of the group have this value. */
static bool is_common(const variant_group *group, const char *field, const char *value)
{
    bool same = true;
    for (size_t i = 1; i < group->count && same; i++) {
        char *other = NULL;
        same = spectext_field(&other, group->variants[i].spec, field) && strcmp(other, value) == 0;
        free(other);
    }
    return same;
}

/* The spec that leaves open what differs: its space is that of the variants. */
static char *common_spec(const variant_group *group)
{
    char *words = need_copy(group->variants[0].spec), *text = need_copy("");
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
        variants_add_gap(data, variant->spec, variant->problem);
    return 0;
}

static int add_gaps(struct variants *variants, struct session *session)
{
    char *text = common_spec(&variants->groups[variants->count - 1]);
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, session->service, text, &session->report);
    if (!status)
        status = kiln_variants(session->service, spec, visit_gap, variants, &session->report);
    kiln_spec_free(spec);
    free(text);
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

/* What the tuning was measured with, or the exit status after a message. */
static int read_values(arg_values *out, struct session *session, const char *text, const tune_result *result)
{
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, session->service, text, &session->report);
    char *problem = status ? NULL : argvalues_read(out, spec, &result->values);
    if (!status && !argvalues_wanted(spec))
        out->elements = result->elements;
    kiln_spec_free(spec);
    int failed = status ? session_fail(session, status, NULL) : problem ? fail(STATUS_FAILED, "%s", problem) : 0;
    free(problem);
    return failed;
}

/* A sweep of the winner alone, beside which the copies are timed. */
static int measure_ceiling(variant_group *group, struct session *session, const tune_result *result)
{
    arg_values values = { .elements = 0 };
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_tuning *tuning = NULL;
    int failed = read_values(&values, session, group->variants[0].spec, result);
    if (failed)
        return failed;
    kiln_work work = argvalues_work(&values);
    work.device = group->handle;
    options.work = &work;
    options.rounds = CEILING_ROUNDS;
    kiln_status status = sweepset_measure(&tuning, session, &group->variants[0].spec, 1, &options);
    if (!status)
        status = kiln_tuning_get_info(tuning, &info);
    kiln_tuning_free(tuning);
    if (status)
        return session_fail(session, status, NULL);
    group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    return STATUS_DONE;
}

int tunedvariants_add(struct variants *variants, struct session *session, const tune_result *result)
{
    if (!results_wanted(&variants->results))
        return STATUS_DONE;
    int status = variants_begin(variants, session, result->device);
    if (status)
        return status;
    variant_group *group = &variants->groups[variants->count - 1];
    group->elements = result->elements;
    group->bytes = result->bytes;
    for (size_t i = 0; i < result->row_count; i++) {
        variant_row row = result->rows[i];
        row.spec = need_copy(row.spec);
        row.problem = need_copy(row.problem);
        variants_add_row(variants, &row);
    }
    if (group->count == 0)
        return STATUS_DONE;
    status = add_gaps(variants, session);
    bool stopped = strcmp(result->end, "stopped") == 0;
    return status || stopped ? status : measure_ceiling(group, session, result);
}
