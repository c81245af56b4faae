/* Submitted requests: gets that the service's own threads do, and a queue answers. */
#ifndef KILN_SERVICE_SUBMIT_H
#define KILN_SERVICE_SUBMIT_H

#include "service/queue.h"

/* The contract is kiln_submit's; request, source and options are complete. */
kiln_status kiln__submit_request(kiln_ticket *ticket, kiln_queue *queue, const kiln_request *request,
                                 const kiln_submit_options *options, kiln_done_fn done, void *data,
                                 kiln_report *report);

/* Submits a spec that is not frozen. */
kiln_status kiln__submit_fields(kiln_queue *queue, const kiln__fields *fields, const kiln__submitting *how,
                                kiln_report *report);

#endif
