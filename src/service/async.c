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

/* Hands the request over with a kernel, whose reference it takes. */
static void deliver_kernel(kiln_request *request, kiln_kernel *kernel)
{
    kiln__outcome outcome;
    kiln__outcome_init(&outcome);
    outcome.kernel = kernel;
    kiln__request_deliver(request, &outcome);
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

/* Finds the kernel, or the flight that will bring it. Does not wait for anything but short locks, once device and compiler
 * are known. Uses up the caller's reference to the request. */
static void start(kiln_request *request)
{
    kiln_service *service = request->service;
    kiln_report report = KILN_INIT(kiln_report);
    kiln__want want;
    kiln_status status = kiln__service_want(service, request->on, request->spec, request->unlisted, &want, &report);
    if (status != KILN_OK) {
        kiln__want_fini(&want);
        kiln__request_fail(request, status, &report);
        return;
    }
    kiln_kernel *kernel = kiln__service_loaded(service, &want);
    if (kernel != NULL) {
        deliver_kernel(request, kernel);
        kiln__want_fini(&want);
        return;
    }
    if (!kiln__service_fly(service, &want, &request->waiter, request->priority))
        kiln__request_fail(request, KILN_ENOMEM, NULL);
}

/* A request that was given up is recorded all the same: it is what the program wants. */
static void drop(kiln_request *request)
{
    kiln__want want;
    if (request->service->record != NULL && !request->unlisted) {
        kiln__service_want(request->service, request->on, request->spec, false, &want, NULL);
        kiln__want_fini(&want);
    }
    kiln__request_release(request);
}

static void run_start(kiln__job *job, bool stopped)
{
    kiln_request *request = (kiln_request *)((char *)job - offsetof(kiln_request, job));
    if (stopped)
        kiln__request_release(request);
    else if (atomic_load(&request->waiter.gone))
        drop(request);
    else
        start(request);
}

/* Finds the kernel here, where that takes no time, or lets a thread of the service do so. */
static void begin(kiln_request *request)
{
    kiln_service *service = request->service;
    kiln_report report = KILN_INIT(kiln_report);
    if (kiln__service_check_device(service, request->on, &report) != KILN_OK) {
        kiln__request_fail(request, report.status, &report);
        return;
    }
    kiln_kernel *hit = kiln__service_hit(service, request->on, request->spec, false);
    if (hit != NULL)
        deliver_kernel(request, hit);
    else if (kiln__service_is_ready(service, request->on, &request->spec->fields))
        start(request);
    else if (!kiln__workpool_submit(&service->pool, &request->job))
        kiln__request_fail(request, KILN_ENOMEM, NULL);
}

static kiln_status ask(kiln_request **out, kiln_queue *queue, const kiln_spec *spec, const kiln_async_options *options,
                       bool unlisted, kiln_async_fn fn, void *data)
{
    kiln_request *request;
    kiln_status status = kiln__request_new(&request, queue, options, &(kiln__callback){ .kernel = fn, .data = data });
    *out = request;
    if (status != KILN_OK)
        return status;
    atomic_fetch_add(&request->service->gets, 1);
    request->spec = kiln__spec_retain(spec);
    request->unlisted = unlisted;
    request->job.run = run_start;
    request->job.lane = KILN__LANE_QUICK;
    request->job.priority = request->priority;
    begin(request);
    if (queue->uv != NULL)
        kiln__queue_uv_update(queue);
    return KILN_OK;
}

kiln_status kiln__service_get_async(kiln_request **out, kiln_queue *queue, const kiln_spec *spec,
                                    const kiln_async_options *options, kiln_async_fn fn, void *data)
{
    return ask(out, queue, spec, options, false, fn, data);
}

kiln_status kiln__service_get_async_unlisted(kiln_request **out, kiln_queue *queue, const kiln__fields *spec,
                                             const kiln_async_options *options, kiln_async_fn fn, void *data)
{
    *out = NULL;
    kiln_spec *frozen = kiln__spec_freeze(spec);
    if (frozen == NULL)
        return KILN_ENOMEM;
    kiln_status status = ask(out, queue, frozen, options, true, fn, data);
    kiln__spec_release(frozen);
    return status;
}
