#include "service/submit.h"

#include "base/alloc.h"
#include <stddef.h>

/* Delivers a program, whose reference it takes, and uses up the caller's reference to the submission. */
static void deliver_program(kiln__submission *submission, kiln_program *program)
{
    kiln__outcome outcome;
    kiln__outcome_init(&outcome);
    outcome.program = program;
    kiln__submission_deliver(submission, &outcome);
    kiln__outcome_fini(&outcome);
}

static void on_done(kiln__wait *wait, kiln__outcome *outcome)
{
    kiln__submission_deliver((kiln__submission *)((char *)wait - offsetof(kiln__submission, wait)), outcome);
}

/* Finds the program, or the flight that will bring it. Waits for no compile. Uses up the caller's reference. */
static void start(kiln__submission *submission)
{
    kiln_service *service = submission->wait.service;
    kiln__want *want = submission->wait.want;
    kiln_report report = KILN_INIT(kiln_report);
    kiln__outcome outcome;
    kiln_status status = kiln__want_settle(service, want, &report);
    kiln_program *loaded = status == KILN_OK ? kiln__obtain_loaded(service, want) : NULL;
    if (status != KILN_OK) {
        kiln__submission_fail(submission, status, &report);
    } else if (loaded != NULL) {
        deliver_program(submission, loaded);
    } else if (!want->strict && kiln__obtain_join(&submission->wait, submission->how.priority)) {
        return;
    } else if (kiln__obtain_now(service, want, &outcome)) {
        kiln__submission_deliver(submission, &outcome);
        kiln__outcome_fini(&outcome);
    } else if (!kiln__obtain_later(&submission->wait, submission->how.priority)) {
        kiln__submission_fail(submission, KILN_ENOMEM, NULL);
    }
}

/* A request that was given up is recorded too, because the host will want it again. */
static void drop(kiln__submission *submission)
{
    const kiln__want *want = submission->wait.want;
    if (submission->wait.service->record != NULL && want->asked != NULL && !want->unlisted)
        kiln__want_settle(submission->wait.service, submission->wait.want, NULL);
    kiln__submission_release(submission);
}

static void run(kiln__job *job, bool stopped)
{
    kiln__submission *submission = (kiln__submission *)((char *)job - offsetof(kiln__submission, job));
    if (stopped)
        kiln__submission_release(submission);
    else if (atomic_load(&submission->wait.waiter.gone))
        drop(submission);
    else
        start(submission);
}

/* Settles the want on a thread of the service, because that may read files and open a driver. Takes over the want. */
static void begin(kiln__submission *submission, kiln__want *want)
{
    submission->wait.want = want;
    submission->wait.done = on_done;
    submission->job.run = run;
    submission->job.lane = KILN__LANE_QUICK;
    if (!kiln__workpool_submit(&submission->wait.service->pool, &submission->job))
        kiln__submission_fail(submission, KILN_ENOMEM, NULL);
}

/* Submits a spec or, where that is NULL, a source. */
static kiln_status submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_spec *spec, const kiln_source *source,
                          const kiln__submitting *how, kiln_report *report)
{
    kiln__submission *submission;
    kiln__want *want;
    kiln_report problem = KILN_INIT(kiln_report);
    kiln_status status = kiln__submission_new(&submission, ticket, queue, how, report);
    if (status != KILN_OK)
        return status;
    kiln_service *service = submission->wait.service;
    atomic_fetch_add(&service->gets, 1);
    kiln_program *hit =
        spec != NULL && how->terms.goal == KILN_LOAD ? kiln__obtain_hit(service, how->terms.on, spec, false) : NULL;
    if (hit != NULL) {
        deliver_program(submission, hit);
    } else {
        status = spec != NULL ? kiln__want_spec(&want, spec, &how->terms, &problem)
                              : kiln__want_source(&want, source, true, &how->terms, &problem);
        if (status == KILN_OK)
            begin(submission, want);
        else
            kiln__submission_fail(submission, status, &problem);
    }
    if (queue->uv != NULL)
        kiln__queue_uv_update(queue);
    return KILN_OK;
}

kiln_status kiln__submit_fields(kiln_queue *queue, const kiln__fields *fields, const kiln__submitting *how,
                                kiln_report *report)
{
    kiln_spec *frozen = kiln__spec_freeze(fields);
    if (frozen == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = submit(NULL, queue, frozen, NULL, how, report);
    kiln__spec_release(frozen);
    return status;
}

/* The caller's callback. */
typedef struct answer {
    kiln_done_fn done;
    void *data;
} answer;

static void on_outcome(void *data, kiln__outcome *outcome)
{
    const answer self = *(answer *)data;
    kiln_program *program = outcome->program;
    outcome->program = NULL;
    kiln__free(data);
    self.done(self.data, outcome->status, program, &outcome->report);
}

kiln_status kiln__submit_request(kiln_ticket *ticket, kiln_queue *queue, const kiln_request *request,
                                 const kiln_submit_options *options, kiln_done_fn done, void *data, kiln_report *report)
{
    answer *self = kiln__alloc(sizeof(*self));
    if (self == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    *self = (answer){ done, data };
    const kiln__submitting how = {
        .terms = { .on = request->device, .goal = request->goal, .strict = request->strict == KILN_ON },
        .priority = options->priority,
        .timeout_ms = options->timeout_ms,
        .fn = on_outcome,
        .data = self
    };
    kiln_status status = submit(ticket, queue, request->spec, request->source, &how, report);
    if (status != KILN_OK)
        kiln__free(self);
    return status;
}
