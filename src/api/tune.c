/* The public functions that tune. */
#include "api/structs.h"
#include "base/fpenv.h"
#include "os/cancel.h"
#include "os/fork.h"
#include "tune/fill.h"
#include "tune/measure.h"
#include "tune/sweep.h"
#include "tune/tuner.h"
#include <string.h>

enum { MEASURE_WARMUP = 2, MEASURE_ROUNDS = 30 };

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "%s", what);
}

kiln_status kiln__take_work(kiln_work *full, const kiln_work *work, kiln_report *report)
{
    *full = (kiln_work)KILN_INIT(kiln_work);
    return kiln__take_in(full, sizeof(*full), work, "kiln_work", KILN__STAGE_DEVICE, report);
}

kiln_status kiln__take_tune_options(kiln_tune_options *full, kiln_work *work, const kiln_tune_options *options,
                                    kiln_report *report)
{
    *full = (kiln_tune_options)KILN_INIT(kiln_tune_options);
    kiln_status status = kiln__take_in(full, sizeof(*full), options, "kiln_tune_options", KILN__STAGE_DEVICE, report);
    if (status == KILN_OK)
        status = kiln__take_work(work, full->work, report);
    if (status != KILN_OK)
        return status;
    full->work = work;
    if (full->learn != KILN_DEFAULT && full->learn != KILN_ON && full->learn != KILN_OFF)
        return refuse(report, "kiln_tune_options.learn must be KILN_DEFAULT, KILN_ON or KILN_OFF");
    if (!(full->budget_s >= 0 && full->budget_s <= KILN__TUNE_BUDGET_MAX_S))
        return refuse(report, "kiln_tune_options.budget_s must be between 0 and 1000000 seconds");
    if (!(full->tolerance >= 0 && full->tolerance <= 1))
        return refuse(report, "kiln_tune_options.tolerance must be between 0 and 1, a fraction such as 0.005");
    for (size_t i = 0; i < full->skip_count; i++)
        if (full->skip == NULL || full->skip[i].spec == NULL || full->skip[i].reason == NULL)
            return refuse(report,
                          "kiln_tune_options.skip: expected skip_count elements, each with a spec and a reason");
    return KILN_OK;
}

kiln_status kiln_tune(kiln_tuning **out, kiln_service *service, const kiln_spec *spec, const kiln_tune_options *options,
                      kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_tune_options full;
    kiln_work work;
    if (out == NULL || service == NULL || spec == NULL)
        return refuse(report, "out, service and spec must not be NULL");
    *out = NULL;
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    kiln__fpenv host;
    kiln__fpenv_enter(&host);
    kiln_status status = kiln__take_tune_options(&full, &work, options, report);
    if (status == KILN_OK)
        status = kiln__tuning_make(out, service, &spec->fields, &full, report);
    kiln__fpenv_leave(&host);
    return status;
}

void kiln_tuning_free(kiln_tuning *tuning)
{
    kiln__tuning_free(tuning);
}

kiln_status kiln_tuning_get_info(const kiln_tuning *tuning, kiln_tuning_info *out)
{
    if (tuning == NULL || out == NULL)
        return KILN_EINVAL;
    return kiln__hand_out(out, &tuning->info, sizeof(tuning->info));
}

/* Turns what is in a space, and what is not, into what the host is told. */
typedef struct visit {
    kiln_variant_fn fn;
    void *data;
    bool stop, failed;
} visit;

static int show_variant(void *data, const kiln__fields *spec, const char *why)
{
    visit *v = data;
    kiln__text text = { 0 };
    kiln__spec_format(spec, false, &text);
    kiln_variant variant = { .size = sizeof(variant), .spec = kiln__text_string(&text), .problem = why };
    v->failed = text.failed;
    v->stop = v->failed || v->fn(v->data, &variant) != 0;
    kiln__text_fini(&text);
    return v->stop;
}

