#include "tunedvariants.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "argvalues.h"
#include "format.h"
#include "spectext.h"
#include "sweepset.h"

enum { CEILING_ROUNDS = 10 };

/* -1 where there is no such number. */
static int per_thread_in(const json_t *object, const char *key)
{
    return json_is_integer(json_object_get(object, key)) ? (int)json_get_count(object, key) : -1;
}

static void add_row(struct variants *variants, const json_t *one)
{
    variants_add_row(variants, &(variant_row){ .spec = need_copy(json_get_text(one, "spec")),
                                               .problem = need_copy(json_get_text(one, "problem")),
                                               .verdict = variants_verdict_like(json_get_text(one, "verdict")),
                                               .ms = json_get_real(one, "time_ms"),
                                               .gbps = json_get_real(one, "gbps"),
                                               .ratio = json_get_real(one, "ratio"),
                                               .low = json_get_real(one, "ratio_low"),
                                               .high = json_get_real(one, "ratio_high"),
                                               .samples = json_get_count(one, "samples"),
                                               .registers = per_thread_in(one, "registers"),
                                               .local_bytes = per_thread_in(one, "local_bytes") });
}

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
        out->elements = json_get_count(result, "elements");
    kiln_spec_free(spec);
    free_texts(&texts.sizes);
    free_texts(&texts.numbers);
    int failed = status ? session_fail(session, status, NULL) : problem ? fail(STATUS_FAILED, "%s", problem) : 0;
    free(problem);
    return failed;
}

/* A sweep of the winner alone, beside which the copies are timed. */
static int measure_ceiling(variant_group *group, struct session *session, const json_t *result)
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

int tunedvariants_add(struct variants *variants, struct session *session, const json_t *result)
{
    const json_t *list = json_object_get(result, "variant_results");
    if (!results_wanted(&variants->results))
        return STATUS_DONE;
    int status = variants_begin(variants, session, json_get_text(result, "device"));
    if (status)
        return status;
    variant_group *group = &variants->groups[variants->count - 1];
    group->elements = json_get_count(result, "elements");
    group->bytes = json_get_count(result, "bytes");
    for (size_t i = 0; i < json_array_size(list); i++)
        add_row(variants, json_array_get(list, i));
    if (group->count == 0)
        return STATUS_DONE;
    status = add_gaps(variants, session);
    bool stopped = strcmp(json_get_text(result, "end"), "stopped") == 0;
    return status || stopped ? status : measure_ceiling(group, session, result);
}
