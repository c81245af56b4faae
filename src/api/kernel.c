/* The public functions: argument checks, then one call down. api/cache.c has those that list and inspect,
 * base/report.c those of version, statuses and reports. */
#include "api/structs.h"
#include "base/alloc.h"
#include "os/cancel.h"
#include "os/fork.h"
#include "service/get.h"
#include "service/launch.h"
#include "spec/expand.h"
#include "tune/measure.h"
#include <string.h>

static kiln_status refuse(kiln_report *report, const char *stage, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, stage, 0, "%s", what);
}

kiln_status kiln_open(kiln_service **out, const kiln_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_options full = KILN_INIT(kiln_options);
    if (out == NULL)
        return refuse(report, KILN__STAGE_OPEN, "out must not be NULL");
    *out = NULL;
    kiln_status status = kiln__take_in(&full, sizeof(full), options, "kiln_options", KILN__STAGE_OPEN, report);
    return status == KILN_OK ? kiln__service_open(out, &full, report) : status;
}

void kiln_close(kiln_service *service)
{
    KILN__NO_CANCEL;
    if (service != NULL && !kiln__is_forked(service->generation))
        kiln__service_close(service);
}

kiln_status kiln_stats_get(const kiln_service *service, kiln_stats *out)
{
    kiln_stats full = KILN_INIT(kiln_stats);
    if (service == NULL || out == NULL)
        return KILN_EINVAL;
    kiln__service_stats(service, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_spec_parse(kiln_spec **out, kiln_service *service, const char *text, kiln_report *report)
{
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, KILN__STAGE_SPEC, "out must not be NULL");
    *out = NULL;
    if (service == NULL || text == NULL)
        return refuse(report, KILN__STAGE_SPEC, "service and text must not be NULL");
    return kiln__spec_parse(out, &service->catalog, text, report);
}

kiln_status kiln_spec_with(kiln_spec **out, const kiln_spec *spec, const char *fields, kiln_report *report)
{
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, KILN__STAGE_SPEC, "out must not be NULL");
    *out = NULL;
    if (spec == NULL || fields == NULL)
        return refuse(report, KILN__STAGE_SPEC, "spec and fields must not be NULL");
    return kiln__spec_with(out, spec, fields, report);
}

const char *kiln_spec_text(const kiln_spec *spec)
{
    return spec != NULL ? spec->text : "";
}

const char *kiln_spec_field(const kiln_spec *spec, const char *field)
{
    if (spec == NULL || field == NULL)
        return NULL;
    int id = kiln__fields_find(spec->fields.template, (kiln__word){ field, strlen(field) });
    return id >= 0 ? spec->values[id] : NULL;
}

kiln_status kiln_spec_signature(const kiln_signature **out, const kiln_spec *spec, kiln_report *report)
{
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, KILN__STAGE_SPEC, "out must not be NULL");
    *out = NULL;
    if (spec == NULL)
        return refuse(report, KILN__STAGE_SPEC, "spec must not be NULL");
    *out = kiln__spec_signature(spec);
    return *out != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_SPEC);
}

void kiln_spec_free(kiln_spec *spec)
{
    kiln__spec_release(spec);
}

/* "all" is every target of the compiler, "native" the default device's. */
static kiln_status expand_target(void *data, const char *word, kiln__text *out, kiln_report *report)
{
    kiln_service *service = data;
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_SPEC);
    if (strcmp(word, "native") == 0) {
        kiln_device *device;
        kiln_status status = kiln__runtime_device(service->runtime, NULL, &device, report);
        if (status == KILN_OK)
            kiln__text_append(out, device->target.name);
        return status;
    }
    kiln__toolchain toolchain;
    kiln_status status = kiln__toolchains_get(&service->builders[KILN__BACKEND_CUDA].toolchains, &toolchain, report);
    for (uint32_t i = 0; status == KILN_OK && i < toolchain.target_count; i++)
        kiln__text_printf(out, "%s%s", i > 0 ? "," : "", toolchain.targets[i].name);
    return status;
}

