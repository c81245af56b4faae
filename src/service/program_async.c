#include "service/program_async.h"

#include "base/alloc.h"
#include "service/program.h"
#include <stddef.h>

/* What a job of the pool needs: first to find out what is wanted and to look, then, as the cargo of a flight, to compile. */
typedef struct errand {
    kiln__job job;
    kiln_service *service;
    kiln_request *request; /* of the first, NULL in a flight */
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

/* Lets the request wait for a compile that has not begun, be it of another request or of its own. Uses up the errand. */
static void fly(errand *self)
{
    kiln_request *request = self->request;
    kiln__flights *flights = &self->service->flights;
    kiln__text key = { 0 };
    kiln__text_printf(&key, "program %p %s", (void *)self->want.device, self->want.unit->source.id);
    bool joined = !key.failed && kiln__flights_join_later(flights, key.data, &request->waiter, request->priority, NULL);
    if (joined || key.failed) {
        free_errand(self);
    } else {
        self->request = NULL;
        kiln__flight *flight = kiln__flight_new(key.data, self, free_errand, run_flight);
        joined =
            flight != NULL && kiln__flights_join_later(flights, key.data, &request->waiter, request->priority, &flight);
        kiln__flight_free(flight);
    }
    kiln__text_fini(&key);
    if (!joined)
        kiln__request_fail(request, KILN_ENOMEM, NULL);
}

/* Finds the program, or the flight that will bring it. */
static void start(errand *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__outcome outcome;
    kiln_status status = kiln__program_want_settle(self->service, &self->want, &report);
    if (status != KILN_OK) {
        kiln__request_fail(self->request, status, &report);
        free_errand(self);
        return;
    }
    kiln__outcome_init(&outcome);
    outcome.program = kiln__program_take(self->service, &self->want, &self->miss);
    if (outcome.program == NULL) {
        fly(self);
        return;
    }
    kiln__request_deliver(self->request, &outcome);
    kiln__outcome_fini(&outcome);
    free_errand(self);
}

static void run_start(kiln__job *job, bool stopped)
{
    errand *self = (errand *)((char *)job - offsetof(errand, job));
    if (!stopped && !atomic_load(&self->request->waiter.gone)) {
        start(self);
        return;
    }
    kiln__request_release(self->request);
    free_errand(self);
}

/* Gives the request to a thread of the pool, for there are files to look at. */
static void begin(kiln_request *request, const kiln_source *given)
{
    kiln_report report = KILN_INIT(kiln_report);
    errand *self = kiln__calloc(1, sizeof(*self));
    if (self == NULL) {
        kiln__request_fail(request, KILN_ENOMEM, NULL);
        return;
    }
    *self = (errand){ .job = { .run = run_start, .lane = KILN__LANE_QUICK, .priority = request->priority },
                      .service = request->service,
                      .request = request };
    kiln_status status = kiln__program_want_copy(&self->want, given, true, &report);
    self->want.device = request->on;
    if (status == KILN_OK)
        status = kiln__service_check_device(request->service, request->on, &report);
    if (status == KILN_OK && kiln__workpool_submit(&request->service->pool, &self->job))
        return;
    kiln__request_fail(request, status != KILN_OK ? status : KILN_ENOMEM, status != KILN_OK ? &report : NULL);
    free_errand(self);
}

kiln_status kiln__program_get_async(kiln_request **out, kiln_queue *queue, const kiln_source *given,
                                    const kiln_async_options *options, kiln_program_fn fn, void *data)
{
    kiln_request *request;
    kiln_status status = kiln__request_new(&request, queue, options, &(kiln__callback){ .program = fn, .data = data });
    *out = request;
    if (status != KILN_OK)
        return status;
    atomic_fetch_add(&request->service->gets, 1);
    begin(request, given);
    if (queue->uv != NULL)
        kiln__queue_uv_update(queue);
    return KILN_OK;
}
