/* The public functions that tune. */
#include "api_structs.h"
#include "tune/tuner.h"

const char *kiln_verdict_name(kiln_verdict verdict)
{
    switch (verdict) {
    case KILN_VERDICT_WINNER:
        return "winner";
    case KILN_VERDICT_TIED:
        return "tied";
    case KILN_VERDICT_GIVEN_UP:
        return "given up";
    case KILN_VERDICT_SLOWER:
        return "slower";
    case KILN_VERDICT_UNMEASURED:
        return "unmeasured";
    case KILN_VERDICT_OUT:
        return "out";
    }
    return "unknown";
}

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "%s", what);
}

kiln_status kiln_tune(kiln_tuning **out, kiln_service *service, const kiln_spec *spec, const kiln_tune_options *options,
                      kiln_report *report)
{
    kiln_tune_options full = KILN_TUNE_OPTIONS_INIT;
    if (out == NULL || service == NULL || spec == NULL)
        return refuse(report, "out, service and spec must not be NULL");
    *out = NULL;
    if (kiln__take_in(&full, sizeof(full), options) != KILN_OK)
        return refuse(report, "kiln_tune_options.size is not set: initialise the struct with KILN_TUNE_OPTIONS_INIT");
    if (!(full.budget_s >= 0 && full.budget_s <= KILN__TUNE_BUDGET_MAX_S))
        return refuse(report, "kiln_tune_options.budget_s must be between 0 and 1000000 seconds");
    if (!(full.tolerance >= 0 && full.tolerance <= 1))
        return refuse(report, "kiln_tune_options.tolerance must be between 0 and 1, a fraction such as 0.005");
    return kiln__tuning_make(out, service, spec, &full, report);
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

kiln_status kiln_tuning_trial(const kiln_tuning *tuning, uint64_t number, kiln_trial *out)
{
    if (tuning == NULL || out == NULL)
        return KILN_EINVAL;
    if (number >= tuning->count)
        return KILN_ENOENT;
    const kiln__trial *trial = &tuning->trials[number];
    const kiln_trial full = {
        .size = sizeof(full),
        .spec = trial->spec,
        .verdict = trial->verdict,
        .problem = trial->problem != NULL ? trial->problem : "",
        .median_ms = trial->ratio * tuning->info.default_ms,
        .ratio = trial->ratio,
        .low = trial->low,
        .high = trial->high,
        .samples = trial->samples,
        .registers = trial->registers,
        .local_bytes = trial->local_bytes,
    };
    return kiln__hand_out(out, &full, sizeof(full));
}
