/* Tunings: the space of a spec, a contest between its variants, a search for the fastest, and what wisdom learns. */
#include "tune/tuner.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include "tune/session.h"
#include "tune/space.h"
#include <math.h>

enum { WAIT_MS = 20 };
#define BUDGET_S 30.0

typedef struct tuner {
    kiln__session session;
    const kiln_tune_options *options;
    kiln__space space;
    kiln_status broken; /* the device failed while kernels were gathered; `trouble` says how */
    kiln_report trouble;
} tuner;

/* ---- The arena of the search */

static uint64_t now_ns(void *data)
{
    (void)data;
    return kiln__cpu_now_ns();
}

static kiln__readiness readiness(void *data, size_t variant)
{
    const tuner *self = data;
    return self->session.contest.variants[variant].state;
}

static void gather_kernels(tuner *self, int timeout_ms)
{
    if (self->broken == KILN_OK)
        self->broken = kiln__contest_gather(&self->session.contest, timeout_ms, &self->trouble);
    if (self->broken != KILN_OK)
        atomic_store(&self->session.stop, true);
    kiln__session_tell(&self->session);
}

static void wait_for_more(void *data)
{
    gather_kernels(data, WAIT_MS);
}

static kiln_status take_samples(void *data, const size_t *variants, size_t samples, double *out_ms)
{
    tuner *self = data;
    kiln__session *session = &self->session;
    gather_kernels(self, 0);
    kiln_status status = self->broken;
    for (size_t i = 0; i < samples && status == KILN_OK; i++)
        status = kiln__contest_sample(&session->contest, variants[i], &out_ms[i], session->report);
    session->tuning->info.rounds++;
    session->tuning->info.samples += samples;
    return status;
}

/* Once there are no tapes any more, samples are the host's where they were the device's. */
static uint32_t basis(void *data)
{
    const tuner *self = data;
    return self->session.contest.basis.failed;
}

/* ---- Learning */

/* NULL, or why others should not rely on the outcome. */
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
    if (lesson->end == KILN__TIMED_OUT)
        return "it ended before the fastest was settled: give it a larger budget";
    if (lesson->end != KILN__SETTLED)
        return "the fastest could not be told from others: try again on a quieter machine";
    return NULL;
}

/* Adds the record. *problem: NULL, or why it was not kept. */
static kiln_status add_record(kiln_tuning *tuning, kiln_service *service, const kiln_device *on,
                              const kiln__lesson *lesson, kiln__wisdom_outcome *outcome, const char **problem,
                              kiln_report *report)
{
    kiln__fields spec = *lesson->best;
    kiln__toolchain toolchain = { .id = "" };
    kiln__wisdom_device device;
    kiln__wisdom_measure measure = lesson->measure;
    kiln__text path = { 0 };
    measure.gbps = measure.ms > 0 ? (double)tuning->info.bytes / measure.ms / 1e6 : 0;
    spec.n = tuning->info.elements;
    spec.n_set = true;
    kiln__geometry_device(service, on, &spec.target, lesson->asked, &device);
    if (kiln__toolchains_get(&kiln__service_builder(service, &spec.target)->toolchains, &toolchain, NULL) != KILN_OK)
        toolchain.id[0] = '\0';
    kiln_status status = kiln__wisdom_learn(service->wisdom, &spec, &device, toolchain.id, &measure, outcome, report);
    if (status != KILN_OK)
        return status;
    *problem = !outcome->stored                ? outcome->problem
               : outcome->tally.older_kept > 0 ? "an earlier search that compared more variants is kept"
                                               : NULL;
    if (*problem == NULL) {
        kiln__wisdom_path(service->wisdom, device.model, &path);
        tuning->wisdom = kiln__text_take(&path);
    }
    return KILN_OK;
}

kiln_status kiln__tuning_learn(kiln_tuning *tuning, kiln_service *service, const kiln_device *device,
                               const kiln_tune_options *options, const kiln__lesson *lesson, kiln_report *report)
{
    kiln__wisdom_outcome outcome;
    const char *problem = find_objection(&tuning->info, device, options, lesson);
    kiln_status status =
        problem == NULL ? add_record(tuning, service, device, lesson, &outcome, &problem, report) : KILN_OK;
    if (problem != NULL)
        kiln__text_copy(tuning->not_learnt, sizeof(tuning->not_learnt), problem);
    tuning->info.wisdom = tuning->wisdom != NULL ? tuning->wisdom : "";
    tuning->info.not_learnt = tuning->not_learnt;
    return status;
}

/* ---- The way through */

/* Fills the info, makes the results and adds the winner to wisdom. Variants that were out or not measured were not
 * compared. */
