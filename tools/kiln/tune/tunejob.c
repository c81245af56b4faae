/* Tunes a spec, and tells the result as JSON, in which it also comes from a child process. */
#include "tune/tunejob.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/spectext.h"

/* ---- The view */

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

/* ---- The file of wisdom */

/* sm_90 and sm_90a are. */
static bool same_architecture(const char *a, const char *b)
{
    size_t length = strcspn(a, "af");
    return strcspn(b, "af") == length && strncmp(a, b, length) == 0;
}

/* Whether the library has tried to store the winner, as docs/tuning.md describes it. */
static bool was_to_be_kept(const kiln_spec *spec, const tune_job *job, const kiln_tuning_info *info,
                           const kiln_device_info *device)
{
    const char *target = kiln_spec_field(spec, "target");
    bool complete = strcmp(info->end, "settled") == 0 && info->variants > 1;
    return !job->no_learn && !job->hot && complete && !*spectext_geometry(kiln_spec_text(spec)) &&
           (!*target || same_architecture(target, device->target));
}

/* "nvidia-h200" of "NVIDIA H200" */
static char *file_name(const char *model)
{
    enum { LONGEST = 71 };
    char *name = need_alloc(LONGEST + 1);
    size_t length = 0;
    for (const char *c = model; *c && length < LONGEST; c++) {
        char low = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        if ((low >= 'a' && low <= 'z') || (low >= '0' && low <= '9'))
            name[length++] = low;
        else if (length && name[length - 1] != '-')
            name[length++] = '-';
    }
    while (length && name[length - 1] == '-')
        length--;
    name[length] = '\0';
    return name;
}

/* The file that keeps the winner, or that should have: where it could not be stored, or an earlier search is kept. ""
 * where the winner was none to be kept, or there is no store on disk. */
static const char *wisdom_file(kiln_service *service, const kiln_spec *spec, const tune_job *job,
                               const kiln_tuning_info *info)
{
    struct session session = { service, KILN_INIT(kiln_report) };
    kiln_device *device = NULL;
    kiln_device_info facts;
    if (*info->wisdom)
        return info->wisdom;
    bool known = session_device(&device, &facts, &session, info->device) == KILN_OK;
    const char *store = known ? cache_directory(&session) : "";
    kiln_report_clear(&session.report);
    if (!*store || !was_to_be_kept(spec, job, info, &facts))
        return "";
    /* The library gives an absolute path without slashes at its end. */
    char *here = *store != '/' ? need_keep(getcwd(NULL, 0)) : NULL;
    char *root = need_format("%s%s%s", here ? here : "", here && strcmp(here, "/") != 0 ? "/" : "", store);
    for (size_t length = strlen(root); length > 1 && root[length - 1] == '/';)
        root[--length] = '\0';
    const char *name = file_name(facts.model);
    return need_format("%s/wisdom/%s.json", root, *name ? name : "device");
}

/* ---- Results as JSON */

json_t *tune_failure(kiln_status status, const char *message, const char *log, const char *suspect)
{
    return json_new("error",
                    json_new("status", json_integer(status), "message", json_text(message), "log", json_text(log),
                             "suspect", json_text(suspect), NULL),
                    NULL);
}

static json_t *success_json(const kiln_tuning *tuning, kiln_service *service, const kiln_spec *spec,
                            const tune_job *job, const arg_values *values)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    json_t *rows = json_array();
    kiln_tuning_get_info(tuning, &info);
    for (size_t i = 0; i < info.result_count; i++) {
        variant_row row = variant_of(info.results[i], info.bytes);
        json_add(rows, variant_json(&row));
    }
    json_t *object = json_new(
        "device", json_text(info.device), "elements", json_count(info.elements), "bytes", json_count(info.bytes),
        "variants", json_count(info.variants), "impossible", json_count(info.impossible), "out",
        json_count(info.rejected), "rounds", json_count(info.rounds), "samples", json_count(info.samples), "default_ms",
        json_number(info.default_ms), "regret", json_number(info.regret), "seconds", json_number(info.seconds), "end",
        json_text(info.end), "settled", json_boolean(strcmp(info.end, "settled") == 0), "against",
        json_text(info.verified_by), "learnt", json_boolean(*info.wisdom != '\0'), "wisdom",
        json_text(wisdom_file(service, spec, job, &info)), "not_learnt", json_text(info.not_learnt), "spec",
        json_text(info.results[0]->spec), "variant_results", rows, NULL);
    bool flat = spec_is_flat(spec);
    argvalues_json(object, spec_signature(spec), flat ? &info.elements : values->sizes, flat, &job->texts.numbers);
    return object;
}

