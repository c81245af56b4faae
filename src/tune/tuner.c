#include "tune/tuner.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include "tune/contest.h"
#include "tune/learn.h"
#include "tune/progress.h"
#include "tune/turn.h"
#include <math.h>
#include <string.h>

enum { WAIT_MS = 20 };
#define BUDGET_S 30.0

typedef struct tuner {
    kiln_service *service;
    const kiln_tune_options *options;
    kiln_report *report;
    kiln_device *device;
    kiln__space space;
    kiln__load load;
    kiln__contest contest;
    kiln_tuning *tuning;
    kiln__progress progress;
    atomic_bool stop;
    kiln_status broken; /* the device failed while kernels were gathered; `trouble` says how */
    kiln_report trouble;
} tuner;

/* ---- What the search asks for */

static uint64_t now_ns(void *data)
{
    (void)data;
    return kiln__cpu_now_ns();
}

static kiln__readiness readiness(void *data, size_t variant)
{
    static const kiln__readiness known[] = {
        [KILN__VARIANT_WAITING] = KILN__WAITING, [KILN__VARIANT_READY] = KILN__READY, [KILN__VARIANT_OUT] = KILN__OUT
    };
    const tuner *self = data;
    return known[self->contest.variants[variant].state];
}

static void tell(tuner *self)
{
    if (kiln__progress_tell(&self->progress))
        atomic_store(&self->stop, true);
}

static void gather(tuner *self, int timeout_ms)
{
    if (self->broken == KILN_OK)
        self->broken = kiln__contest_gather(&self->contest, timeout_ms, &self->trouble);
    if (self->broken != KILN_OK)
        atomic_store(&self->stop, true);
    tell(self);
}

static void wait_for_more(void *data)
{
    gather(data, WAIT_MS);
}

static kiln_status take_samples(void *data, const size_t *variants, size_t samples, double *out_ms)
{
    tuner *self = data;
    kiln_status status = KILN_OK;
    gather(self, 0);
    if (self->broken != KILN_OK)
        return self->broken;
    for (size_t i = 0; i < samples && status == KILN_OK; i++)
        status = kiln__contest_sample(&self->contest, variants[i], &out_ms[i], self->report);
    self->tuning->info.rounds++;
    self->tuning->info.samples += samples;
    return status;
}

/* Once there are no tapes any more, samples are the host's where they were the device's. */
static uint32_t basis(void *data)
{
    const tuner *self = data;
    return self->contest.pace.failed;
}

/* ---- The result */

static const char *end_name(kiln__search_end end)
{
    static const char *const names[] = { [KILN__SETTLED] = "settled",
                                         [KILN__EXHAUSTED] = "exhausted",
                                         [KILN__TIMED_OUT] = "out of time",
                                         [KILN__STOPPED] = "stopped" };
    return names[end];
}

static kiln_verdict public_verdict(kiln__judgement verdict)
{
    static const kiln_verdict known[] = {
        [KILN__WINNER] = KILN_VERDICT_WINNER,         [KILN__TIED] = KILN_VERDICT_TIED,
        [KILN__GIVEN_UP] = KILN_VERDICT_GIVEN_UP,     [KILN__SLOWER] = KILN_VERDICT_SLOWER,
        [KILN__UNMEASURED] = KILN_VERDICT_UNMEASURED, [KILN__STRUCK_OUT] = KILN_VERDICT_REJECTED
    };
    return known[verdict];
}

/* The incumbent is what samples are compared with, and has none of its own. It is timed in every round. */
static uint64_t samples_of(const kiln__search_result *found, const kiln__ranked *ranked)
{
    return ranked->variant == found->incumbent && found->samples > 0 ? found->rounds_known : ranked->samples;
}

static bool fill_result(kiln_variant_result *out, const kiln__search_result *found, const kiln__ranked *ranked,
                        const kiln__variant *variant)
{
    *out = (kiln_variant_result){ .verdict = public_verdict(ranked->verdict),
                                  .samples = samples_of(found, ranked),
                                  .median_ms = ranked->ratio * found->incumbent_ms,
                                  .ratio = ranked->ratio,
                                  .low = ranked->low,
                                  .high = ranked->high,
                                  .registers = variant->registers,
                                  .local_bytes = variant->local_bytes };
    return kiln__tuning_name(out, variant->text, variant->state == KILN__VARIANT_OUT ? variant->problem : "");
}

