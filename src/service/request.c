#include "service/request.h"

#include "base/alloc.h"
#include "os/cancel.h"
#include "service/async.h"
#include "service/program.h"
#include "service/program_async.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0, "%s", what);
}

kiln_status kiln__request_check(const kiln_request *request, kiln_report *report)
{
    if ((request->spec == NULL) == (request->source == NULL))
        return refuse(report, "a kiln_request has either a spec or a source");
    if (request->goal != KILN_LOAD && request->goal != KILN_BUILD)
        return refuse(report, "kiln_request.goal is KILN_LOAD or KILN_BUILD");
    if (request->strict < KILN_DEFAULT || request->strict > KILN_OFF)
        return refuse(report, "kiln_request.strict is KILN_DEFAULT, KILN_ON or KILN_OFF");
    return KILN_OK;
}

/* ---- On the caller's thread */

static kiln_status get_source(kiln_service *service, const kiln_request *request, kiln_program *program,
                              kiln_report *report)
{
    kiln__program_want want;
    KILN__NO_CANCEL;
    atomic_fetch_add(&service->gets, 1);
    kiln_status status = kiln__program_want_copy(&want, request->source, false, report);
    want.device = request->device;
    want.strict = request->strict == KILN_ON;
    if (status == KILN_OK && request->goal == KILN_BUILD) {
        status = kiln__program_build(service, &want, &program->artifact, report);
    } else if (status == KILN_OK) {
        status = kiln__program_want_settle(service, &want, report);
        if (status == KILN_OK)
            status = kiln__program_make(service, &want, KILN__MISS_NONE, &program->loaded, report);
    }
    kiln__program_want_fini(&want);
    return status;
}

static kiln_status build_spec(kiln_service *service, const kiln_request *request, kiln_program *program,
                              kiln_report *report)
{
    KILN__NO_CANCEL;
    return kiln__service_build(service, request->device, &request->spec->fields, request->strict == KILN_ON,
                               &program->artifact, report);
}

kiln_status kiln__request_get(kiln_program **out, kiln_service *service, const kiln_request *request,
                              kiln_report *report)
{
    kiln_status status = kiln__service_check_device(service, request->device, report);
    if (status != KILN_OK)
        return status;
    kiln_program *program = kiln__handle_new();
    if (program == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (request->source != NULL)
        status = get_source(service, request, program, report);
    else if (request->goal == KILN_BUILD)
        status = build_spec(service, request, program, report);
    else
        status = kiln__service_get(service, request->device, request->spec, request->strict == KILN_ON,
                                   &program->kernel, report);
    if (status == KILN_OK)
        *out = program;
    else
        kiln__handle_free(program);
    return status;
}

/* ---- On a queue */

/* The caller's callback, with the program that it will be given: at the end there is nothing left that could fail. */
typedef struct answer {
    kiln_program *program;
    kiln_done_fn done;
    void *data;
} answer;

static void on_outcome(void *data, kiln__outcome *outcome)
{
    answer self = *(answer *)data;
    kiln__free(data);
    if (outcome->status == KILN_OK) {
        kiln__handle_take(self.program, outcome);
    } else {
        kiln__handle_free(self.program);
        self.program = NULL;
    }
    self.done(self.data, outcome->status, self.program, &outcome->report);
}

kiln_status kiln__request_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_request *request,
                                 const kiln_submit_options *options, kiln_done_fn done, void *data, kiln_report *report)
{
    answer *self = kiln__alloc(sizeof(*self));
    kiln_program *program = kiln__handle_new();
    if (self == NULL || program == NULL) {
        kiln__free(self);
        kiln__handle_free(program);
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    }
    *self = (answer){ program, done, data };
    const kiln__submitting how = { .on = request->device,
                                   .goal = request->goal,
                                   .strict = request->strict == KILN_ON,
                                   .priority = options->priority,
                                   .timeout_ms = options->timeout_ms,
                                   .fn = on_outcome,
                                   .data = self };
    kiln_status status = request->spec != NULL ? kiln__service_submit(ticket, queue, request->spec, &how, report)
                                               : kiln__program_submit(ticket, queue, request->source, &how, report);
    if (status != KILN_OK) {
        kiln__handle_free(program);
        kiln__free(self);
    }
    return status;
}
