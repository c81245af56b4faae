#include "tune/compare.h"

#include "base/alloc.h"
#include "service/get.h"
#include <string.h>

enum { CHUNK_BYTES = 4 << 20 };

static const kiln__difference none = { 0, UINT64_MAX };

static kiln_status get_count(kiln_service *service, kiln_device *on, kiln_kernel **out, kiln__dtype dtype,
                             const kiln__target *target, kiln_report *report)
{
    kiln_spec *spec;
    kiln__text text = { 0 };
    kiln__text_printf(&text, "template=count op=differs(x,y) dtype=%s target=%s", kiln__dtype_name(dtype),
                      target->name);
    kiln_status status = text.failed ? kiln__fail_memory(report, KILN__STAGE_SPEC)
                                     : kiln__spec_parse(&spec, &service->catalog, text.data, report);
    kiln__text_fini(&text);
    if (status != KILN_OK)
        return status;
    status = kiln__get_unlisted(out, service, on, &spec->fields, report);
    kiln__spec_release(spec);
    return status;
}

kiln_status kiln__comparer_init(kiln__comparer *out, kiln_service *service, kiln_device *device,
                                const kiln__target *target, const kiln__load *load, kiln_report *report)
{
    *out = (kiln__comparer){ .device = device };
    kiln_status status = device->backend->vtable->alloc(device, &out->found, sizeof(none), report);
    if (status != KILN_OK)
        out->found = NULL;
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++) {
        kiln__dtype dtype = kiln__workload_dtype(&load->arrays[i]);
        if (load->arrays[i].written && dtype != KILN__DTYPE_UNSET && out->counts[dtype] == NULL)
            status = get_count(service, device, &out->counts[dtype], dtype, target, report);
    }
    return status;
}

void kiln__comparer_fini(kiln__comparer *comparer)
{
    for (int i = 0; i < KILN__DTYPE_END; i++)
        kiln__kernel_release(comparer->counts[i]);
    if (comparer->found != NULL)
        comparer->device->backend->vtable->free(comparer->device, comparer->found);
    memset(comparer, 0, sizeof(*comparer));
}

kiln_status kiln__run_timed(kiln_device *device, kiln__submit submit, void *data, kiln_report *report)
{
    double ms;
    return device->backend->vtable->time(device, submit, data, 1, &ms, report);
}

typedef struct counting {
    kiln_kernel *kernel;
    uint64_t n;
    const kiln_arg *args; /* the counts, and what is compared */
    kiln_report *report;
} counting;

static kiln_status submit(void *data, void *stream)
{
    const counting *self = data;
    return kiln__kernel_launch(self->kernel, &self->n, 1, self->args, 3, stream, self->report);
}

static kiln_status compare_reals(const kiln__comparer *comparer, kiln_kernel *count, const void *got, const void *want,
                                 uint64_t bytes, uint64_t n, kiln__difference *out, kiln_report *report)
{
    kiln_device *device = comparer->device;
    const kiln__backend_vtable *vtable = device->backend->vtable;
    const kiln_arg args[] = { KILN_ARRAY(comparer->found, sizeof(none)), KILN_ARRAY(got, bytes),
                              KILN_ARRAY(want, bytes) };
    counting work = { count, n, args, report };
    kiln_status status = vtable->copy(device, comparer->found, &none, sizeof(none), KILN__COPY_TO_DEVICE, NULL, report);
    if (status == KILN_OK)
        status = kiln__run_timed(device, submit, &work, report);
    if (status == KILN_OK)
        status = vtable->copy(device, out, comparer->found, sizeof(*out), KILN__COPY_FROM_DEVICE, NULL, report);
    return status;
}

static void count_bytes(kiln__difference *out, const char *got, const char *want, uint32_t size, uint64_t start,
                        uint64_t n)
{
    if (memcmp(got, want, n * size) == 0)
        return;
    for (uint64_t i = 0; i < n; i++) {
        if (memcmp(got + i * size, want + i * size, size) == 0)
            continue;
        out->first = out->wrong == 0 ? start + i : out->first;
        out->wrong++;
    }
}

/* The kernel that counts takes some bit patterns of whole numbers for NaN. */
static kiln_status compare_whole(const kiln__comparer *comparer, uint32_t size, const char *got, const char *want,
                                 uint64_t n, kiln__difference *out, kiln_report *report)
{
    kiln_device *device = comparer->device;
    uint64_t step = CHUNK_BYTES / size;
    char *host = kiln__calloc(2, CHUNK_BYTES);
    kiln_status status = KILN_OK;
    *out = none;
    if (host == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    for (uint64_t done = 0; done < n && status == KILN_OK; done += step) {
        uint64_t count = n - done < step ? n - done : step;
        status = device->backend->vtable->copy(device, host, got + done * size, count * size, KILN__COPY_FROM_DEVICE,
                                               NULL, report);
        if (status == KILN_OK)
            status = device->backend->vtable->copy(device, host + CHUNK_BYTES, want + done * size, count * size,
                                                   KILN__COPY_FROM_DEVICE, NULL, report);
        if (status == KILN_OK)
            count_bytes(out, host, host + CHUNK_BYTES, size, done, count);
    }
    kiln__free(host);
    return status;
}

kiln_status kiln__compare(const kiln__comparer *comparer, const kiln__array *type, const void *got, const void *want,
                          uint64_t n, kiln__difference *out, kiln_report *report)
{
    kiln_kernel *count = comparer->counts[kiln__workload_dtype(type)];
    return count != NULL ? compare_reals(comparer, count, got, want, n * type->size, n, out, report)
                         : compare_whole(comparer, type->size, got, want, n, out, report);
}