static kiln_status visit_space(visit *v, const kiln__fields *spec, const kiln__target *target, kiln_report *report)
{
    kiln__space space;
    kiln_status status = kiln__space_make(&space, spec, target, report);
    for (size_t i = 0; status == KILN_OK && i < space.count && !v->stop; i++) {
        kiln__fields full;
        kiln__space_spec(&space, i, &full);
        show_variant(v, &full, "");
    }
    kiln__space_fini(&space);
    if (status == KILN_OK && !v->stop)
        status = kiln__space_visit_impossible(spec, target, show_variant, v, report);
    return v->failed ? kiln__fail_memory(report, KILN__STAGE_SPEC) : status;
}

kiln_status kiln_variants(kiln_service *service, const kiln_spec *spec, kiln_variant_fn fn, void *data,
                          kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    visit v = { .fn = fn, .data = data };
    kiln__fields full;
    if (service == NULL || spec == NULL || fn == NULL)
        return refuse(report, "service, spec and fn must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_SPEC);
    kiln_status status = kiln__service_resolve(service, NULL, &spec->fields, &full, report);
    return status == KILN_OK ? visit_space(&v, &spec->fields, &full.target, report) : status;
}

static const char *find_null(const kiln_spec *const *specs, size_t count)
{
    if (specs == NULL || count == 0)
        return "there are no specs: expected at least one";
    for (size_t i = 0; i < count; i++)
        if (specs[i] == NULL)
            return "one of the specs is NULL";
    return count > KILN__SWEEP_SPECS_MAX ? "there are more than 65536 specs" : NULL;
}

kiln_status kiln_sweep(kiln_tuning **out, kiln_service *service, const kiln_spec *const *specs, size_t count,
                       const kiln_sweep_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_sweep_options full = KILN_INIT(kiln_sweep_options);
    kiln_work work;
    if (out == NULL || service == NULL)
        return refuse(report, "out and service must not be NULL");
    *out = NULL;
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    kiln_status status = kiln__take_in(&full, sizeof(full), options, "kiln_sweep_options", KILN__STAGE_DEVICE, report);
    if (status == KILN_OK)
        status = kiln__take_work(&work, full.work, report);
    if (status != KILN_OK)
        return status;
    full.work = &work;
    if (full.rounds > KILN__SWEEP_ROUNDS_MAX)
        return refuse(report, "kiln_sweep_options.rounds must be at most 100000");
    const char *problem = find_null(specs, count);
    if (problem != NULL)
        return refuse(report, problem);
    kiln__fpenv host;
    kiln__fpenv_enter(&host);
    status = kiln__sweep_make(out, service, specs, count, &full, report);
    kiln__fpenv_leave(&host);
    return status;
}

kiln_status kiln_measure(kiln_timing *out, kiln_device *device, const kiln_contender *contenders, size_t count,
                         const kiln_measure_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_measure_options full = KILN_INIT(kiln_measure_options);
    kiln_status status =
        kiln__take_in(&full, sizeof(full), options, "kiln_measure_options", KILN__STAGE_DEVICE, report);
    if (device != NULL && kiln__is_forked(device->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    if (full.warmup == 0)
        full.warmup = MEASURE_WARMUP;
    if (full.rounds == 0)
        full.rounds = MEASURE_ROUNDS;
    return status == KILN_OK ? kiln__measure(out, device, contenders, count, &full, report) : status;
}

kiln_status kiln_fill(kiln_device *device, void *to, const char *dtype, uint64_t n, uint64_t seed, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (device == NULL || dtype == NULL || (to == NULL && n > 0))
        return refuse(report, "device, to and dtype must not be NULL");
    if (kiln__is_forked(device->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    kiln__dtype type = kiln__dtype_parse(dtype, strlen(dtype));
    if (type == KILN__DTYPE_UNSET)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_DEVICE, 0, "unknown dtype '%.40s': f32, f64, f16 or bf16",
                          dtype);
    if (n > (uint64_t)PTRDIFF_MAX / kiln__dtype_bytes(type))
        return refuse(report, "n is larger than any memory");
    return kiln__fill_random(device, to, type, n, seed, report);
}
