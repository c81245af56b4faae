/* The public functions of requests, programs and queues: argument checks, then one call down. */
#include "api/structs.h"
#include "os/cancel.h"
#include "os/fork.h"
#include "service/get.h"
#include "service/submit.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0, "%s", what);
}

/* Completes a request, and the source that it names from then on. */
static kiln_status take_request(kiln_request *full, kiln_source *source, const kiln_request *request,
                                kiln_report *report)
{
    kiln_status status = kiln__take_in(full, sizeof(*full), request, "kiln_request", KILN__STAGE_COMPILE, report);
    if (status == KILN_OK)
        status = kiln__request_check(full, report);
    if (status == KILN_OK && full->source != NULL) {
        status = kiln__take_in(source, sizeof(*source), full->source, "kiln_source", KILN__STAGE_COMPILE, report);
        full->source = source;
    }
    return status;
}

kiln_status kiln_get(kiln_program **out, kiln_service *service, const kiln_request *request, kiln_report *report)
{
    kiln__report_begin(report);
    kiln_request full = KILN_INIT(kiln_request);
    kiln_source source = KILN_INIT(kiln_source);
    if (out == NULL)
        return refuse(report, "out must not be NULL");
    *out = NULL;
    if (service == NULL || request == NULL)
        return refuse(report, "service and request must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_COMPILE);
    kiln_status status = take_request(&full, &source, request, report);
    return status == KILN_OK ? kiln__get(out, service, &full, report) : status;
}

/* ---- Programs */

void kiln_program_release(kiln_program *program)
{
    KILN__NO_CANCEL;
    if (program != NULL && !kiln__is_forked(program->generation))
        kiln__program_release(program);
}

kiln_status kiln_program_get_info(const kiln_program *program, kiln_program_info *out)
{
    KILN__NO_CANCEL;
    kiln_program_info full = KILN_INIT(kiln_program_info);
    if (program == NULL || out == NULL)
        return KILN_EINVAL;
    if (kiln__is_forked(program->generation))
        return KILN_EFORKED;
    kiln_status status = kiln__program_info(program, &full);
    return status == KILN_OK ? kiln__hand_out(out, &full, sizeof(full)) : status;
}

kiln_status kiln_program_kernel(kiln_kernel **out, kiln_program *program, const char *name, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, "out must not be NULL");
    *out = NULL;
    if (program == NULL)
        return refuse(report, "program must not be NULL");
    if (kiln__is_forked(program->generation))
        return kiln__fail_forked(report, KILN__STAGE_LOAD);
    return kiln__program_kernel(out, program, name, report);
}

kiln_status kiln_program_global(void **out, size_t *bytes, kiln_program *program, const char *name, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    size_t size = 0;
    if (out == NULL)
        return refuse(report, "out must not be NULL");
    *out = NULL;
    if (program == NULL || name == NULL)
        return refuse(report, "program and name must not be NULL");
    if (kiln__is_forked(program->generation))
        return kiln__fail_forked(report, KILN__STAGE_LOAD);
    return kiln__program_global(out, bytes != NULL ? bytes : &size, program, name, report);
}

kiln_status kiln_program_section(const void **out, size_t *length, const kiln_program *program, const char *name)
{
    if (out == NULL || length == NULL || program == NULL || name == NULL)
        return KILN_EINVAL;
    *out = NULL;
    *length = 0;
    return kiln__program_section(out, length, program, name);
}

/* ---- Queues */

static kiln_status refuse_queue(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0, "%s", what);
}

kiln_status kiln_queue_open(kiln_queue **out, kiln_service *service, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (out == NULL)
        return refuse_queue(report, "out must not be NULL");
    *out = NULL;
    if (service == NULL)
        return refuse_queue(report, "service must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_OPEN);
    return kiln__queue_open(out, service, report);
}

kiln_status kiln_queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (queue == NULL || loop == NULL)
        return refuse_queue(report, "queue and loop must not be NULL");
    if (kiln__is_forked(queue->generation))
        return kiln__fail_forked(report, KILN__STAGE_OPEN);
    return kiln__queue_attach_uv(queue, loop, report);
}

int kiln_queue_fd(const kiln_queue *queue)
{
    return queue != NULL && !kiln__is_forked(queue->generation) ? queue->fd : -1;
}

int kiln_queue_wait(kiln_queue *queue, int timeout_ms)
{
    if (queue == NULL || kiln__is_forked(queue->generation))
        return 0;
    return timeout_ms == 0 ? kiln__queue_dispatch(queue) : kiln__queue_wait(queue, timeout_ms);
}

void kiln_queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data)
{
    KILN__NO_CANCEL;
    if (queue != NULL && !kiln__is_forked(queue->generation))
        kiln__queue_close(queue, fn, data);
}

kiln_status kiln_submit(kiln_ticket *out, kiln_queue *queue, const kiln_request *request,
                        const kiln_submit_options *options, kiln_done_fn done, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_request full = KILN_INIT(kiln_request);
    kiln_source source = KILN_INIT(kiln_source);
    kiln_submit_options how = KILN_INIT(kiln_submit_options);
    if (out != NULL)
        *out = 0;
    if (queue == NULL || request == NULL || done == NULL)
        return refuse(report, "queue, request and done must not be NULL");
    if (kiln__is_forked(queue->generation))
        return kiln__fail_forked(report, KILN__STAGE_COMPILE);
    kiln_status status = take_request(&full, &source, request, report);
    if (status == KILN_OK)
        status = kiln__take_in(&how, sizeof(how), options, "kiln_submit_options", KILN__STAGE_COMPILE, report);
    return status == KILN_OK ? kiln__submit_request(out, queue, &full, &how, done, data, report) : status;
}

void kiln_cancel(kiln_queue *queue, kiln_ticket ticket)
{
    KILN__NO_CANCEL;
    if (queue != NULL && !kiln__is_forked(queue->generation))
        kiln__queue_cancel(queue, ticket);
}
