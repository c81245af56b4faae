#include "tune/stage.h"

#include "base/alloc.h"

static kiln_status fill(kiln_workload *stage, const kiln__given *given, kiln_report *report)
{
    const kiln__plan *plan = stage->kernel->plan;
    kiln__load load;
    if (plan == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                          "the kernel is a function of a source: its arrays are not known");
    kiln_status status = kiln__service_check_device(stage->service, stage->kernel->device, report);
    if (status == KILN_OK)
        status = kiln__workload_of(&load, plan, given, report);
    if (status == KILN_OK)
        status = kiln__arrays_init(&stage->arrays, stage->kernel->device, &load, true, report);
    if (status == KILN_OK)
        kiln__arrays_args(&stage->arrays, 0, stage->args);
    return status;
}

kiln_status kiln__stage_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel, const kiln__given *given,
                             kiln_report *report)
{
    kiln_workload *stage = kiln__calloc(1, sizeof(*stage));
    *out = NULL;
    if (stage == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    stage->service = service;
    stage->kernel = kiln__kernel_retain(kernel);
    kiln_status status = fill(stage, given, report);
    if (status == KILN_OK)
        *out = stage;
    else
        kiln__stage_free(stage);
    return status;
}

void kiln__stage_free(kiln_workload *stage)
{
    if (stage == NULL)
        return;
    kiln__arrays_fini(&stage->arrays);
    kiln__kernel_release(stage->kernel);
    kiln__free(stage);
}

kiln_status kiln__stage_reset(const kiln_workload *stage, kiln_report *report)
{
    bool whole = true;
    kiln_status status = kiln__arrays_check_guard(&stage->arrays, 0, &whole, report);
    if (status == KILN_OK)
        status = kiln__arrays_poison(&stage->arrays, 0, KILN__FILL_POISON, report);
    if (status == KILN_OK && !whole)
        return kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0, "%s writes behind its output",
                          stage->kernel->spec);
    return status;
}
