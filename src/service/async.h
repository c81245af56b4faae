/* Submitted requests for specs: what kiln_get does, on the service's own threads. */
#ifndef KILN_SERVICE_ASYNC_H
#define KILN_SERVICE_ASYNC_H

#include "service/queue.h"
#include "service/service.h"

/* The contract is kiln_submit's. */
kiln_status kiln__service_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_spec *spec,
                                 const kiln__submitting *how, kiln_report *report);

/* The same for a spec that is not frozen. */
kiln_status kiln__service_submit_fields(kiln_queue *queue, const kiln__fields *fields, const kiln__submitting *how,
                                        kiln_report *report);

/* Lets a waiter wait for the kernel of a want, which it takes over: in the flight that is bringing it, else in a new one.
 * False, and the waiter is not called: out of memory, or the service is being closed. */
bool kiln__service_fly(kiln_service *service, kiln__want *want, kiln__waiter *waiter, int priority);

#endif
