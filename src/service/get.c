#include "service/service.h"

#include "base/digest.h"
#include "os/cancel.h"
#include "os/cpu.h"
#include "service/geometry.h"
#include "service/obtain.h"
#include <string.h>

/* The name under which a spec asks for its kernel. */
static kiln__name name_of(const kiln_device *on, const kiln_spec *spec, const kiln__geometry_basis *basis)
{
    return (kiln__name){ KILN__NAMED_SPEC, basis->size, basis->generation, on, spec->text, spec->length, spec->hash };
}

static kiln__name name_of_text(kiln__name_kind kind, const kiln_device *device, const char *text)
{
    size_t length = strlen(text);
    return (kiln__name){ kind, 0, 0, device, text, length, kiln__hash(text, length) };
}

kiln_kernel *kiln__service_hit(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool look)
{
    kiln__geometry_basis basis;
    if (!kiln__geometry_basis_of(service, &spec->fields, look, &basis))
        return NULL;
    const kiln__name name = name_of(on, spec, &basis);
    kiln_kernel *kernel = kiln__kernel_table_find(&service->kernels, &name);
    if (kernel != NULL)
        atomic_fetch_add(&service->hits_loaded, 1);
    return kernel;
}

/* Lets kiln__service_hit find a kernel by what was asked for, which has been recorded, unless it was unlisted. Takes the
 * reference and returns one. Out of memory the next get just looks further. */
static kiln_kernel *know(kiln_service *service, const kiln__want *want, kiln_kernel *kernel)
{
    if (want->unlisted || want->unasked)
        return kernel;
    const kiln__name name = name_of(want->asked_on, want->asked, &want->basis);
    kiln__kernel_table_add(&service->kernels, &name, &kernel);
    return kernel;
}

/* Puts a loaded module, which it takes over, among the kernels, if it may be found there. */
static kiln_status keep(kiln_service *service, const kiln__want *want, const kiln__unit *unit, const kiln__built *built,
                        kiln__module *module, kiln__outcome *out)
{
    kiln_kernel *kernel = kiln__kernel_new(service->runtime, want->device, module, unit);
    if (kernel == NULL)
        return kiln__fail_memory(&out->report, KILN__STAGE_LOAD);
    kernel->origin = kiln__built_origin(service, built);
    kernel->compile_ms = built->compiled ? kiln__cpu_ms(built->compile_ns) : 0;
    if (built->log != NULL)
        kiln__report_set_log(&out->report, built->log);
    if (!want->unlisted) {
        const kiln__name name = name_of_text(KILN__NAMED_WHOLE, want->device, want->name);
        kiln__kernel_table_add(&service->kernels, &name, &kernel);
    }
    out->kernel = know(service, want, kernel);
    kiln__kernel_table_trim(&service->kernels);
    return KILN_OK;
}

kiln_kernel *kiln__service_loaded(kiln_service *service, const kiln__want *want)
{
    const kiln__name name = name_of_text(KILN__NAMED_WHOLE, want->device, want->name);
    kiln_kernel *kernel = kiln__kernel_table_find(&service->kernels, &name);
    if (kernel == NULL)
        return NULL;
    atomic_fetch_add(&service->hits_loaded, 1);
    return know(service, want, kernel);
}

/* Makes the unit of what is wanted. True if there is nothing to do with it: the kernel is loaded by now (another thread's
 * flight may have landed since the caller looked), or the unit cannot be made. */
static bool begin(kiln_service *service, const kiln__want *want, kiln__outcome *out, kiln__unit **unit)
{
    kiln__outcome_init(out);
    out->kernel = kiln__service_loaded(service, want);
    if (out->kernel == NULL)
        out->status = kiln__unit_make(unit, &want->spec, &out->report);
    return out->kernel != NULL || out->status != KILN_OK;
}

bool kiln__service_take(kiln_service *service, kiln__want *want, kiln__outcome *out)
{
    kiln__unit *unit = NULL;
    kiln__built built = { 0 };
    kiln__module *module = NULL;
    if (begin(service, want, out, &unit))
        return true;
    bool taken = kiln__obtain_stored(service, want->device, unit, &built, &module);
    if (taken)
        out->status = keep(service, want, unit, &built, module, out);
    want->miss = built.miss;
    kiln__built_fini(&built);
    kiln__unit_free(unit);
    return taken;
}

