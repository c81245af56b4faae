#include "service/async.h"

#include "base/alloc.h"
#include "service/service.h"
#include <stddef.h>

/* What the job of a flight needs. */
typedef struct cargo {
    kiln_service *service;
    kiln__want want;
} cargo;

static void free_cargo(void *data)
{
    cargo *self = data;
    kiln__want_fini(&self->want);
    kiln__free(self);
}

/* Hands the submission over with a kernel, whose reference it takes. */
static void deliver_kernel(kiln__submission *submission, kiln_kernel *kernel)
{
    kiln__outcome outcome;
    kiln__outcome_init(&outcome);
    outcome.kernel = kernel;
    kiln__submission_deliver(submission, &outcome);
    kiln__outcome_fini(&outcome);
}

static void run_flight(kiln__job *job, bool stopped)
{
    kiln__flight *flight = (kiln__flight *)((char *)job - offsetof(kiln__flight, job));
    cargo *self = flight->cargo;
    kiln__flights *flights = &self->service->flights;
    kiln__outcome outcome;
    if (stopped) {
        kiln__outcome_cancel(&outcome, KILN__SERVICE_CLOSED);
    } else if (!kiln__flights_begin(flights, flight)) {
        return;
    } else if (job->lane == KILN__LANE_COMPILE) {
        kiln__service_make(self->service, &self->want, &outcome);
    } else if (!kiln__service_take(self->service, &self->want, &outcome)) {
        kiln__outcome_fini(&outcome);
        kiln__flights_requeue(flights, flight);
        return;
    }
    kiln__flights_land(flights, flight, &outcome);
    kiln__outcome_fini(&outcome);
}

/* Takes over the want. */
static kiln__flight *new_flight(kiln_service *service, kiln__want *want)
{
    cargo *self = kiln__alloc(sizeof(*self));
    if (self == NULL) {
        kiln__want_fini(want);
        return NULL;
    }
    *self = (cargo){ service, *want };
    return kiln__flight_new(self->want.key, self, free_cargo, run_flight);
}

bool kiln__service_fly(kiln_service *service, kiln__want *want, kiln__waiter *waiter, int priority)
{
    if (kiln__flights_join(&service->flights, want->key, waiter, priority, NULL)) {
        kiln__want_fini(want);
        return true;
    }
    kiln__flight *flight = new_flight(service, want);
    bool joined = flight != NULL && kiln__flights_join(&service->flights, flight->key, waiter, priority, &flight);
    kiln__flight_free(flight);
    return joined;
}

/* A strict request joins no flight: see docs/architecture.md, "One request". */
static void deliver_strictly(kiln__submission *submission, kiln__want *want)
{
    kiln__outcome outcome;
    want->strict = true;
    kiln__service_make(submission->service, want, &outcome);
    kiln__submission_deliver(submission, &outcome);
    kiln__outcome_fini(&outcome);
    kiln__want_fini(want);
}

/* Finds the kernel, or the flight that will bring it. Does not wait for anything but short locks, once device and compiler
 * are known. Uses up the caller's reference to the submission. */
static void start(kiln__submission *submission)
{
    const kiln__submitting *how = &submission->how;
    kiln_service *service = submission->service;
    kiln_report report = KILN_INIT(kiln_report);
    kiln__want want;
    kiln_status status = kiln__service_want(service, how->on, submission->spec, how->unlisted, &want, &report);
    if (status != KILN_OK) {
        kiln__want_fini(&want);
        kiln__submission_fail(submission, status, &report);
        return;
    }
    kiln_kernel *kernel = kiln__service_loaded(service, &want);
    if (kernel != NULL) {
        deliver_kernel(submission, kernel);
        kiln__want_fini(&want);
    } else if (how->strict) {
        deliver_strictly(submission, &want);
    } else if (!kiln__service_fly(service, &want, &submission->waiter, how->priority)) {
        kiln__submission_fail(submission, KILN_ENOMEM, NULL);
    }
}

static void build(kiln__submission *submission)
{
    const kiln__submitting *how = &submission->how;
    kiln__outcome outcome;
    kiln__outcome_init(&outcome);
    outcome.status = kiln__service_build(submission->service, how->on, &submission->spec->fields, how->strict,
                                         &outcome.artifact, &outcome.report);
    kiln__submission_deliver(submission, &outcome);
    kiln__outcome_fini(&outcome);
}

/* A request that was given up is recorded all the same: it is what the program wants. */
static void drop(kiln__submission *submission)
{
    kiln__want want;
    if (submission->service->record != NULL && !submission->how.unlisted) {
        kiln__service_want(submission->service, submission->how.on, submission->spec, false, &want, NULL);
        kiln__want_fini(&want);
    }
    kiln__submission_release(submission);
}

static void run(kiln__job *job, bool stopped)
{
    kiln__submission *submission = (kiln__submission *)((char *)job - offsetof(kiln__submission, job));
    if (stopped)
        kiln__submission_release(submission);
    else if (atomic_load(&submission->waiter.gone))
        drop(submission);
    else if (submission->how.goal == KILN_BUILD)
        build(submission);
    else
        start(submission);
}

/* Finds the kernel here, where that takes no time, or lets a thread of the service do so. */
static void begin(kiln__submission *submission)
{
    const kiln__submitting *how = &submission->how;
    kiln_service *service = submission->service;
    kiln_report report = KILN_INIT(kiln_report);
    if (kiln__service_check_device(service, how->on, &report) != KILN_OK) {
        kiln__submission_fail(submission, report.status, &report);
        return;
    }
    bool loads = how->goal == KILN_LOAD;
    kiln_kernel *hit = loads ? kiln__service_hit(service, how->on, submission->spec, false) : NULL;
    if (hit != NULL)
        deliver_kernel(submission, hit);
    else if (loads && !how->strict && kiln__service_is_ready(service, how->on, &submission->spec->fields))
        start(submission);
    else if (!kiln__workpool_submit(&service->pool, &submission->job))
        kiln__submission_fail(submission, KILN_ENOMEM, NULL);
}

kiln_status kiln__service_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_spec *spec,
                                 const kiln__submitting *how, kiln_report *report)
{
    kiln__submission *submission;
    kiln_status status = kiln__submission_new(&submission, ticket, queue, how, report);
    if (status != KILN_OK)
        return status;
    if (how->goal == KILN_LOAD)
        atomic_fetch_add(&submission->service->gets, 1);
    submission->spec = kiln__spec_retain(spec);
    submission->job.run = run;
    submission->job.lane = how->goal == KILN_BUILD ? KILN__LANE_COMPILE : KILN__LANE_QUICK;
    begin(submission);
    if (queue->uv != NULL)
        kiln__queue_uv_update(queue);
    return KILN_OK;
}

kiln_status kiln__service_submit_fields(kiln_queue *queue, const kiln__fields *fields, const kiln__submitting *how,
                                        kiln_report *report)
{
    kiln_spec *frozen = kiln__spec_freeze(fields);
    if (frozen == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = kiln__service_submit(NULL, queue, frozen, how, report);
    kiln__spec_release(frozen);
    return status;
}