kiln_status kiln_spec_expand(kiln_service *service, const char *line, kiln_spec_fn fn, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (service == NULL || line == NULL || fn == NULL)
        return refuse(report, KILN__STAGE_SPEC, "service, line and fn must not be NULL");
    return kiln__spec_expand(&service->catalog, line, expand_target, service, fn, data, report);
}

kiln_status kiln_get_kernel(kiln_kernel **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, KILN__STAGE_SPEC, "out must not be NULL");
    *out = NULL;
    if (service == NULL || spec == NULL)
        return refuse(report, KILN__STAGE_SPEC, "service and spec must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_SPEC);
    static const kiln__terms usual;
    kiln_program *program;
    kiln_status status = kiln__get_spec(&program, service, spec, &usual, NULL, report);
    if (status == KILN_OK)
        *out = program->kernels;
    return status;
}

kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel)
{
    return kiln__kernel_retain(kernel);
}

void kiln_kernel_release(kiln_kernel *kernel)
{
    if (kernel != NULL && !kiln__is_forked(kernel->generation))
        kiln__kernel_release(kernel);
}

kiln_status kiln_kernel_get_info(const kiln_kernel *kernel, kiln_kernel_info *out)
{
    if (kernel == NULL || out == NULL)
        return KILN_EINVAL;
    if (kiln__is_forked(kernel->generation))
        return KILN_EFORKED;
    kiln_kernel_info full = KILN_INIT(kiln_kernel_info);
    kiln__kernel_info(kernel, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_kernel_occupancy(int *out, const kiln_kernel *kernel, uint32_t threads, uint32_t shared_bytes,
                                  kiln_report *report)
{
    kiln__report_begin(report);
    if (out == NULL || kernel == NULL || threads == 0 || threads > INT32_MAX)
        return refuse(report, KILN__STAGE_LAUNCH, "out and kernel must not be NULL and threads must be at least 1");
    *out = -1;
    if (kiln__is_forked(kernel->generation))
        return kiln__fail_forked(report, KILN__STAGE_LAUNCH);
    if (kernel->vtable->functions == NULL)
        return KILN_OK;
    return kernel->vtable->functions->occupancy(kernel->module, kernel->function->number, threads, shared_bytes, out,
                                                report);
}

kiln_status kiln_launch(kiln_kernel *kernel, const kiln_grid *grid, const uint64_t *sizes, size_t size_count,
                        const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report)
{
    kiln_grid full;
    kiln__report_begin(report);
    if (kernel == NULL || (sizes == NULL && size_count > 0) || (args == NULL && arg_count > 0))
        return refuse(report, KILN__STAGE_LAUNCH, "kernel, sizes and args must not be NULL");
    if (kiln__is_forked(kernel->generation))
        return kiln__fail_forked(report, KILN__STAGE_LAUNCH);
    if (kernel->plan != NULL && grid == NULL)
        return kiln__kernel_launch(kernel, sizes, size_count, args, arg_count, stream, report);
    kiln_status status = kiln__take_grid(&full, kernel, grid, size_count, report);
    return status == KILN_OK ? kiln__kernel_launch_grid(kernel, &full, args, arg_count, stream, report) : status;
}

kiln_status kiln_launch_n(kiln_kernel *kernel, uint64_t n, void *const *outs, size_t out_count, const void *const *ins,
                          size_t in_count, void *stream, kiln_report *report)
{
    kiln__report_begin(report);
    if (kernel == NULL)
        return refuse(report, KILN__STAGE_LAUNCH, "kernel must not be NULL");
    if (kiln__is_forked(kernel->generation))
        return kiln__fail_forked(report, KILN__STAGE_LAUNCH);
    return kiln__kernel_launch_n(kernel, n, outs, out_count, ins, in_count, stream, report);
}

kiln_status kiln_call(kiln_service *service, const char *spec, uint64_t n, void *const *outs, size_t out_count,
                      const void *const *ins, size_t in_count, void *stream, kiln_report *report)
{
    kiln__report_begin(report);
    if (service == NULL || spec == NULL)
        return refuse(report, KILN__STAGE_LAUNCH, "service and spec must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_LAUNCH);
    kiln_status status = KILN_OK;
    kiln_kernel *kernel = kiln__get_called(service, spec);
    if (kernel == NULL)
        status = kiln__get_text(&kernel, service, spec, n > 0, stream, report);
    if (status == KILN_OK && n > 0)
        status = kiln__kernel_launch_n(kernel, n, outs, out_count, ins, in_count, stream, report);
    kiln__kernel_release(kernel);
    return status;
}

kiln_status kiln_spec_source(char **out, const kiln_spec *spec, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln__unit *unit = NULL;
    if (out == NULL)
        return refuse(report, KILN__STAGE_SPEC, "out must not be NULL");
    *out = NULL;
    if (spec == NULL)
        return refuse(report, KILN__STAGE_SPEC, "spec must not be NULL");
    if (kiln__is_forked(kiln__service_of(spec)->generation))
        return kiln__fail_forked(report, KILN__STAGE_SPEC);
    kiln_status status = kiln__service_unit(kiln__service_of(spec), NULL, &spec->fields, &unit, report);
    if (status == KILN_OK) {
        *out = unit->source;
        unit->source = NULL;
    }
    kiln__unit_free(unit);
    return status;
}

void kiln_text_free(char *text)
{
    kiln__free(text);
}

kiln_status kiln_device_open(kiln_device **out, kiln_service *service, const char *name, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "out must not be NULL");
    *out = NULL;
    if (service == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "service must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    return kiln__runtime_device(service->runtime, name, out, report);
}

kiln_status kiln_device_get_info(const kiln_device *device, kiln_device_info *out)
{
    kiln_device_info full = KILN_INIT(kiln_device_info);
    if (device == NULL || out == NULL)
        return KILN_EINVAL;
    if (kiln__is_forked(device->generation))
        return KILN_EFORKED;
    device->backend->vtable->device_info(device, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_alloc(void **out, kiln_device *device, size_t bytes, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "out must not be NULL");
    *out = NULL;
    if (device == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "device must not be NULL");
    if (kiln__is_forked(device->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
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
    if (device == NULL || (bytes > 0 && (to == NULL || from == NULL)))
        return refuse(report, KILN__STAGE_DEVICE, "device, to and from must not be NULL");
    if (kiln__is_forked(device->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    return bytes > 0 ? device->backend->vtable->copy(device, to, from, bytes, kind, stream, report) : KILN_OK;
}

kiln_status kiln_upload(kiln_device *device, void *to, const void *from, size_t bytes, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    return copy(device, to, from, bytes, KILN__COPY_TO_DEVICE, NULL, report);
}

kiln_status kiln_download(kiln_device *device, void *to, const void *from, size_t bytes, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    return copy(device, to, from, bytes, KILN__COPY_FROM_DEVICE, NULL, report);
}

kiln_status kiln_copy(kiln_device *device, void *to, const void *from, size_t bytes, void *stream, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;
    if (bytes > 0 && to != NULL && from != NULL && (a > b ? a - b : b - a) < bytes)
        return kiln__fail(report, KILN_EOVERLAP, KILN__STAGE_DEVICE, 0,
                          "the %zu bytes at %p and those at %p overlap: a copy within the device needs two places",
                          bytes, to, from);
    return copy(device, to, from, bytes, KILN__COPY_ON_DEVICE, stream, report);
}

kiln_status kiln_sync(kiln_device *device, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (device == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "device must not be NULL");
    if (kiln__is_forked(device->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    return device->backend->vtable->sync(device, report);
}
