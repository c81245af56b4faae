#include "tune/arrays.h"

#include <inttypes.h>
#include <string.h>

/* Arrays begin at whole pages of a GPU, as an allocator of their own would place them; the guard is at least one
 * page of the host. */
enum { PAGE = 2 << 20, GUARD = 4096, ALIGNMENT = 256, SETS_MAX = 64, CACHES = 3, MEMORY_PART = 8 };

/* How many sets there should be, and how many there are to be where memory is short. */
typedef struct set_counts {
    uint64_t wanted, least;
} set_counts;

static uint64_t sets_of(uint64_t caches, uint64_t bytes)
{
    uint64_t sets = bytes > 0 ? CACHES * caches / bytes + 1 : 1;
    return sets < SETS_MAX ? sets : SETS_MAX;
}

/* Sets of which all is touched come to little more than three times the caches, or to one; of others only a part of
 * each counts. */
static set_counts count_sets(const kiln__arrays *arrays, uint64_t used)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    arrays->device->backend->vtable->device_info(arrays->device, &info);
    set_counts out = { .wanted = sets_of(info.l2_bytes, kiln__workload_touches(&arrays->load)),
                       .least = sets_of(info.l2_bytes, used) };
    uint64_t room = info.memory_bytes / MEMORY_PART / arrays->set_bytes;
    if (out.wanted > room)
        out.wanted = room > out.least ? room : out.least;
    return out;
}

static kiln_status fail_room(const kiln__arrays *arrays, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOMEM, KILN__STAGE_DEVICE, 0,
                      "%s has no room for %u arrays of up to %" PRIu64 " elements: name %s", arrays->device->name,
                      (unsigned)arrays->load.count, arrays->load.elements,
                      arrays->load.flat ? "fewer elements" : "smaller sizes");
}

/* Small sets lie close together: a page for each would be hundreds of megabytes for nothing. */
static uint64_t slot_for(uint64_t bytes)
{
    uint64_t unit = bytes >= PAGE ? PAGE : GUARD;
    return (bytes + GUARD + unit - 1) / unit * unit;
}

static uint64_t period_of(const kiln__array *array)
{
    return array->elements < KILN__FILL_PERIOD ? array->elements : KILN__FILL_PERIOD;
}

uint64_t kiln__arrays_bytes(const kiln__arrays *arrays, uint32_t array)
{
    return arrays->load.arrays[array].elements * arrays->load.arrays[array].size;
}

/* Places the arrays and their first values; gives the bytes of the values. */
static uint64_t lay_out(kiln__arrays *arrays, uint64_t *used)
{
    uint64_t values = 0;
    *used = 0;
    for (uint32_t i = 0; i < arrays->load.count; i++) {
        const kiln__array *array = &arrays->load.arrays[i];
        arrays->at[i] = arrays->set_bytes;
        arrays->set_bytes += slot_for(kiln__arrays_bytes(arrays, i));
        *used += kiln__arrays_bytes(arrays, i);
        arrays->values_at[i] = values;
        if (array->read)
            values += (period_of(array) * array->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return values;
}

static void *values_of(const kiln__arrays *arrays, uint32_t array)
{
    return (char *)arrays->values + arrays->values_at[array];
}

static kiln_status make_values(const kiln__arrays *arrays, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < arrays->load.count && status == KILN_OK; i++) {
        const kiln__array *array = &arrays->load.arrays[i];
        kiln__dtype dtype = kiln__workload_dtype(array);
        if (!array->read)
            continue;
        status = dtype != KILN__DTYPE_UNSET
                     ? kiln__fill_random(arrays->device, values_of(arrays, i), dtype, period_of(array), i + 1, report)
                     : kiln__fill_whole(arrays->device, values_of(arrays, i), array->size, period_of(array),
                                        arrays->load.least, i + 1, report);
    }
    return status;
}

static kiln_status allocate(const kiln__arrays *arrays, void **out, uint64_t bytes, kiln_report *report)
{
    kiln_status status = arrays->device->backend->vtable->alloc(arrays->device, out, (size_t)bytes, report);
    if (status == KILN_OK)
        return KILN_OK;
    *out = NULL;
    return status == KILN_ENOMEM ? fail_room(arrays, report) : status;
}

static kiln_status allocate_sets(kiln__arrays *out, uint64_t used, bool hot, kiln_report *report)
{
    set_counts sets = { 1, 1 };
    if (!hot)
        sets = count_sets(out, used);
    out->sets = (uint32_t)sets.wanted;
    if (sets.wanted > sets.least && allocate(out, &out->memory, out->set_bytes * out->sets, NULL) == KILN_OK)
        return KILN_OK;
    out->sets = (uint32_t)sets.least;
    return allocate(out, &out->memory, out->set_bytes * out->sets, report);
}

kiln_status kiln__arrays_init(kiln__arrays *out, kiln_device *device, const kiln__load *load, bool hot,
                              kiln_report *report)
{
    uint64_t used, values;
    *out = (kiln__arrays){ .device = device, .load = *load };
    values = lay_out(out, &used);
    kiln_status status =
        out->set_bytes > INT64_MAX / SETS_MAX ? fail_room(out, report) : allocate_sets(out, used, hot, report);
    if (status == KILN_OK && values > 0)
        status = allocate(out, &out->values, values, report);
    if (status == KILN_OK)
        status = make_values(out, report);
    if (status == KILN_OK)
        status = kiln__arrays_restore(out, true, report);
    for (uint32_t set = 0; set < out->sets && status == KILN_OK; set++)
        status = kiln__arrays_poison(out, set, KILN__FILL_POISON, report);
    return status;
}

void kiln__arrays_fini(kiln__arrays *arrays)
{
    if (arrays->memory != NULL)
        arrays->device->backend->vtable->free(arrays->device, arrays->memory);
    if (arrays->values != NULL)
        arrays->device->backend->vtable->free(arrays->device, arrays->values);
    memset(arrays, 0, sizeof(*arrays));
}

void *kiln__arrays_in(const kiln__arrays *arrays, uint32_t set, uint32_t array)
{
    return (char *)arrays->memory + arrays->set_bytes * set + arrays->at[array];
}

/* Queues the copies that restore a set. */
static kiln_status queue_values(const kiln__arrays *arrays, uint32_t set, bool all, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < arrays->load.count && status == KILN_OK; i++) {
        const kiln__array *array = &arrays->load.arrays[i];
        if (array->read && (array->written || all))
            status = kiln__fill_repeat(arrays->device, kiln__arrays_in(arrays, set, i), values_of(arrays, i),
                                       period_of(array) * array->size, kiln__arrays_bytes(arrays, i), report);
    }
    return status;
}

