/* Asynchronous gets: what kiln_get does, on the service's own threads. */
#ifndef KILN_SERVICE_ASYNC_H
#define KILN_SERVICE_ASYNC_H

#include "service/queue.h"

/* The contract is kiln_get_async's; the options are complete. */
kiln_status kiln__service_get_async(kiln_request **out, kiln_queue *queue, const kiln_spec *spec,
                                    const kiln_async_options *options, kiln_async_fn fn, void *data);

/* The same without traces: see kiln__service_get_unlisted. */
kiln_status kiln__service_get_async_unlisted(kiln_request **out, kiln_queue *queue, const kiln_spec *spec,
                                             const kiln_async_options *options, kiln_async_fn fn, void *data);

#endif
