#include "tune/tunejob.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "kernels/signature.h"
#include "tune/tunefile.h"

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

/* ---- Tuning */

/* The sizes and numbers that it was measured with. */
static void add_values(tune_result *result, const kiln_spec *spec, const arg_texts *texts, const arg_values *values)
{
    const kiln_signature *signature = spec_signature(spec);
    result->has_values = true;
    for (size_t i = 0; i < values->size_count; i++)
        text_list_add(&result->values.sizes, need_format("%s=%" PRIu64, signature->sizes[i], values->sizes[i]));
    for (size_t i = 0; i < signature->param_count; i++) {
        const kiln_param *param = signature->params[i];
        if (param->role == KILN_ROLE_SCALAR)
            text_list_add(&result->values.numbers,
                          need_format("%s=%s", param->name, argvalues_find(&texts->numbers, param->name, NULL)));
    }
}

static tune_result *success(const kiln_tuning *tuning, kiln_service *service, const kiln_spec *spec,
                            const tune_job *job, const arg_values *values)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_tuning_get_info(tuning, &info);
    tune_result *result = tune_result_make(&info);
    result->wisdom = tune_file(service, spec, job, &info);
    if (argvalues_wanted(spec))
        add_values(result, spec, &job->texts, values);
    return result;
}

tune_result *tune_here(kiln_service *service, const tune_job *job, tune_view *view)
{
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = NULL;
    kiln_tuning *tuning = NULL;
    char *suspect = NULL;
    arg_values values = { .elements = 0 };
    kiln_work work;
    options.budget_s = job->budget ? job->budget : TUNE_BUDGET_S;
    options.learn = job->no_learn ? KILN_OFF : KILN_DEFAULT;
    options.progress = on_progress;
    options.trying = on_trying;
    options.data = view;
    options.skip = job->skip;
    options.skip_count = job->skip_count;
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
    tune_result *result = status
                              ? tune_result_fail(status, report.message[0] ? report.message : kiln_status_text(status),
                                                 report.log, suspect)
                              : success(tuning, service, spec, job, &values);
    kiln_tuning_free(tuning);
    kiln_text_free(suspect);
    kiln_spec_free(spec);
    kiln_report_clear(&report);
    return result;
}
