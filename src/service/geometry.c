#include "service/geometry.h"

#include "service/service.h"
#include "wisdom/describe.h"

enum { NO_SIZE = UINT8_MAX };

bool kiln__geometry_basis_of(kiln_service *service, const kiln__fields *spec, bool look, kiln__geometry_basis *out)
{
    *out = (kiln__geometry_basis){ 0, NO_SIZE };
    if (!service->wise || !kiln__wisdom_is_open(spec))
        return true;
    if (spec->n_set && spec->n > 0)
        out->size = (uint8_t)kiln__wisdom_size(spec->n);
    if (!look)
        return kiln__wisdom_peek(service->wisdom, &out->generation);
    out->generation = kiln__wisdom_generation(service->wisdom);
    return true;
}

/* The device that kernels for this target run on, if it is known without a driver. */
static const kiln_device *known_device(kiln_service *service, const kiln__target *target)
{
    kiln_device *found = NULL;
    const char *name = kiln__target_device(target);
    if (name == NULL)
        kiln__runtime_has_device(service->runtime, NULL, &found);
    else if (kiln__runtime_device(service->runtime, name, &found, NULL) != KILN_OK)
        return NULL;
    return found;
}

void kiln__geometry_device(kiln_service *service, const kiln_device *on, const kiln__target *target,
                           const kiln__fields *spec, kiln__wisdom_device *out)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    *out = (kiln__wisdom_device){ .model = "", .target = target->name };
    if (on == NULL)
        on = known_device(service, target);
    if (on == NULL || (spec->target_set && on->target.sm != target->sm))
        return;
    on->backend->vtable->device_info(on, &info);
    out->model = info.model;
    out->multiprocessors = info.multiprocessors;
    out->l2_bytes = info.l2_bytes;
    out->memory_bytes = info.memory_bytes;
}

/* The toolchain is left out: a machine whose store does not know yet which one it has, or that has none, must choose
 * what the machine chose that warmed it. */
kiln_status kiln__geometry_choose(kiln_service *service, const kiln_device *on, const kiln__target *target,
                                  kiln__fields *spec, kiln_report *report)
{
    kiln__wisdom_device device;
    kiln__wisdom_choice choice;
    const kiln__wisdom_query query = { .spec = spec, .device = &device, .toolchain = "" };
    if (!service->wise || !kiln__wisdom_is_open(spec))
        return KILN_OK;
    kiln__geometry_device(service, on, target, spec, &device);
    kiln_status status = kiln__wisdom_match(service->wisdom, &query, &choice, report);
    if (choice.found)
        kiln__wisdom_apply(&choice, spec);
    return status;
}
