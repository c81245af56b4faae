/* Submitted requests for sources: what kiln_get does, on the service's own threads. */
#ifndef KILN_SERVICE_PROGRAM_ASYNC_H
#define KILN_SERVICE_PROGRAM_ASYNC_H

#include "service/queue.h"
#include "service/service.h"

/* The contract is kiln_submit's; the source is complete. */
kiln_status kiln__program_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_source *given,
                                 const kiln__submitting *how, kiln_report *report);

#endif
