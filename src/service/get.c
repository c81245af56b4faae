#include "service/get.h"

#include "base/digest.h"
#include "os/cancel.h"
#include <string.h>

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

/* Gives the caller what an outcome holds. */
static kiln_status hand_over(kiln__outcome *outcome, kiln_program **out, kiln_report *report)
{
    *out = outcome->program;
    outcome->program = NULL;
    kiln_status status = kiln__outcome_tell(outcome, report);
    kiln__outcome_fini(outcome);
    return status;
}

kiln_status kiln__get(kiln_program **out, kiln_service *service, const kiln_request *request, kiln_report *report)
{
    KILN__NO_CANCEL;
    const kiln__terms terms = { .on = request->device, .goal = request->goal, .strict = request->strict == KILN_ON };
    kiln__want *want;
    kiln__outcome outcome;
    if (request->spec != NULL && terms.goal == KILN_LOAD)
        return kiln__get_spec(out, service, request->spec, &terms, NULL, report);
    atomic_fetch_add(&service->gets, 1);
    kiln_status status = request->spec != NULL ? kiln__want_spec(&want, request->spec, &terms, report)
                                               : kiln__want_source(&want, request->source, false, &terms, report);
    if (status == KILN_OK)
        status = kiln__want_settle(service, want, report);
    if (status == KILN_OK) {
        *out = kiln__obtain_loaded(service, want);
        if (*out == NULL) {
            kiln__obtain(service, want, &outcome);
            status = hand_over(&outcome, out, report);
        }
    }
    kiln__want_release(want);
    return status;
}

/* Launches that a kernel must be loaded for do not belong into a graph: see kiln_call. */
static kiln_status refuse_in_capture(const kiln__want *want, void *stream, kiln_report *report)
{
    bool capturing;
    kiln_status status = want->device->backend->vtable->capturing(want->device, stream, &capturing, report);
    if (status != KILN_OK || !capturing)
        return status;
    return kiln__fail(
        report, KILN_ECAPTURE, KILN__STAGE_LAUNCH, 0,
        "a graph is being captured and this kernel is not loaded: load it before the capture, by kiln_get_kernel "
        "or by kiln_call with n = 0: %s %s",
        want->device->name, want->id);
}

kiln_status kiln__get_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, const kiln__terms *terms,
                           void *const *capture, kiln_report *report)
{
    kiln__want *want;
    kiln__outcome outcome;
    atomic_fetch_add(&service->gets, 1);
    *out = kiln__obtain_hit(service, terms->on, spec, true);
    if (*out != NULL)
        return KILN_OK;
    KILN__NO_CANCEL; /* not before: a hit does nothing that can be cancelled */
    kiln_status status = kiln__want_spec(&want, spec, terms, report);
    if (status == KILN_OK)
        status = kiln__want_settle(service, want, report);
    if (status == KILN_OK)
        *out = kiln__obtain_loaded(service, want);
    if (status == KILN_OK && *out == NULL && capture != NULL)
        status = refuse_in_capture(want, *capture, report);
    if (status == KILN_OK && *out == NULL) {
        kiln__obtain(service, want, &outcome);
        status = hand_over(&outcome, out, report);
    }
    kiln__want_release(want);
    return status;
}

kiln_status kiln__get_unlisted(kiln_kernel **out, kiln_service *service, kiln_device *on, const kiln__fields *spec,
                               kiln_report *report)
{
    const kiln__terms terms = { .on = on, .unlisted = true };
    kiln_program *program;
    *out = NULL;
    kiln_spec *frozen = kiln__spec_freeze(spec);
    if (frozen == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = kiln__get_spec(&program, service, frozen, &terms, NULL, report);
    if (status == KILN_OK)
        *out = program->kernels;
    kiln__spec_release(frozen);
    return status;
}

static kiln__name name_of_text(const char *text)
{
    size_t length = strlen(text);
    return (kiln__name){ KILN__NAMED_TEXT, 0, 0, NULL, text, length, kiln__hash(text, length) };
}

kiln_kernel *kiln__get_called(kiln_service *service, const char *text)
{
    const kiln__name name = name_of_text(text);
    const kiln_program *program = kiln__program_table_find(&service->programs, &name);
    return program != NULL ? program->kernels : NULL;
}

kiln_status kiln__get_text(kiln_kernel **out, kiln_service *service, const char *text, bool refuse, void *stream,
                           kiln_report *report)
{
    static const kiln__terms usual;
    kiln_spec *spec;
    kiln_program *program = NULL;
    const kiln__name name = name_of_text(text);
    *out = NULL;
    KILN__NO_CANCEL;
    kiln_status status = kiln__spec_parse(&spec, &service->catalog, text, report);
    if (status == KILN_OK)
        status = kiln__get_spec(&program, service, spec, &usual, refuse ? &stream : NULL, report);
    kiln__spec_release(spec);
    if (status != KILN_OK)
        return status;
    if (!kiln__program_table_add(&service->programs, &name, &program)) {
        kiln__program_release(program);
        return kiln__fail_memory(report, KILN__STAGE_LAUNCH);
    }
    *out = program->kernels;
    return KILN_OK;
}
