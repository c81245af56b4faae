#include "tune/learn.h"

#include <string.h>

/* NULL, or why others should not rely on what was found. */
static const char *find_objection(const kiln_tuning_info *info, const kiln_device *device,
                                  const kiln_tune_options *options, const kiln__lesson *lesson)
{
    const kiln__fields *asked = lesson->asked;
    if (options->learn == KILN_OFF)
        return "it was not to be learnt";
    if (options->work->hot != 0)
        return "the arrays stayed in the caches";
    if (lesson->end == KILN__STOPPED)
        return "it was stopped";
    for (uint32_t i = 0; i < asked->template->param_count; i++)
        if (asked->param_set[i])
            return "the spec sets some of the geometry, and the best of all may be another";
    if (asked->target_set && asked->target.sm != device->target.sm)
        return "the spec's target is not the device's own";
    if (info->variants == 1)
        return "there is only one variant";
    if (info->regret < 0 || lesson->measure.samples == 0)
        return lesson->end == KILN__TIMED_OUT
                   ? "it ended before all variants were compared: give it a larger budget"
                   : "what was measured was disturbed too often: try again on a quieter machine";
    return NULL;
}

/* The path of the file that has the record, or why none has. */
static void tell(kiln_tuning *tuning, const kiln__wisdom *wisdom, const char *model,
                 const kiln__wisdom_outcome *outcome)
{
    kiln__text path = { 0 };
    if (!outcome->stored) {
        kiln__text_copy(tuning->not_learnt, sizeof(tuning->not_learnt), outcome->problem);
    } else if (outcome->tally.older_kept > 0) {
        kiln__text_copy(tuning->not_learnt, sizeof(tuning->not_learnt),
                        "an earlier search that compared more variants is kept");
    } else {
        kiln__wisdom_path(wisdom, model, &path);
        tuning->wisdom = kiln__text_take(&path);
    }
}

static kiln_status add(kiln_tuning *tuning, kiln_service *service, const kiln_device *on, const kiln__lesson *lesson,
                       kiln_report *report)
{
    kiln__fields spec = *lesson->best;
    kiln__toolchain toolchain = { .id = "" };
    kiln__wisdom_device device;
    kiln__wisdom_outcome outcome;
    kiln__wisdom_measure measure = lesson->measure;
    measure.gbps = measure.ms > 0 ? (double)tuning->info.bytes / measure.ms / 1e6 : 0;
    spec.n = tuning->info.elements;
    spec.n_set = true;
    kiln__geometry_device(service, on, &spec.target, lesson->asked, &device);
    if (kiln__toolchains_get(&kiln__service_builder(service, &spec.target)->toolchains, &toolchain, NULL) != KILN_OK)
        toolchain.id[0] = '\0';
    kiln_status status = kiln__wisdom_learn(service->wisdom, &spec, &device, toolchain.id, &measure, &outcome, report);
    if (status == KILN_OK)
        tell(tuning, service->wisdom, device.model, &outcome);
    return status;
}

kiln_status kiln__tuning_learn(kiln_tuning *tuning, kiln_service *service, const kiln_device *device,
                               const kiln_tune_options *options, const kiln__lesson *lesson, kiln_report *report)
{
    kiln_tuning_info *info = &tuning->info;
    const char *objection = find_objection(info, device, options, lesson);
    kiln_status status = KILN_OK;
    if (objection != NULL)
        kiln__text_copy(tuning->not_learnt, sizeof(tuning->not_learnt), objection);
    else
        status = add(tuning, service, device, lesson, report);
    info->wisdom = tuning->wisdom != NULL ? tuning->wisdom : "";
    info->not_learnt = tuning->not_learnt;
    return status;
}