static kiln_status fill(tuner *self, const kiln__search_result *found)
{
    kiln_tuning *tuning = self->tuning;
    bool whole = true;
    kiln_status status = kiln__tuning_reserve(tuning, found->count, self->report);
    if (status != KILN_OK)
        return status;
    for (size_t i = 0; i < found->count; i++)
        whole &= fill_result(&tuning->table[i], found, &found->ranking[i],
                             &self->contest.variants[found->ranking[i].variant]);
    kiln__progress_count(&self->progress);
    tuning->info.rounds = found->rounds;
    tuning->info.samples = found->samples;
    tuning->info.default_ms = found->incumbent_ms;
    tuning->info.regret = isfinite(found->regret) ? found->regret : -1;
    tuning->info.end = end_name(found->end);
    kiln__tuning_show(tuning);
    return whole ? KILN_OK : kiln__fail_memory(self->report, KILN__STAGE_DEVICE);
}

/* ---- The way through */

kiln_status kiln__tuning_device(kiln_device **out, kiln_service *service, kiln_device *asked, const kiln__fields *spec,
                                kiln_report *report)
{
    const char *name = spec->target_set ? kiln__target_device(&spec->target) : NULL;
    *out = asked;
    if (asked != NULL)
        return kiln__service_check_device(service, asked, report);
    return kiln__runtime_device(service->runtime, name, out, report);
}

uint64_t kiln__tuning_elements(const kiln_work *work, const kiln__fields *spec, const kiln_device *device)
{
    if (work->elements > 0 || work->size_count > 0 || !kiln__arguments_flat(&spec->template->arguments))
        return work->elements;
    if (spec->n_set && spec->n > 0)
        return spec->n;
    return device->backend->vtable->usual_elements;
}

static kiln_status begin_contest(tuner *self)
{
    kiln__fields *specs = kiln__calloc(self->space.count, sizeof(*specs));
    if (specs == NULL)
        return kiln__fail_memory(self->report, KILN__STAGE_DEVICE);
    for (size_t i = 0; i < self->space.count; i++)
        kiln__space_spec(&self->space, i, &specs[i]);
    const kiln__contest_options options = { .load = &self->load,
                                            .hot = self->options->work->hot != 0,
                                            .skip = self->options->skip,
                                            .skip_count = self->options->skip_count,
                                            .trying = self->options->trying,
                                            .data = self->options->data };
    kiln_status status = kiln__contest_init(&self->contest, self->service, self->device, specs, self->space.count,
                                            &options, self->report);
    kiln__free(specs);
    return status;
}

static void describe(tuner *self)
{
    kiln_tuning *tuning = self->tuning;
    kiln__text_copy(tuning->device, sizeof(tuning->device), self->device->name);
    tuning->info = (kiln_tuning_info){ .size = sizeof(tuning->info),
                                       .device = tuning->device,
                                       .elements = self->load.elements,
                                       .bytes = self->load.bytes,
                                       .variants = self->space.count,
                                       .regret = -1,
                                       .end = "",
                                       .wisdom = "",
                                       .not_learnt = "",
                                       .verified_by = "" };
    self->progress.info = &tuning->info;
    for (size_t i = 0; i < self->space.reason_count; i++)
        tuning->info.impossible += self->space.reasons[i].count;
}

/* What was found, as kiln__tuning_learn wants it: variants that were out or not measured were not compared. */
static kiln_status learn(tuner *self, const kiln__fields *asked, const kiln__search_result *found)
{
    const kiln__ranked *winner = &found->ranking[0];
    kiln__lesson lesson = { .asked = asked,
                            .best = &self->contest.variants[winner->variant].spec,
                            .end = found->end,
                            .measure = { .ms = winner->ratio * found->incumbent_ms,
                                         .ratio = winner->ratio,
                                         .samples = samples_of(found, winner) } };
    for (size_t i = 0; i < found->count; i++)
        lesson.measure.variants += samples_of(found, &found->ranking[i]) > 0;
    return kiln__tuning_learn(self->tuning, self->service, self->device, self->options, &lesson, self->report);
}

