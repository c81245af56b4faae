#include "tunejob.h"

#include <stdlib.h>
#include <string.h>

#include <kiln/tune.h>

#include "format.h"
#include "signature.h"
#include "tunefile.h"
#include "variants.h"

/* ---- What can be seen */

static int on_progress(void *data, const kiln_tuning_info *info)
{
    tune_view *view = data;
    uint64_t now = (uint64_t)(info->seconds * 1e3) + 1;
    uint64_t none = 0;
    atomic_store(&view->variants, info->variants);
    atomic_store(&view->ready, info->verified);
    atomic_store(&view->out, info->rejected);
    atomic_store(&view->samples, info->samples);
    if (info->waiting + info->verified + info->rejected > 0) /* else it waits for its turn */
        atomic_compare_exchange_strong(&view->began_ms, &none, now);
    atomic_store(&view->now_ms, now);
    return atomic_load(&view->stop);
}

static void on_trying(void *data, const char *spec)
{
    tune_view *view = data;
    if (spec) {
        size_t length = strnlen(spec, sizeof(view->variant) - 1);
        memcpy(view->variant, spec, length);
        view->variant[length] = '\0';
    }
    atomic_fetch_add(&view->tries, 1);
}

/* ---- What came of it */

static void put_variant(json_t *list, const kiln_variant_result *result, uint64_t bytes)
{
    json_t *object = json_new();
    json_put_text(object, "spec", result->spec);
    json_put_text(object, "verdict", variants_verdict(result->verdict));
    json_put_text(object, "problem", result->problem);
    json_put_real(object, "time_ms", result->median_ms);
    json_put_real(object, "gbps", gigabytes_per_second(bytes, result->median_ms));
    json_put_real(object, "ratio", result->ratio);
    json_put_real(object, "ratio_low", result->low);
    json_put_real(object, "ratio_high", result->high);
    json_put_count(object, "samples", result->samples);
    if (result->registers >= 0)
        json_put_count(object, "registers", (uint64_t)result->registers);
    else
        json_put_null(object, "registers");
    json_add(list, object);
}

/* The sizes and numbers that it was measured with. */
static void put_values(json_t *object, const kiln_spec *spec, const arg_texts *texts, const arg_values *values)
{
    json_t *sizes = json_new(), *numbers = json_new();
    const kiln_signature *signature = spec_signature(spec);
    for (size_t i = 0; i < values->size_count; i++)
        json_put_count(sizes, signature->sizes[i], values->sizes[i]);
    for (size_t i = 0; i < signature->param_count; i++) {
        const kiln_param *param = signature->params[i];
        if (param->role == KILN_ROLE_SCALAR)
            json_put_text(numbers, param->name, argvalues_find(&texts->numbers, param->name, NULL));
    }
    json_put(object, "sizes", sizes);
    json_put(object, "args", numbers);
}

static json_t *tuning_json(const kiln_tuning *tuning, kiln_service *service, const kiln_spec *spec, const tune_job *job)
{
    json_t *object = json_new(), *variants = json_list();
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_tuning_get_info(tuning, &info);
    char *file = tune_file(service, spec, job, &info);
    json_put_text(object, "device", info.device);
    json_put_count(object, "elements", info.elements);
    json_put_count(object, "bytes", info.bytes);
    json_put_count(object, "variants", info.variants);
    json_put_count(object, "impossible", info.impossible);
    json_put_count(object, "out", info.rejected);
    json_put_count(object, "rounds", info.rounds);
    json_put_count(object, "samples", info.samples);
    json_put_real(object, "default_ms", info.default_ms);
    json_put_real(object, "regret", info.regret);
    json_put_real(object, "seconds", info.seconds);
    json_put_text(object, "end", info.end);
    json_put_text(object, "against", info.verified_by);
    json_put_bool(object, "learnt", info.wisdom[0] != '\0');
    json_put_text(object, "wisdom", file);
    json_put_text(object, "not_learnt", info.not_learnt);
    json_put_text(object, "spec", info.results[0]->spec);
    for (size_t i = 0; i < info.result_count; i++)
        put_variant(variants, info.results[i], info.bytes);
    json_put(object, "variant_results", variants);
    free(file);
    return object;
}

json_t *tune_failure(kiln_status status, const char *message, const char *log, const char *suspect)
{
    json_t *object = json_new(), *error = json_new();
    json_put(error, "status", json_integer(status));
    json_put_text(error, "message", message);
    if (log)
        json_put_text(error, "log", log);
    if (suspect)
        json_put_text(error, "suspect", suspect);
    json_put(object, "error", error);
    return object;
}

const json_t *tune_error(const json_t *result, const char *member)
{
    return json_object_get(json_object_get(result, "error"), member);
}

/* ---- Tuning */

static kiln_skip *skips_of(const json_t *list, size_t *count)
{
    *count = json_array_size(list);
    kiln_skip *skips = need_array(NULL, *count, sizeof(*skips));
    for (size_t i = 0; i < *count; i++) {
        const json_t *entry = json_array_get(list, i);
        skips[i].spec = json_string_value(json_object_get(entry, "spec"));
        skips[i].reason = json_string_value(json_object_get(entry, "reason"));
    }
    return skips;
}

json_t *tune_here(kiln_service *service, const tune_job *job, const json_t *skip, tune_view *view)
{
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = NULL;
    kiln_tuning *tuning = NULL;
    char *suspect = NULL;
    kiln_skip *skips = skips_of(skip, &options.skip_count);
    arg_values values = { .elements = 0 };
    kiln_work work;
    options.budget_s = job->budget ? job->budget : TUNE_BUDGET_S;
    options.learn = job->no_learn ? KILN_OFF : KILN_DEFAULT;
    options.progress = on_progress;
    options.trying = on_trying;
    options.data = view;
    options.skip = skips;
    options.suspect = &suspect;
    kiln_status status = kiln_spec_parse(&spec, service, job->spec, &report);
    char *problem = status ? NULL : argvalues_read(&values, spec, &job->texts);
    if (problem) {
        status = KILN_EINVAL;
        snprintf(report.message, sizeof(report.message), "%s", problem);
    }
    free(problem);
    work = argvalues_work(&values);
    work.hot = job->hot;
    options.work = &work;
    if (!status && job->device)
        status = kiln_device_open(&work.device, service, job->device, &report);
    if (!status)
        status = kiln_tune(&tuning, service, spec, &options, &report);
    json_t *result = status ? tune_failure(status, report.message[0] ? report.message : kiln_status_text(status),
                                           report.log, suspect)
                            : tuning_json(tuning, service, spec, job);
    if (!status && argvalues_wanted(spec))
        put_values(result, spec, &job->texts, &values);
    kiln_tuning_free(tuning);
    kiln_text_free(suspect);
    kiln_spec_free(spec);
    kiln_report_clear(&report);
    free(skips);
    return result;
}