static kiln_status conclude(tuner *self, const kiln__fields *asked, const kiln__search_result *found)
{
    static const char *const ends[] = { [KILN__SETTLED] = "settled",
                                        [KILN__EXHAUSTED] = "exhausted",
                                        [KILN__TIMED_OUT] = "out of time",
                                        [KILN__STOPPED] = "stopped" };
    kiln__session *session = &self->session;
    kiln_tuning_info *info = &session->tuning->info;
    const kiln_variant_result *winner = &found->ranking[0].result;
    kiln__lesson lesson = { .asked = asked,
                            .best = &session->contest.variants[found->ranking[0].variant].spec,
                            .end = found->end,
                            .measure = {
                                .ms = winner->median_ms, .ratio = winner->ratio, .samples = winner->samples } };
    for (size_t i = 0; i < found->count; i++)
        lesson.measure.variants += found->ranking[i].result.samples > 0;
    info->rounds = found->rounds;
    info->samples = found->samples;
    info->default_ms = found->incumbent_ms;
    info->regret = isfinite(found->regret) ? found->regret : -1;
    info->end = ends[found->end];
    kiln_status status = kiln__session_rank(session, found->ranking, found->count);
    return status == KILN_OK ? kiln__tuning_learn(session->tuning, session->service, session->device, self->options,
                                                  &lesson, session->report)
                             : status;
}

static kiln_status search(tuner *self, const kiln__fields *asked)
{
    const kiln_tune_options *options = self->options;
    const kiln__arena arena = { self->space.count, readiness, wait_for_more, take_samples, now_ns, basis, self };
    const double budget_s = options->budget_s > 0 ? options->budget_s : BUDGET_S;
    const kiln__search_options how = { .budget_ns = (uint64_t)(budget_s * 1e9),
                                       .tolerance = options->tolerance,
                                       .stop = &self->session.stop };
    kiln__search_result found;
    kiln_status status = kiln__search(&found, &arena, &how, self->session.report);
    if (self->broken != KILN_OK) {
        status = self->broken;
        kiln__report_move(self->session.report, &self->trouble);
    }
    if (status == KILN_OK)
        status = conclude(self, asked, &found);
    kiln__search_result_fini(&found);
    return status;
}

/* Says which variant was being tried when the device failed. Other failures have nothing to do with a variant. */
static kiln_status blame_suspect(tuner *self, kiln_status status)
{
    kiln_report *report = self->session.report;
    const kiln__variant *suspect = self->session.contest.trying;
    if (suspect == NULL || (status != KILN_EDEVICE && status != KILN_ELAUNCH))
        return status;
    if (self->options->suspect != NULL)
        *self->options->suspect = kiln__strdup(suspect->text);
    if (report != NULL)
        kiln__fail(report, status, report->stage, report->native, "%s; this was being tried: %s", report->message,
                   suspect->text);
    return status;
}

/* Alone on the device. */
static kiln_status compete(tuner *self, const kiln__fields *asked)
{
    kiln__session *session = &self->session;
    const kiln_tune_options *options = self->options;
    const kiln__contest_options how = { .load = &session->load,
                                        .hot = session->work->hot != 0,
                                        .skip = options->skip,
                                        .skip_count = options->skip_count,
                                        .trying = options->trying,
                                        .data = options->data };
    kiln__fields *specs = kiln__calloc(self->space.count, sizeof(*specs));
    if (specs == NULL)
        return kiln__fail_memory(session->report, KILN__STAGE_DEVICE);
    for (size_t i = 0; i < self->space.count; i++)
        kiln__space_spec(&self->space, i, &specs[i]);
    kiln_status status = kiln__contest_init(&session->contest, session->service, session->device, specs,
                                            self->space.count, &how, session->report);
    kiln__free(specs);
    if (status != KILN_OK)
        return status;
    session->tuning->info.verified_by = session->contest.proof.against;
    return search(self, asked);
}

static kiln_status tune(tuner *self, const kiln__fields *spec)
{
    kiln__session *session = &self->session;
    kiln__fields chosen = *spec;
    kiln__target target;
    kiln_status status = kiln__session_open(session, spec);
    if (status == KILN_OK)
        status = kiln__service_target(session->service, &session->device, spec, &target, session->report);
    if (status == KILN_OK)
        status = kiln__service_check_target(session->device, &target, session->report);
    if (status == KILN_OK)
        status = kiln__service_choose_template(session->device, &target, &chosen, session->report);
    if (status == KILN_OK)
        status = kiln__space_make(&self->space, &chosen, &target, session->report);
    if (status == KILN_OK)
        status = kiln__session_prepare(session, &chosen, &self->space.base, self->space.count);
    if (status != KILN_OK)
        return status;
    for (size_t i = 0; i < self->space.reason_count; i++)
        session->tuning->info.impossible += self->space.reasons[i].count;
    if (!kiln__session_take_turn(session))
        return kiln__fail(session->report, KILN_ECANCELED, KILN__STAGE_DEVICE, 0,
                          "cancelled while another tuning was running on %s", session->device->name);
    status = blame_suspect(self, compete(self, &chosen));
    kiln__session_end_turn(session);
    return status;
}

kiln_status kiln__tuning_make(kiln_tuning **out, kiln_service *service, const kiln__fields *spec,
                              const kiln_tune_options *options, kiln_report *report)
{
    tuner self = { .session = { .service = service,
                                .work = options->work,
                                .progress = options->progress,
                                .data = options->data,
                                .report = report },
                   .options = options,
                   .trouble = KILN_INIT(kiln_report) };
    kiln__fields sized = *spec;
    *out = NULL;
    if (options->suspect != NULL)
        *options->suspect = NULL;
    kiln__fields_take_sizes(&sized, options->work->sizes, options->work->size_count);
    kiln_status status = tune(&self, &sized);
    kiln__space_fini(&self.space);
    kiln_report_clear(&self.trouble);
    return kiln__session_close(&self.session, status, out);
}
