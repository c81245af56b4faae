/* Requests: the one way from what a caller asks for, a spec or a source, to a program. */
#ifndef KILN_SERVICE_REQUEST_H
#define KILN_SERVICE_REQUEST_H

#include "service/handle.h"
#include "service/queue.h"
#include "service/service.h"

/* KILN_EINVAL unless a complete request asks for one thing, in a way that there is. */
kiln_status kiln__request_check(const kiln_request *request, kiln_report *report);

/* The contracts of these are those of kiln_get and kiln_submit; request, source and options are complete. */
kiln_status kiln__request_get(kiln_program **out, kiln_service *service, const kiln_request *request,
                              kiln_report *report);
kiln_status kiln__request_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_request *request,
                                 const kiln_submit_options *options, kiln_done_fn done, void *data,
                                 kiln_report *report);

#endif
