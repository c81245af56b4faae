#include "tune/arrays.h"

#include <string.h>

/* Arrays begin at whole pages of a GPU, as an allocator of their own would place them; the guard is at least one page of
 * the host. */
enum { PAGE = 2 << 20, GUARD = 4096, SETS_MAX = 64, CACHES = 3 };

static uint64_t sets_for(const kiln_device *device, uint64_t set_bytes, bool hot)
{
    kiln_device_info info = { .size = sizeof(info) };
    device->backend->vtable->device_info(device, &info);
    uint64_t wanted = hot || set_bytes == 0 ? 1 : CACHES * info.l2_bytes / set_bytes + 1;
    return wanted < SETS_MAX ? wanted : SETS_MAX;
}

static kiln_status fail_room(const kiln__arrays *arrays, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOMEM, KILN__STAGE_DEVICE, 0,
                      "%s has no room for %u arrays of %llu elements: name fewer elements", arrays->device->name,
                      (unsigned)arrays->inputs + 1, (unsigned long long)arrays->n);
}

/* Small sets lie close together: a page for each would be hundreds of megabytes for nothing. */
static uint64_t slot_for(uint64_t bytes)
{
    uint64_t unit = bytes >= PAGE ? PAGE : GUARD;
    return (bytes + GUARD + unit - 1) / unit * unit;
}

static kiln_status fill(const kiln__arrays *arrays, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t set = 0; set < arrays->sets && status == KILN_OK; set++) {
        for (uint32_t i = 0; i < arrays->inputs && status == KILN_OK; i++)
            status = kiln__fill_random(arrays->device, kiln__arrays_in(arrays, set, i), arrays->dtype, arrays->n, i + 1,
                                       report);
        if (status == KILN_OK)
            status = kiln__arrays_poison(arrays, set, report);
    }
    return status;
}

kiln_status kiln__arrays_init(kiln__arrays *out, kiln_device *device, kiln__dtype dtype, uint32_t inputs, uint64_t n,
                              bool hot, kiln_report *report)
{
    uint64_t bytes, set_bytes;
    *out = (kiln__arrays){ .device = device, .dtype = dtype, .inputs = inputs, .n = n };
    if (__builtin_mul_overflow(n, kiln__dtype_bytes(dtype), &bytes) || bytes > INT64_MAX / 8)
        return fail_room(out, report);
    out->slot = slot_for(bytes);
    set_bytes = out->slot * (inputs + 1);
    out->sets = (uint32_t)sets_for(device, bytes * (inputs + 1), hot);
    kiln_status status = device->backend->vtable->alloc(device, &out->memory, (size_t)(set_bytes * out->sets), report);
    if (status != KILN_OK) {
        out->memory = NULL;
        return status == KILN_ENOMEM ? fail_room(out, report) : status;
    }
    return fill(out, report);
}

void kiln__arrays_fini(kiln__arrays *arrays)
{
    if (arrays->memory != NULL)
        arrays->device->backend->vtable->free(arrays->device, arrays->memory);
    memset(arrays, 0, sizeof(*arrays));
}

void *kiln__arrays_in(const kiln__arrays *arrays, uint32_t set, uint32_t input)
{
    return (char *)arrays->memory + arrays->slot * ((uint64_t)set * (arrays->inputs + 1) + input);
}

void *kiln__arrays_out(const kiln__arrays *arrays, uint32_t set)
{
    return kiln__arrays_in(arrays, set, arrays->inputs);
}

static uint64_t out_bytes(const kiln__arrays *arrays)
{
    return arrays->n * kiln__dtype_bytes(arrays->dtype);
}

kiln_status kiln__arrays_poison(const kiln__arrays *arrays, uint32_t set, kiln_report *report)
{
    return kiln__fill_poison(arrays->device, kiln__arrays_out(arrays, set), out_bytes(arrays) + GUARD, report);
}

kiln_status kiln__arrays_check_guard(const kiln__arrays *arrays, uint32_t set, bool *whole, kiln_report *report)
{
    unsigned char guard[GUARD];
    const char *from = (const char *)kiln__arrays_out(arrays, set) + out_bytes(arrays);
    kiln_status status =
        arrays->device->backend->vtable->copy(arrays->device, guard, from, GUARD, KILN_COPY_FROM_DEVICE, NULL, report);
    *whole = status == KILN_OK && guard[0] == KILN__FILL_POISON && memcmp(guard, guard + 1, GUARD - 1) == 0;
    return status;
}
