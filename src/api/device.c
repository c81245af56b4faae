/* The public functions of <kiln/device.h>. */
#include "api/structs.h"
#include "base/fpenv.h"
#include "service/service.h"

kiln_status kiln_device_open(kiln_device **out, kiln_service *service, const char *name, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_DEVICE, service, service != NULL, "service must not be NULL");
    return kiln__runtime_device(service->runtime, name, out, report);
}

kiln_status kiln_device_get_info(const kiln_device *device, kiln_device_info *out)
{
    KILN__BEGIN(NULL, KILN__STAGE_DEVICE, device, device != NULL && out != NULL, "");
    kiln_device_info full = KILN_INIT(kiln_device_info);
    device->backend->vtable->device_info(device, &full);
    if (device->backend->vtable->free_memory != NULL)
        full.free_bytes = device->backend->vtable->free_memory((kiln_device *)(uintptr_t)device);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_alloc(void **out, kiln_device *device, size_t bytes, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(out, report, KILN__STAGE_DEVICE, device, device != NULL, "device must not be NULL");
    return device->backend->vtable->alloc(device, out, bytes, report);
}

void kiln_free(kiln_device *device, void *memory)
{
    KILN__NO_CANCEL;
    if (device != NULL && memory != NULL && !kiln__is_forked(device->generation))
        device->backend->vtable->free(device, memory);
}

static kiln_status copy(kiln_device *device, void *to, const void *from, size_t bytes, kiln__copy_kind kind,
                        void *stream, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_DEVICE, device, device != NULL && (bytes == 0 || (to != NULL && from != NULL)),
                "device, to and from must not be NULL");
    return bytes > 0 ? device->backend->vtable->copy(device, to, from, bytes, kind, stream, report) : KILN_OK;
}

kiln_status kiln_upload(kiln_device *device, void *to, const void *from, size_t bytes, kiln_report *report)
{
    return copy(device, to, from, bytes, KILN__COPY_TO_DEVICE, NULL, report);
}

kiln_status kiln_download(kiln_device *device, void *to, const void *from, size_t bytes, kiln_report *report)
{
    return copy(device, to, from, bytes, KILN__COPY_FROM_DEVICE, NULL, report);
}

kiln_status kiln_copy(kiln_device *device, void *to, const void *from, size_t bytes, void *stream, kiln_report *report)
{
    uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;
    kiln__report_begin(report);
    if (bytes > 0 && to != NULL && from != NULL && (a > b ? a - b : b - a) < bytes)
        return kiln__fail(report, KILN_EOVERLAP, KILN__STAGE_DEVICE, 0,
                          "the %zu bytes at %p and those at %p overlap: a copy within the device needs two places",
                          bytes, to, from);
    return copy(device, to, from, bytes, KILN__COPY_ON_DEVICE, stream, report);
}

kiln_status kiln_sync(kiln_device *device, kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN(report, KILN__STAGE_DEVICE, device, device != NULL, "device must not be NULL");
    return device->backend->vtable->sync(device, report);
}

kiln_status kiln_doctor(kiln_service *service, kiln_finding_fn fn, void *data)
{
    KILN__NO_CANCEL;
    kiln__fpenv host;
    KILN__BEGIN(NULL, KILN__STAGE_DEVICE, service, service != NULL && fn != NULL, "");
    kiln__fpenv_enter(&host);
    kiln__doctor(service, fn, data);
    kiln__fpenv_leave(&host);
    return KILN_OK;
}
