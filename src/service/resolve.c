#include "service/service.h"

#include "base/alloc.h"
#include <string.h>

/* What to compile for on a device. Asks the compiler once for each GPU, also whether there is one. NULL: out of
 * memory, and it will be asked again. */
static const kiln__target *native_target(kiln_service *service, const kiln_device *device)
{
    if (!kiln__target_facts(&device->target)->numbered)
        return &device->target;
    atomic_bool *known = &service->natives[device->ordinal].known;
    kiln__target *target = &service->natives[device->ordinal].target;
    if (!atomic_load(known)) {
        pthread_mutex_lock(&service->native_lock);
        if (!atomic_load(known))
            atomic_store(known, kiln__builder_choose_target(kiln__service_builder(service, &device->target),
                                                            &device->target, target));
        pthread_mutex_unlock(&service->native_lock);
    }
    return atomic_load(known) ? target : NULL;
}

kiln_status kiln__service_target(kiln_service *service, kiln_device **device, const kiln__fields *spec,
                                 kiln__target *out, kiln_report *report)
{
    kiln_status status = KILN_OK;
    if (!spec->target_set && *device == NULL)
        status = kiln__runtime_device(service->runtime, NULL, device, report);
    if (status != KILN_OK)
        return status;
    const kiln__target *target = spec->target_set ? &spec->target : native_target(service, *device);
    if (target == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    *out = *target;
    return KILN_OK;
}

kiln_status kiln__service_resolve(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__fields *out,
                                  kiln_report *report)
{
    kiln__target target;
    kiln__fields chosen = *spec;
    if (on != NULL && spec->target_set && !kiln__target_same_backend(&spec->target, &on->target))
        on = NULL;
    kiln_status status = kiln__service_target(service, &on, spec, &target, report);
    if (status == KILN_OK)
        status = kiln__geometry_choose(service, on, &target, &chosen, report);
    return status == KILN_OK ? kiln__spec_resolve(out, &chosen, &target, report) : status;
}

kiln_status kiln__service_unit(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__unit **out,
                               kiln_report *report)
{
    kiln__fields full;
    *out = NULL;
    kiln_status status = kiln__service_resolve(service, on, spec, &full, report);
    return status == KILN_OK ? kiln__unit_make(out, &full, report) : status;
}

kiln_status kiln__service_check_device(const kiln_service *service, const kiln_device *on, kiln_report *report)
{
    if (on == NULL || kiln__runtime_owns(service->runtime, on))
        return KILN_OK;
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                      "device %s belongs to another service: open it with kiln_device_open of this one", on->name);
}

kiln_status kiln__service_check_target(const kiln_device *on, const kiln__target *target, kiln_report *report)
{
    if (kiln__target_same_backend(target, &on->target))
        return KILN_OK;
    return kiln__fail(report, KILN_ETARGET, KILN__STAGE_LOAD, 0,
                      "a kernel for %s does not run on %s: leave target open, or name another device", target->name,
                      on->name);
}

/* The device that a kernel for this target runs on: the cpu, or the default device, which must then be a GPU. */
static kiln_status device_for(kiln_service *service, const kiln__target *target, kiln_device **out, kiln_report *report)
{
    kiln_status status = kiln__runtime_device(service->runtime, kiln__target_device(target), out, report);
    if (status != KILN_OK || kiln__target_same_backend(target, &(*out)->target))
        return status;
    return kiln__fail(
        report, KILN_ENODEVICE, KILN__STAGE_LOAD, 0,
        "a kernel for %s needs a GPU and the default device is the cpu: leave target open, use target=cpu, "
        "or choose a GPU as the device",
        target->name);
}

kiln_status kiln__service_find_device(kiln_service *service, kiln_device *on, const kiln__fields *spec,
                                      kiln_device **out, kiln_report *report)
{
    *out = on;
    if (!spec->target_set)
        return on != NULL ? KILN_OK : kiln__runtime_device(service->runtime, NULL, out, report);
    return on != NULL ? kiln__service_check_target(on, &spec->target, report)
                      : device_for(service, &spec->target, out, report);
}

void kiln__service_record(kiln_service *service, const kiln__fields *spec)
{
    if (service->record != NULL)
        kiln__record_add(service->record, spec);
}

bool kiln__service_is_ready(kiln_service *service, kiln_device *on, const kiln__fields *spec)
{
    const char *name = spec->target_set ? kiln__target_device(&spec->target) : NULL;
    kiln__geometry_basis basis;
    if (service->record != NULL || !kiln__geometry_basis_of(service, spec, false, &basis) ||
        (on == NULL && !kiln__runtime_has_device(service->runtime, name, &on)))
        return false;
    return spec->target_set || !kiln__target_facts(&on->target)->numbered ||
           atomic_load(&service->natives[on->ordinal].known);
}