void kiln__service_make(kiln_service *service, const kiln__want *want, kiln__outcome *out)
{
    kiln__unit *unit = NULL;
    kiln__built built = { 0 };
    kiln__module *module = NULL;
    if (begin(service, want, out, &unit))
        return;
    out->status = kiln__obtain(service, want, unit, &built, &module, &out->report);
    if (out->status == KILN_OK)
        out->status = keep(service, want, unit, &built, module, out);
    kiln__built_fini(&built);
    kiln__unit_free(unit);
}

static kiln_status get_in_flight(kiln_service *service, const kiln__want *want, kiln_kernel **out, kiln_report *report)
{
    bool lead = true;
    kiln__outcome outcome;
    /* What refuses to compile neither waits for a compile nor has others wait for its refusal. */
    kiln__flight *flight = want->strict ? NULL : kiln__flights_enter(&service->flights, want->key, &lead);
    if (lead) {
        kiln__service_make(service, want, &outcome);
        if (flight != NULL)
            kiln__flights_land(&service->flights, flight, &outcome);
    } else {
        kiln__flights_wait(&service->flights, flight, &outcome);
    }
    *out = !lead && outcome.kernel != NULL ? know(service, want, outcome.kernel) : outcome.kernel;
    outcome.kernel = NULL;
    kiln_status status = kiln__outcome_tell(&outcome, report);
    kiln__outcome_fini(&outcome);
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
        "or by kiln_call with n = 0: %s",
        want->key);
}

/* `capture` is NULL, or points to the stream that must not be captured while a kernel is loaded. */
static kiln_status get(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool strict, bool unlisted,
                       void *const *capture, kiln_kernel **out, kiln_report *report)
{
    kiln__want want;
    atomic_fetch_add(&service->gets, 1);
    *out = kiln__service_hit(service, on, spec, true);
    if (*out != NULL)
        return KILN_OK;
    KILN__NO_CANCEL; /* not before: a hit does nothing that can be cancelled */
    kiln_status status = kiln__service_want(service, on, spec, unlisted, &want, report);
    want.strict = strict;
    if (status == KILN_OK)
        *out = kiln__service_loaded(service, &want);
    if (status == KILN_OK && *out == NULL && capture != NULL)
        status = refuse_in_capture(&want, *capture, report);
    if (status == KILN_OK && *out == NULL)
        status = get_in_flight(service, &want, out, report);
    kiln__want_fini(&want);
    return status;
}

kiln_status kiln__service_get(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool strict,
                              kiln_kernel **out, kiln_report *report)
{
    return get(service, on, spec, strict, false, NULL, out, report);
}

kiln_status kiln__service_get_unlisted(kiln_service *service, kiln_device *on, const kiln__fields *spec,
                                       kiln_kernel **out, kiln_report *report)
{
    *out = NULL;
    kiln_spec *frozen = kiln__spec_freeze(spec);
    if (frozen == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = get(service, on, frozen, false, true, NULL, out, report);
    kiln__spec_release(frozen);
    return status;
}

kiln_kernel *kiln__service_called(kiln_service *service, const char *text)
{
    const kiln__name name = name_of_text(KILN__NAMED_TEXT, NULL, text);
    return kiln__kernel_table_find(&service->kernels, &name);
}

kiln_status kiln__service_call(kiln_service *service, const char *text, bool refuse, void *stream, kiln_kernel **out,
                               kiln_report *report)
{
    kiln_spec *spec;
    const kiln__name name = name_of_text(KILN__NAMED_TEXT, NULL, text);
    *out = NULL;
    KILN__NO_CANCEL;
    kiln_status status = kiln__spec_parse(&spec, &service->catalog, text, report);
    if (status == KILN_OK)
        status = get(service, NULL, spec, false, false, refuse ? &stream : NULL, out, report);
    kiln__spec_release(spec);
    if (status == KILN_OK && !kiln__kernel_table_add(&service->kernels, &name, out)) {
        kiln__kernel_release(*out);
        *out = NULL;
        status = kiln__fail_memory(report, KILN__STAGE_LAUNCH);
    }
    return status;
}
