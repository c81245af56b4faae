/* Contests: kernels come from the service, are verified against the reference, and are timed on request. */
#include "tune/contest.h"

#include "base/alloc.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

static void put_out(kiln__variant *variant, kiln_status status, const char *problem)
{
    variant->state = KILN__OUT;
    variant->status = status;
    kiln__text_copy(variant->problem, sizeof(variant->problem), problem);
}

/* On the thread that gathers. Verifying waits until the queue has been emptied: it takes longer. */
static void on_kernel(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln__variant *variant = data;
    variant->contest->waiting--;
    if (status != KILN_OK) {
        put_out(variant, status, report->message);
        return;
    }
    const kiln_kernel *kernel = variant->kernel = program->kernels;
    kernel->vtable->resources(kernel->module, &variant->registers, &variant->local_bytes);
}

static void ask_for(kiln__contest *contest, size_t index)
{
    kiln__variant *variant = &contest->variants[index];
    const kiln_submit_options options = { .priority = INT_MIN }; /* requests of the host come first */
    const kiln_request request = { .spec = kiln__spec_freeze(&variant->spec), .device = contest->device };
    contest->waiting++;
    kiln_status status = request.spec != NULL ? kiln__queue_submit(NULL, contest->queue, &request, true, &options,
                                                                   on_kernel, variant, NULL)
                                              : KILN_ENOMEM;
    kiln__spec_release((kiln_spec *)request.spec);
    if (status == KILN_OK)
        return;
    contest->waiting--;
    put_out(variant, status, kiln_status_text(status));
}

/* Notes the variant whose launches begin; NULL: they have ended well. */
static void set_trying(kiln__contest *contest, const kiln__variant *variant)
{
    contest->trying = variant;
    if (contest->tell != NULL)
        contest->tell(contest->data, variant != NULL ? variant->text : NULL);
}

/* The first variant computes the reference. */
static void watch_reference(void *data, bool begins)
{
    kiln__contest *contest = data;
    set_trying(contest, begins ? &contest->variants[0] : NULL);
}

kiln_status kiln__contest_name(kiln__contest *out, const kiln__fields *specs, size_t count, kiln_report *report)
{
    *out = (kiln__contest){ .count = count, .variants = kiln__calloc(count, sizeof(*out->variants)) };
    if (out->variants == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    for (size_t i = 0; i < count; i++) {
        kiln__variant *variant = &out->variants[i];
        kiln__text text = { 0 };
        kiln__spec_format(&specs[i], false, &text);
        *variant = (kiln__variant){ .contest = out, .spec = specs[i], .registers = -1, .local_bytes = -1 };
        variant->text = kiln__text_take(&text);
        if (variant->text == NULL)
            return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    }
    return KILN_OK;
}

/* The skipped variants are out from the start; the default cannot be. */
static kiln_status skip_variants(kiln__contest *contest, const kiln_skip *skipped, size_t count, kiln_report *report)
{
    for (size_t i = 0; i < contest->count; i++)
        for (size_t k = 0; k < count; k++)
            if (strcmp(contest->variants[i].text, skipped[k].spec) == 0)
                put_out(&contest->variants[i], KILN_ECANCELED, skipped[k].reason);
    const kiln__variant *first = &contest->variants[0];
    if (first->state != KILN__OUT)
        return KILN_OK;
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                      "the default geometry cannot be skipped, for the others are compared with it (%s): %s",
                      first->problem, first->text);
}

kiln_status kiln__contest_init(kiln__contest *out, kiln_service *service, kiln_device *device,
                               const kiln__fields *specs, size_t count, const kiln__contest_options *options,
                               kiln_report *report)
{
    const kiln__watch watch = { watch_reference, out };
    kiln_status status = kiln__contest_name(out, specs, count, report);
    out->service = service;
    out->device = device;
    out->keeps_spilled = options->keeps_spilled;
    out->tell = options->trying;
    out->data = options->data;
    if (status == KILN_OK)
        status = skip_variants(out, options->skip, options->skip_count, report);
    if (status == KILN_OK)
        status = kiln__queue_open(&out->queue, service, report);
    for (size_t i = 0; i < count && status == KILN_OK; i++)
        if (out->variants[i].state == KILN__WAITING)
            ask_for(out, i);
    if (status == KILN_OK)
        status = kiln__arrays_init(&out->arrays, device, options->load, options->hot, report);
    out->basis = (kiln__basis){ .tapes = true, .cycle = out->arrays.sets };
    return status == KILN_OK ? kiln__proof_init(&out->proof, service, &specs[0], &out->arrays, &watch, report) : status;
}

/* Tapes go before the kernels and the arrays that they use. */
void kiln__contest_fini(kiln__contest *contest)
{
    if (contest->queue != NULL)
        kiln__queue_close(contest->queue, NULL, NULL);
    for (size_t i = 0; i < contest->count && contest->variants != NULL; i++)
        kiln__gauge_fini(contest->device, &contest->variants[i].gauge);
    kiln__proof_fini(&contest->proof);
    kiln__arrays_fini(&contest->arrays);
    for (size_t i = 0; i < contest->count && contest->variants != NULL; i++) {
        kiln__kernel_release(contest->variants[i].kernel);
        kiln__free(contest->variants[i].text);
    }
    kiln__free(contest->variants);
    memset(contest, 0, sizeof(*contest));
}

/* A refused launch puts out its variant; a later failure of the device ends the contest. */
static bool is_refusal(kiln_status status)
{
    return status == KILN_ELAUNCH || status == KILN_EALIGN || status == KILN_EINVAL;
}

