/* Asynchronous gets: what kiln_get does, on the service's own threads. */
#ifndef KILN_SERVICE_ASYNC_H
#define KILN_SERVICE_ASYNC_H

#include "service/queue.h"
#include "service/service.h"

/* The contract is kiln_get_async's; the options are complete. */
kiln_status kiln__service_get_async(kiln_request **out, kiln_queue *queue, const kiln_spec *spec,
                                    const kiln_async_options *options, kiln_async_fn fn, void *data);

/* The same without traces: see kiln__service_get_unlisted. */
kiln_status kiln__service_get_async_unlisted(kiln_request **out, kiln_queue *queue, const kiln__fields *spec,
                                             const kiln_async_options *options, kiln_async_fn fn, void *data);

/* Lets a waiter wait for the kernel of a want, which it takes over: in the flight that is bringing it, else in a new one.
 * False, and the waiter is not called: out of memory, or the service is being closed. */
bool kiln__service_fly(kiln_service *service, kiln__want *want, kiln__waiter *waiter, int priority);

#endif
