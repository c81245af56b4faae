/* Asynchronous gets of programs: what kiln_program_get does, on the service's own threads. */
#ifndef KILN_SERVICE_PROGRAM_ASYNC_H
#define KILN_SERVICE_PROGRAM_ASYNC_H

#include "service/queue.h"
#include "service/service.h"

/* The contract is kiln_program_get_async's; source and options are complete. */
kiln_status kiln__program_get_async(kiln_request **out, kiln_queue *queue, const kiln_source *given,
                                    const kiln_async_options *options, kiln_program_fn fn, void *data);

#endif
