/* The public functions: argument checks, then one call down. api_catalog.c has those that list and inspect,
 * base/report.c those of version, statuses and reports. */
#include "api_structs.h"
#include "base/alloc.h"
#include "os/cancel.h"
#include "service/async.h"
#include "service/service.h"
#include "template/expand.h"
#include "tune/measure.h"
#include <string.h>

static kiln_status refuse(kiln_report *report, const char *stage, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, stage, 0, "%s", what);
}

kiln_status kiln_open(kiln_service **out, const kiln_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    return out != NULL ? kiln__service_open(out, options, report)
                       : refuse(report, KILN__STAGE_OPEN, "out must not be NULL");
}

void kiln_close(kiln_service *service)
{
    KILN__NO_CANCEL;
    kiln__service_close(service);
}

kiln_status kiln_stats_get(const kiln_service *service, kiln_stats *out)
{
    kiln_stats full = KILN_STATS_INIT;
    if (service == NULL || out == NULL)
        return KILN_EINVAL;
    kiln__service_stats(service, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_spec_new(kiln_spec **out, kiln_service *service)
{
    if (out == NULL)
        return KILN_EINVAL;
    *out = NULL;
    if (service == NULL)
        return KILN_EINVAL;
    *out = kiln__alloc(sizeof(**out));
    if (*out == NULL)
        return KILN_ENOMEM;
    kiln__spec_init(*out, &service->catalog);
    return KILN_OK;
}

kiln_status kiln_spec_parse(kiln_spec **out, kiln_service *service, const char *text, kiln_report *report)
{
    if (out == NULL)
        return refuse(report, KILN__STAGE_SPEC, "out must not be NULL");
    *out = NULL;
    if (service == NULL || text == NULL)
        return refuse(report, KILN__STAGE_SPEC, "service and text must not be NULL");
    kiln_spec *spec = kiln__alloc(sizeof(*spec));
    if (spec == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = kiln__spec_parse(spec, &service->catalog, text, report);
    if (status == KILN_OK)
        *out = spec;
    else
        kiln__free(spec);
    return status;
}

kiln_status kiln_spec_set(kiln_spec *spec, const char *field, const char *value, kiln_report *report)
{
    if (spec == NULL || field == NULL)
        return refuse(report, KILN__STAGE_SPEC, "spec and field must not be NULL");
    if (value == NULL)
        value = "";
    return kiln__spec_set(spec, field, strlen(field), value, strlen(value), report);
}

/* Copies text out as snprintf does. */
static kiln_status copy_out(kiln__text *text, kiln_status status, char *buffer, size_t size, size_t *length)
{
    if (status == KILN_OK && text->failed)
        status = KILN_ENOMEM;
    if (status == KILN_OK) {
        size_t full = kiln__text_copy(buffer, size, kiln__text_string(text));
        if (length != NULL)
            *length = full;
    }
    kiln__text_fini(text);
    return status;
}

kiln_status kiln_spec_get(const kiln_spec *spec, const char *field, char *buffer, size_t size, size_t *length)
{
    kiln__text text = { 0 };
    if (spec == NULL || field == NULL || (buffer == NULL && size > 0))
        return KILN_EINVAL;
    return copy_out(&text, kiln__spec_value(spec, field, &text), buffer, size, length);
}

kiln_status kiln_spec_format(const kiln_spec *spec, char *buffer, size_t size, size_t *length)
{
    kiln__text text = { 0 };
    if (spec == NULL || (buffer == NULL && size > 0))
        return KILN_EINVAL;
    kiln__spec_format(spec, true, &text);
    return copy_out(&text, KILN_OK, buffer, size, length);
}

uint32_t kiln_spec_inputs(const kiln_spec *spec)
{
    return spec != NULL ? kiln__spec_inputs(spec) : 0;
}

void kiln_spec_free(kiln_spec *spec)
{
    kiln__free(spec);
}

/* "all" is every target of the compiler, "native" the default device's. */
static kiln_status expand_target(void *data, const char *word, kiln__text *out, kiln_report *report)
{
    kiln_service *service = data;
    if (strcmp(word, "native") == 0) {
        kiln_device *device;
        kiln_status status = kiln__runtime_device(service->runtime, NULL, &device, report);
        if (status == KILN_OK)
            kiln__text_append(out, device->target.name);
        return status;
    }
    kiln__toolchain toolchain;
    kiln_status status = kiln__toolchains_get(&service->nvrtc.toolchains, &toolchain, report);
    for (uint32_t i = 0; status == KILN_OK && i < toolchain.target_count; i++)
        kiln__text_printf(out, "%s%s", i > 0 ? "," : "", toolchain.targets[i].name);
    return status;
}

kiln_status kiln_spec_expand(kiln_service *service, const char *line, kiln_spec_fn fn, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (service == NULL || line == NULL || fn == NULL)
        return refuse(report, KILN__STAGE_SPEC, "service, line and fn must not be NULL");
    return kiln__spec_expand(&service->catalog, line, expand_target, service, fn, data, report);
}

const char *kiln_origin_name(kiln_origin origin)
{
    switch (origin) {
    case KILN_ORIGIN_MEMORY:
        return "memory";
    case KILN_ORIGIN_DISK:
        return "disk";
    case KILN_ORIGIN_COMPILED:
        return "compiled";
    case KILN_ORIGIN_PACK:
        return "pack";
    case KILN_ORIGIN_SHARED:
        return "shared";
    }
    return "unknown";
}

kiln_status kiln_get(kiln_kernel **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    return kiln_get_on(out, service, NULL, spec, report);
}

kiln_status kiln_get_on(kiln_kernel **out, kiln_service *service, kiln_device *device, const kiln_spec *spec,
                        kiln_report *report)
{
    if (out == NULL)
        return refuse(report, KILN__STAGE_SPEC, "out must not be NULL");
    *out = NULL;
    if (service == NULL || spec == NULL)
        return refuse(report, KILN__STAGE_SPEC, "service and spec must not be NULL");
    kiln_status status = kiln__service_check_device(service, device, report);
    return status == KILN_OK ? kiln__service_get(service, device, spec, out, report) : status;
}

kiln_kernel *kiln_retain(kiln_kernel *kernel)
{
    return kiln__kernel_retain(kernel);
}

void kiln_release(kiln_kernel *kernel)
{
    kiln__kernel_release(kernel);
}

kiln_status kiln_kernel_get_info(const kiln_kernel *kernel, kiln_kernel_info *out)
{
    if (kernel == NULL || out == NULL)
        return KILN_EINVAL;
    kiln_kernel_info full = {
        .spec = kernel->spec,
        .device = kernel->device->name,
        .origin = kernel->origin,
        .compile_ms = kernel->compile_ms,
        .inputs = kernel->rule.inputs,
        .element_size = kernel->rule.element_size,
        .block = kernel->rule.block,
        .tile = kernel->rule.tile,
        .output_bytes = kernel->rule.output_bytes,
    };
    kernel->vtable->resources(kernel->module, &full.registers, &full.local_bytes);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_launch(kiln_kernel *kernel, uint64_t n, void *out, const void *const *in, void *stream,
                        kiln_report *report)
{
    if (kernel == NULL)
        return refuse(report, KILN__STAGE_LAUNCH, "kernel must not be NULL");
    return kiln__kernel_launch(kernel, n, out, in, stream, report);
}

kiln_status kiln_call(kiln_service *service, kiln_site *site, const char *spec, uint64_t n, void *out,
                      const void *const *in, void *stream, kiln_report *report)
{
    if (service == NULL || site == NULL || spec == NULL)
        return refuse(report, KILN__STAGE_LAUNCH, "service, site and spec must not be NULL");
    const kiln_kernel *kernel = kiln__sites_find(&service->sites, site, spec);
    if (kernel == NULL) {
        kiln_status status = kiln__service_call(service, site, spec, n > 0, stream, &kernel, report);
        if (status != KILN_OK)
            return status;
    }
    return kiln__kernel_launch(kernel, n, out, in, stream, report);
}

kiln_status kiln_queue_open(kiln_queue **out, kiln_service *service, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (out == NULL)
        return refuse(report, KILN__STAGE_OPEN, "out must not be NULL");
    *out = NULL;
    return service != NULL ? kiln__queue_open(out, service, report)
                           : refuse(report, KILN__STAGE_OPEN, "service must not be NULL");
}

kiln_status kiln_queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report)
{
    KILN__NO_CANCEL;
    return queue != NULL && loop != NULL ? kiln__queue_attach_uv(queue, loop, report)
                                         : refuse(report, KILN__STAGE_OPEN, "queue and loop must not be NULL");
}

int kiln_queue_fd(const kiln_queue *queue)
{
    return queue != NULL ? queue->fd : -1;
}

int kiln_queue_dispatch(kiln_queue *queue)
{
    return queue != NULL ? kiln__queue_dispatch(queue) : 0;
}

int kiln_queue_wait(kiln_queue *queue, int timeout_ms)
{
    return queue != NULL ? kiln__queue_wait(queue, timeout_ms) : 0;
}

void kiln_queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data)
{
    KILN__NO_CANCEL;
    if (queue != NULL)
        kiln__queue_close(queue, fn, data);
}

kiln_status kiln_get_async(kiln_request **out, kiln_queue *queue, const kiln_spec *spec,
                           const kiln_async_options *options, kiln_async_fn fn, void *data)
{
    KILN__NO_CANCEL;
    kiln_async_options full = KILN_ASYNC_OPTIONS_INIT;
    kiln_request *request = NULL;
    if (out != NULL)
        *out = NULL;
    if (queue == NULL || spec == NULL || fn == NULL || kiln__take_in(&full, sizeof(full), options) != KILN_OK)
        return KILN_EINVAL;
    return kiln__service_get_async(out != NULL ? out : &request, queue, spec, &full, fn, data);
}

void kiln_cancel(kiln_request *request)
{
    KILN__NO_CANCEL;
    if (request != NULL)
        kiln__request_cancel(request);
}

kiln_status kiln_build(kiln_artifact **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (out == NULL)
        return refuse(report, KILN__STAGE_COMPILE, "out must not be NULL");
    *out = NULL;
    if (service == NULL || spec == NULL)
        return refuse(report, KILN__STAGE_COMPILE, "service and spec must not be NULL");
    return kiln__service_build(service, spec, out, report);
}

kiln_status kiln_probe(kiln_origin *out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln_origin origin = (kiln_origin)0;
    if (out != NULL)
        *out = origin;
    if (service == NULL || spec == NULL)
        return refuse(report, KILN__STAGE_SPEC, "service and spec must not be NULL");
    kiln_status status = kiln__service_probe(service, spec, &origin, report);
    if (status == KILN_OK && out != NULL)
        *out = origin;
    return status;
}

void kiln_artifact_free(kiln_artifact *artifact)
{
    if (artifact == NULL)
        return;
    kiln__blob_release(artifact->blob);
    kiln__free(artifact->spec);
    kiln__free(artifact->shown_log);
    kiln__list_fini(&artifact->functions);
    kiln__list_fini(&artifact->symbols);
    kiln__free(artifact);
}

const char *kiln_artifact_spec(const kiln_artifact *artifact)
{
    return artifact->spec;
}

kiln_origin kiln_artifact_origin(const kiln_artifact *artifact)
{
    return artifact->origin;
}

double kiln_artifact_compile_ms(const kiln_artifact *artifact)
{
    return artifact->compile_ms;
}

kiln_status kiln_artifact_section(const kiln_artifact *artifact, const char *name, const void **data, size_t *length)
{
    if (artifact == NULL || name == NULL || data == NULL || length == NULL)
        return KILN_EINVAL;
    const kiln__entry *entry = &artifact->blob->entry;
    *data = NULL;
    *length = 0;
    if (strcmp(name, "key") == 0) {
        *data = entry->key_text;
        *length = entry->key_text_length;
        return KILN_OK;
    }
    const kiln__section *section = kiln__entry_find(entry, name);
    if (section == NULL)
        return KILN_ENOENT;
    bool shown = artifact->shown_log != NULL && strcmp(name, "log") == 0;
    *data = shown ? artifact->shown_log : section->data;
    *length = shown ? strlen(artifact->shown_log) : section->length;
    return KILN_OK;
}

kiln_status kiln_spec_source(char **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__unit *unit = NULL;
    if (out == NULL)
        return refuse(report, KILN__STAGE_SPEC, "out must not be NULL");
    *out = NULL;
    if (service == NULL || spec == NULL)
        return refuse(report, KILN__STAGE_SPEC, "service and spec must not be NULL");
    kiln_status status = kiln__service_unit(service, spec, &unit, report);
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
    if (out == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "out must not be NULL");
    *out = NULL;
    if (service == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "service must not be NULL");
    return kiln__runtime_device(service->runtime, name, out, report);
}

kiln_status kiln_device_count(int *out, kiln_service *service, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (out == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "out must not be NULL");
    *out = 0;
    if (service == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "service must not be NULL");
    return service->runtime->cuda->vtable->device_count(service->runtime->cuda, out, report);
}

kiln_status kiln_device_get_info(const kiln_device *device, kiln_device_info *out)
{
    kiln_device_info full = { .size = sizeof(full) };
    if (device == NULL || out == NULL)
        return KILN_EINVAL;
    device->backend->vtable->device_info(device, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_alloc(void **out, kiln_device *device, size_t bytes, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (out == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "out must not be NULL");
    *out = NULL;
    if (device == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "device must not be NULL");
    return device->backend->vtable->alloc(device, out, bytes, report);
}

void kiln_free(kiln_device *device, void *memory)
{
    KILN__NO_CANCEL;
    if (device != NULL && memory != NULL)
        device->backend->vtable->free(device, memory);
}

kiln_status kiln_copy(kiln_device *device, void *to, const void *from, size_t bytes, kiln_copy_kind kind, void *stream,
                      kiln_report *report)
{
    KILN__NO_CANCEL;
    if (device == NULL || (bytes > 0 && (to == NULL || from == NULL)))
        return refuse(report, KILN__STAGE_DEVICE, "device, to and from must not be NULL");
    if (kind < KILN_COPY_TO_DEVICE || kind > KILN_COPY_ON_DEVICE)
        return refuse(report, KILN__STAGE_DEVICE, "kind must be one of the three KILN_COPY_ values");
    return bytes > 0 ? device->backend->vtable->copy(device, to, from, bytes, kind, stream, report) : KILN_OK;
}

kiln_status kiln_sync(kiln_device *device, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (device == NULL)
        return refuse(report, KILN__STAGE_DEVICE, "device must not be NULL");
    return device->backend->vtable->sync(device, report);
}

kiln_status kiln_measure(kiln_device *device, const kiln_contender *contenders, size_t count, uint32_t warmup,
                         uint32_t rounds, kiln_timing *out, double *samples, kiln_report *report)
{
    KILN__NO_CANCEL;
    return kiln__measure(device, contenders, count, false, warmup, rounds, out, samples, report);
}