json_t *tune_here(kiln_service *service, const tune_job *job, tune_view *view)
{
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = NULL;
    kiln_tuning *tuning = NULL;
    char *suspect = NULL;
    arg_values values = { .size_count = 0 };
    kiln_work work = KILN_INIT(kiln_work);
    options.budget_s = job->budget ? job->budget : TUNE_BUDGET_S;
    options.learn = job->no_learn ? KILN_OFF : KILN_DEFAULT;
    options.progress = on_progress;
    options.trying = on_trying;
    options.data = view;
    options.skip = job->skip;
    options.skip_count = job->skip_count;
    options.suspect = &suspect;
    options.work = &work;
    kiln_status status = kiln_spec_parse(&spec, service, job->spec, &report);
    if (!status) {
        const char *problem = argvalues_read(&values, spec, &job->texts);
        work = argvalues_work(&values, spec_is_flat(spec));
        work.hot = job->hot;
        status = problem ? KILN_EINVAL : KILN_OK;
        snprintf(report.message, sizeof(report.message), "%s", problem ? problem : "");
    }
    if (!status && job->device)
        status = kiln_device_open(&work.device, service, job->device, &report);
    if (!status)
        status = kiln_tune(&tuning, service, spec, &options, &report);
    const char *message = report.message[0] ? report.message : kiln_status_text(status);
    json_t *result =
        status ? tune_failure(status, message, report.log, suspect) : success_json(tuning, service, spec, job, &values);
    kiln_tuning_free(tuning);
    kiln_text_free(suspect);
    kiln_spec_free(spec);
    kiln_report_clear(&report);
    return result;
}

/* ---- Reading */

static bool read_rows(tune_result *out, const json_t *list)
{
    out->rows = need_array(NULL, json_array_size(list), sizeof(*out->rows));
    for (; out->row_count < json_array_size(list); out->row_count++)
        if (!variant_read(&out->rows[out->row_count], json_array_get(list, out->row_count)))
            return false;
    return json_is_array(list);
}

static bool read_values(text_list *to, json_t *object, bool are_sizes)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (are_sizes ? !json_is_integer(value) : !json_is_string(value))
            return false;
        text_list_add(to, are_sizes ? need_format("%s=%" JSON_INTEGER_FORMAT, name, json_integer_value(value))
                                    : need_format("%s=%s", name, json_string_value(value)));
    }
    return json_is_object(object);
}

bool tune_read(tune_result *out, json_t *object)
{
    const json_t *failure = json_object_get(object, "error"), *learnt = json_object_get(object, "learnt");
    json_t *sizes = json_object_get(object, "sizes"), *numbers = json_object_get(object, "args");
    *out = (tune_result){ .learnt = json_is_true(learnt), .has_values = sizes || numbers };
    if (failure) {
        out->status = (kiln_status)json_integer_value(json_object_get(failure, "status"));
        take_text(&out->log, failure, "log");
        take_text(&out->suspect, failure, "suspect");
        return take_text(&out->message, failure, "message") && out->status < 0;
    }
    return take_text(&out->device, object, "device") && take_text(&out->end, object, "end") &&
           take_text(&out->against, object, "against") && take_text(&out->not_learnt, object, "not_learnt") &&
           take_text(&out->wisdom, object, "wisdom") && take_text(&out->spec, object, "spec") &&
           take_count(&out->elements, object, "elements") && take_count(&out->bytes, object, "bytes") &&
           take_count(&out->impossible, object, "impossible") && take_count(&out->out, object, "out") &&
           take_count(&out->samples, object, "samples") && take_number(&out->regret, object, "regret") &&
           take_number(&out->seconds, object, "seconds") && json_is_boolean(learnt) &&
           read_rows(out, json_object_get(object, "variant_results")) &&
           (!out->has_values ||
            (read_values(&out->values.sizes, sizes, true) && read_values(&out->values.numbers, numbers, false)));
}