static kiln_status wait_for(const kiln__arrays *arrays, kiln_report *report)
{
    return arrays->device->backend->vtable->sync(arrays->device, report);
}

kiln_status kiln__arrays_restore(const kiln__arrays *arrays, bool all, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t set = 0; set < arrays->sets && status == KILN_OK; set++)
        status = queue_values(arrays, set, all, report);
    return status == KILN_OK ? wait_for(arrays, report) : status;
}

kiln_status kiln__arrays_poison(const kiln__arrays *arrays, uint32_t set, unsigned char poison, kiln_report *report)
{
    kiln_status status = queue_values(arrays, set, false, report);
    if (status == KILN_OK)
        status = wait_for(arrays, report);
    for (uint32_t i = 0; i < arrays->load.count && status == KILN_OK; i++) {
        char *at = kiln__arrays_in(arrays, set, i);
        uint64_t bytes = kiln__arrays_bytes(arrays, i);
        if (!arrays->load.arrays[i].read)
            status = kiln__fill_bytes(arrays->device, at, poison, bytes, report);
        if (status == KILN_OK)
            status = kiln__fill_bytes(arrays->device, at + bytes, KILN__FILL_POISON, GUARD, report);
    }
    return status;
}

kiln_status kiln__arrays_check_guard(const kiln__arrays *arrays, uint32_t set, bool *whole, kiln_report *report)
{
    unsigned char guard[GUARD];
    kiln_status status = KILN_OK;
    *whole = true;
    for (uint32_t i = 0; i < arrays->load.count && status == KILN_OK; i++) {
        const char *from = (const char *)kiln__arrays_in(arrays, set, i) + kiln__arrays_bytes(arrays, i);
        status = arrays->device->backend->vtable->copy(arrays->device, guard, from, GUARD, KILN__COPY_FROM_DEVICE, NULL,
                                                       report);
        *whole =
            *whole && status == KILN_OK && guard[0] == KILN__FILL_POISON && memcmp(guard, guard + 1, GUARD - 1) == 0;
    }
    return status;
}

void kiln__arrays_args(const kiln__arrays *arrays, uint32_t set, kiln_arg given[KILN__ARGS_MAX])
{
    void *places[KILN__ARGS_MAX];
    for (uint32_t i = 0; i < arrays->load.count; i++)
        places[i] = kiln__arrays_in(arrays, set, i);
    kiln__workload_args(&arrays->load, places, given);
}

kiln_status kiln__arrays_launch(const kiln__arrays *arrays, uint32_t set, const kiln_kernel *kernel, void *stream,
                                kiln_report *report)
{
    const kiln__load *load = &arrays->load;
    kiln_arg given[KILN__ARGS_MAX];
    kiln__arrays_args(arrays, set, given);
    return kiln__kernel_launch(kernel, load->sizes, load->size_count, given, load->arg_count, stream, report);
}