/* Makes a variant ready, or puts it out with the reason in words. */
static void judge(kiln__contest *contest, kiln__variant *variant, const kiln__verdict *verdict)
{
    char problem[sizeof(variant->problem)];
    const kiln__excess excess = kiln__excess_of(&verdict->tolerance, verdict->bounded);
    if (verdict->wrong == 0 && !verdict->overrun) {
        variant->state = KILN__READY;
        return;
    }
    if (verdict->wrong > 0 && !contest->arrays.load.flat)
        snprintf(problem, sizeof(problem), "%llu elements are wrong%s, the first is %llu of %s",
                 (unsigned long long)verdict->wrong, excess.text, (unsigned long long)verdict->first,
                 verdict->array->name);
    else if (verdict->wrong > 0)
        snprintf(problem, sizeof(problem), "%llu of %llu elements are wrong%s, the first is %llu",
                 (unsigned long long)verdict->wrong, (unsigned long long)contest->arrays.load.elements, excess.text,
                 (unsigned long long)verdict->first);
    else
        snprintf(problem, sizeof(problem), "writes behind the output");
    put_out(variant, KILN_EMISMATCH, problem);
}

static kiln_status verify_variant(kiln__contest *contest, kiln__variant *variant, kiln_report *report)
{
    kiln__verdict verdict;
    kiln_report own = KILN_INIT(kiln_report);
    char problem[sizeof(variant->problem)];
    bool first = variant == contest->variants;
    if (variant->local_bytes > 0 && !first && !contest->keeps_spilled) {
        snprintf(problem, sizeof(problem), "keeps %d bytes of each thread in memory", variant->local_bytes);
        put_out(variant, KILN_ECOMPILE, problem);
        return KILN_OK;
    }
    if (!kiln__load_fits(&contest->arrays.load, variant->kernel->plan, problem, sizeof(problem))) {
        put_out(variant, KILN_EMISMATCH, problem);
        return KILN_OK;
    }
    set_trying(contest, variant);
    kiln_status status = kiln__proof_check(&contest->proof, variant->kernel, &verdict, &own);
    bool refused = is_refusal(status) && !first;
    if (status == KILN_OK || refused)
        set_trying(contest, NULL);
    if (refused) {
        put_out(variant, status, own.message);
        status = KILN_OK;
    } else if (status != KILN_OK) {
        kiln__report_move(report, &own);
    } else {
        judge(contest, variant, &verdict);
        if (variant->state == KILN__OUT) /* a kernel that writes wrong values may write to wrong places, too */
            status = kiln__arrays_restore(&contest->arrays, true, report);
    }
    kiln_report_clear(&own);
    return status;
}

/* A variant whose kernel has come and is not verified, or NULL. */
static kiln__variant *next_unverified(kiln__contest *contest)
{
    for (size_t i = 0; i < contest->count; i++)
        if (contest->variants[i].state == KILN__WAITING && contest->variants[i].kernel != NULL)
            return &contest->variants[i];
    return NULL;
}

kiln_status kiln__contest_gather(kiln__contest *contest, int timeout_ms, kiln_report *report)
{
    if (contest->waiting > 0 && kiln__queue_dispatch(contest->queue) == 0 && timeout_ms != 0 &&
        next_unverified(contest) == NULL)
        kiln__queue_wait(contest->queue, timeout_ms);
    kiln__variant *next = next_unverified(contest);
    return next != NULL ? verify_variant(contest, next, report) : KILN_OK;
}

/* Each submission takes the next set of arrays, so that none finds its own in the caches. */
static kiln_status submit(void *data, void *stream)
{
    kiln__variant *variant = data;
    kiln__contest *contest = variant->contest;
    variant->set = (variant->set + 1) % contest->arrays.sets;
    return kiln__arrays_launch(&contest->arrays, variant->set, variant->kernel, stream, contest->report);
}

void kiln__contest_count(const kiln__contest *contest, kiln_tuning_info *out)
{
    out->waiting = out->verified = out->rejected = 0;
    for (size_t i = 0; i < contest->count; i++) {
        kiln__readiness state = contest->variants[i].state;
        out->waiting += state == KILN__WAITING;
        out->verified += state == KILN__READY;
        out->rejected += state == KILN__OUT;
    }
}

kiln_status kiln__contest_sample(kiln__contest *contest, size_t index, double *ms, kiln_report *report)
{
    kiln__variant *variant = &contest->variants[index], *first = &contest->variants[0];
    const kiln_contender contender = { submit, variant }, default_variant = { submit, first };
    kiln_status status = KILN_OK;
    contest->report = report;
    /* The first of the variants decides on tapes wherever it can: another one may be unlike all others. */
    if (!contest->basis.is_set && first->state == KILN__READY) {
        set_trying(contest, first);
        status = kiln__measure_settle(contest->device, &default_variant, &contest->basis, &first->gauge, report);
        if (status == KILN_OK)
            set_trying(contest, NULL);
    }
    /* No variant gets the values that another one has left. */
    if (status == KILN_OK && contest->arrays.load.changes)
        status = kiln__arrays_restore(&contest->arrays, false, report);
    if (status != KILN_OK)
        return status;
    set_trying(contest, variant);
    status = kiln__measure_sample(contest->device, &contender, &contest->basis, &variant->gauge, ms, report);
    if (status == KILN_OK)
        set_trying(contest, NULL);
    return status;
}