static kiln_status search(tuner *self, const kiln__fields *asked)
{
    const kiln_tune_options *options = self->options;
    const kiln__arena arena = { self->space.count, readiness, wait_for_more, take_samples, now_ns, basis, self };
    const kiln__search_options how = { .budget_ns =
                                           (uint64_t)((options->budget_s > 0 ? options->budget_s : BUDGET_S) * 1e9),
                                       .tolerance = options->tolerance,
                                       .stop = &self->stop };
    kiln__search_result found;
    kiln_status status = kiln__search(&found, &arena, &how, self->report);
    if (self->broken != KILN_OK) {
        status = self->broken;
        kiln__report_move(self->report, &self->trouble);
    }
    if (status == KILN_OK)
        status = fill(self, &found);
    if (status == KILN_OK)
        status = learn(self, asked, &found);
    kiln__search_result_fini(&found);
    return status;
}

/* Says which variant was being tried when the device failed. What fails otherwise is no variant's doing. */
static kiln_status blame(tuner *self, kiln_status status)
{
    kiln_report *report = self->report;
    const kiln__variant *suspect = self->contest.trying;
    if (suspect == NULL || (status != KILN_EDEVICE && status != KILN_ELAUNCH))
        return status;
    if (self->options->suspect != NULL)
        *self->options->suspect = kiln__strdup(suspect->text);
    if (report != NULL)
        kiln__fail(report, status, report->stage, report->native, "%s; this was being tried: %s", report->message,
                   suspect->text);
    return status;
}

static bool has_lost_patience(void *data)
{
    tuner *self = data;
    self->progress.start = kiln__cpu_now_ns();
    tell(self);
    return atomic_load(&self->stop);
}

/* Alone on the device. */
static kiln_status compete(tuner *self, const kiln__fields *asked)
{
    kiln_status status = kiln__turn_take(self->device, has_lost_patience, self, self->report);
    if (status != KILN_OK)
        return status;
    self->progress.start = kiln__cpu_now_ns();
    status = begin_contest(self);
    if (status == KILN_OK) {
        self->tuning->info.verified_by = self->contest.proof.against;
        status = search(self, asked);
    }
    status = blame(self, status);
    kiln__contest_fini(&self->contest);
    kiln__turn_end(self->device);
    return status;
}

static kiln_status tune(tuner *self, const kiln__fields *spec)
{
    const kiln_work *work = self->options->work;
    kiln__target target;
    kiln_status status = kiln__tuning_device(&self->device, self->service, work->device, spec, self->report);
    if (status == KILN_OK)
        status = kiln__service_target(self->service, &self->device, spec, &target, self->report);
    if (status == KILN_OK)
        status = kiln__service_check_target(self->device, &target, self->report);
    if (status != KILN_OK)
        return status;
    const kiln__given given = { .elements = kiln__tuning_elements(work, spec, self->device),
                                .sizes = work->sizes,
                                .size_count = work->size_count,
                                .args = work->args,
                                .arg_count = work->arg_count };
    status = kiln__space_make(&self->space, spec, &target, self->report);
    if (status == KILN_OK)
        status = kiln__workload_make(&self->load, &self->space.base, &given, self->report);
    if (status != KILN_OK)
        return status;
    describe(self);
    return compete(self, spec);
}

kiln_status kiln__tuning_make(kiln_tuning **out, kiln_service *service, const kiln__fields *spec,
                              const kiln_tune_options *options, kiln_report *report)
{
    tuner self = { .service = service,
                   .options = options,
                   .report = report,
                   .progress = { .fn = options->progress,
                                 .data = options->data,
                                 .contest = &self.contest,
                                 .start = kiln__cpu_now_ns() },
                   .trouble = KILN_INIT(kiln_report) };
    *out = NULL;
    if (options->suspect != NULL)
        *options->suspect = NULL;
    atomic_init(&self.stop, false);
    self.tuning = kiln__calloc(1, sizeof(*self.tuning));
    kiln_status status = self.tuning != NULL ? tune(&self, spec) : kiln__fail_memory(report, KILN__STAGE_DEVICE);
    kiln__space_fini(&self.space);
    kiln_report_clear(&self.trouble);
    if (status == KILN_OK)
        *out = self.tuning;
    else
        kiln__tuning_free(self.tuning);
    return status;
}
