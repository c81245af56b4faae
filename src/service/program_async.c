#include "service/program_async.h"

#include "base/alloc.h"
#include "service/program.h"
#include <stddef.h>

/* What a job of the pool needs: first to find out what is wanted and to look, then, as the cargo of a flight, to compile. */
typedef struct errand {
    kiln__job job;
    kiln_service *service;
    kiln__submission *submission; /* of the first, NULL in a flight */
    kiln__program_want want;
    kiln__miss miss; /* what the look found wrong with what is stored */
} errand;

static void free_errand(void *data)
{
    errand *self = data;
    kiln__program_want_fini(&self->want);
    kiln__free(self);
}

static void run_flight(kiln__job *job, bool stopped)
{
    kiln__flight *flight = (kiln__flight *)((char *)job - offsetof(kiln__flight, job));
    const errand *self = flight->cargo;
    kiln__flights *flights = &self->service->flights;
    kiln__outcome outcome;
    if (stopped) {
        kiln__outcome_cancel(&outcome, KILN__SERVICE_CLOSED);
    } else if (!kiln__flights_begin(flights, flight)) {
        return;
    } else {
        kiln__outcome_init(&outcome);
        outcome.status = kiln__program_make(self->service, &self->want, self->miss, &outcome.program, &outcome.report);
    }
    kiln__flights_land(flights, flight, &outcome);
    kiln__outcome_fini(&outcome);
}

/* Lets the submission wait for a compile that has not begun, be it of another request or of its own. Uses up the errand. */
static void fly(errand *self)
{
    kiln__submission *submission = self->submission;
    kiln__flights *flights = &self->service->flights;
    kiln__text key = { 0 };
    kiln__text_printf(&key, "program %p %s", (void *)self->want.device, self->want.unit->source.id);
    bool joined =
        !key.failed && kiln__flights_join_later(flights, key.data, &submission->waiter, submission->how.priority, NULL);
    if (joined || key.failed) {
        free_errand(self);
    } else {
        self->submission = NULL;
        kiln__flight *flight = kiln__flight_new(key.data, self, free_errand, run_flight);
        joined = flight != NULL &&
                 kiln__flights_join_later(flights, key.data, &submission->waiter, submission->how.priority, &flight);
        kiln__flight_free(flight);
    }
    kiln__text_fini(&key);
    if (!joined)
        kiln__submission_fail(submission, KILN_ENOMEM, NULL);
}

/* Does it all here: nothing is loaded, or nothing may be compiled. */
static void finish(errand *self, kiln__outcome *outcome)
{
    if (self->submission->how.goal == KILN_BUILD)
        outcome->status = kiln__program_build(self->service, &self->want, &outcome->artifact, &outcome->report);
    else
        outcome->status =
            kiln__program_make(self->service, &self->want, KILN__MISS_NONE, &outcome->program, &outcome->report);
}

/* Finds the program, or the flight that will bring it. */
static void start(errand *self)
{
    kiln__outcome outcome;
    bool builds = self->submission->how.goal == KILN_BUILD;
    kiln__outcome_init(&outcome);
    if (!builds)
        outcome.status = kiln__program_want_settle(self->service, &self->want, &outcome.report);
    if (outcome.status == KILN_OK && (builds || self->want.strict)) {
        finish(self, &outcome);
    } else if (outcome.status == KILN_OK) {
        outcome.program = kiln__program_take(self->service, &self->want, &self->miss);
        if (outcome.program == NULL) {
            fly(self);
            return;
        }
    }
    kiln__submission_deliver(self->submission, &outcome);
    kiln__outcome_fini(&outcome);
    free_errand(self);
}

static void run_start(kiln__job *job, bool stopped)
{
    errand *self = (errand *)((char *)job - offsetof(errand, job));
    if (!stopped && !atomic_load(&self->submission->waiter.gone)) {
        start(self);
        return;
    }
    kiln__submission_release(self->submission);
    free_errand(self);
}

/* Gives the submission to a thread of the pool, for there are files to look at. */
static void begin(kiln__submission *submission, const kiln_source *given)
{
    const kiln__submitting *how = &submission->how;
    kiln_report report = KILN_INIT(kiln_report);
    errand *self = kiln__calloc(1, sizeof(*self));
    if (self == NULL) {
        kiln__submission_fail(submission, KILN_ENOMEM, NULL);
        return;
    }
    kiln__lane lane = how->goal == KILN_BUILD ? KILN__LANE_COMPILE : KILN__LANE_QUICK;
    *self = (errand){ .job = { .run = run_start, .lane = lane, .priority = how->priority },
                      .service = submission->service,
                      .submission = submission };
    kiln_status status = kiln__program_want_copy(&self->want, given, true, &report);
    self->want.device = how->on;
    self->want.strict = how->strict;
    if (status == KILN_OK)
        status = kiln__service_check_device(submission->service, how->on, &report);
    if (status == KILN_OK && kiln__workpool_submit(&submission->service->pool, &self->job))
        return;
    kiln__submission_fail(submission, status != KILN_OK ? status : KILN_ENOMEM, status != KILN_OK ? &report : NULL);
    free_errand(self);
}

kiln_status kiln__program_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_source *given,
                                 const kiln__submitting *how, kiln_report *report)
{
    kiln__submission *submission;
    kiln_status status = kiln__submission_new(&submission, ticket, queue, how, report);
    if (status != KILN_OK)
        return status;
    atomic_fetch_add(&submission->service->gets, 1);
    begin(submission, given);
    if (queue->uv != NULL)
        kiln__queue_uv_update(queue);
    return KILN_OK;
}
