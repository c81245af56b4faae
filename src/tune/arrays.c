/* Values in a device's memory, the sets of arrays that kernels are measured on, and the workloads of hosts. */
#include "tune/arrays.h"

#include "base/alloc.h"
#include <inttypes.h>
#include <string.h>

enum {
    POISON_BYTES = 1 << 20,
    SMALLEST = -6, /* the exponent of the least magnitude */
    OCTAVES = 9,
    PAGE = 2 << 20, /* of a GPU: arrays begin at whole ones, as a separate allocation of each would place them */
    GUARD = 4096,   /* behind an array: at least one page of the host */
    ALIGNMENT = 256,
    SETS_MAX = 64,
    CACHES = 3,
    MEMORY_PART = 8
};

/* ---- Values */

/* xoshiro256++ by Blackman and Vigna. */
static uint64_t next_random(uint64_t state[4])
{
    uint64_t sum = state[0] + state[3];
    uint64_t result = (sum << 23 | sum >> 41) + state[0];
    uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = state[3] << 45 | state[3] >> 19;
    return result;
}

/* splitmix64 by Vigna: the seeds of neighbours must not look alike. */
static void seed_state(uint64_t state[4], uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        state[i] = z ^ z >> 31;
    }
}

/* A random element, as bits. It is put together from parts and not rounded from another type, so that it is the same on
 * every machine. A whole number is less than `below` and not negative at its size. */
static uint64_t random_bits(kiln__dtype dtype, uint32_t size, uint64_t below, uint64_t state[4])
{
    static const struct {
        unsigned bits, mantissa, bias;
    } layouts[KILN__DTYPE_END] = { [KILN__DTYPE_F32] = { 32, 23, 127 },
                                   [KILN__DTYPE_F64] = { 64, 52, 1023 },
                                   [KILN__DTYPE_F16] = { 16, 10, 15 },
                                   [KILN__DTYPE_BF16] = { 16, 7, 127 } };
    if (dtype == KILN__DTYPE_UNSET) {
        uint64_t most = UINT64_C(1) << (8 * size - 1);
        return next_random(state) % (below == 0 ? 1 : below < most ? below : most);
    }
    uint64_t sign = next_random(state) >> 63;
    uint64_t exponent = (uint64_t)((int)layouts[dtype].bias + SMALLEST) + next_random(state) % OCTAVES;
    return sign << (layouts[dtype].bits - 1) | exponent << layouts[dtype].mantissa |
           next_random(state) >> (64 - layouts[dtype].mantissa);
}

/* Repeats the first `have` of `bytes` bytes by copies on the device, which it does not wait for. */
static kiln_status queue_repeats(kiln_device *device, char *to, uint64_t have, uint64_t bytes, kiln_report *report)
{
    const kiln__backend_vtable *vtable = device->backend->vtable;
    kiln_status status = KILN_OK;
    while (have < bytes && status == KILN_OK) {
        uint64_t part = bytes - have < have ? bytes - have : have;
        status = vtable->copy(device, to + have, to, part, KILN__COPY_ON_DEVICE, NULL, report);
        have += part;
    }
    return status;
}

/* Copies `have` bytes from the host and repeats them until `bytes` are filled. `from` is NULL where memory ran out. */
static kiln_status spread_bytes(kiln_device *device, void *to, const void *from, uint64_t have, uint64_t bytes,
                                kiln_report *report)
{
    if (from == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    kiln_status status = device->backend->vtable->copy(device, to, from, have, KILN__COPY_TO_DEVICE, NULL, report);
    if (status == KILN_OK)
        status = queue_repeats(device, to, have, bytes, report);
    return status == KILN_OK ? device->backend->vtable->sync(device, report) : status;
}

/* Random values of a dtype, or (KILN__DTYPE_UNSET) whole numbers of `size` bytes. */
static kiln_status fill_values(kiln_device *device, void *to, kiln__dtype dtype, uint32_t size, uint64_t below,
                               uint64_t n, uint64_t seed, kiln_report *report)
{
    uint64_t state[4], count = n < KILN__FILL_PERIOD ? n : KILN__FILL_PERIOD;
    if (n == 0)
        return KILN_OK;
    char *values = kiln__calloc(count, size);
    seed_state(state, seed);
    for (size_t i = 0; i < count && values != NULL; i++) {
        uint64_t bits = random_bits(dtype, size, below, state);
        memcpy(values + i * size, &bits, size); /* little endian, as every machine with such a GPU */
    }
    kiln_status status = spread_bytes(device, to, values, count * size, n * size, report);
    kiln__free(values);
    return status;
}

kiln_status kiln__fill_random(kiln_device *device, void *to, kiln__dtype dtype, uint64_t n, uint64_t seed,
                              kiln_report *report)
{
    return fill_values(device, to, dtype, (uint32_t)kiln__dtype_bytes(dtype), 0, n, seed, report);
}

kiln_status kiln__fill_bytes(kiln_device *device, void *to, unsigned char byte, uint64_t bytes, kiln_report *report)
{
    uint64_t first = bytes < POISON_BYTES ? bytes : POISON_BYTES;
    if (bytes == 0)
        return KILN_OK;
    void *block = kiln__calloc(1, first);
    if (block != NULL)
        memset(block, byte, first);
    kiln_status status = spread_bytes(device, to, block, first, bytes, report);
    kiln__free(block);
    return status;
}

/* ---- Sets of arrays */

/* The number of sets that outgrow the caches. */
static uint64_t sets_of(uint64_t caches, uint64_t bytes)
{
    uint64_t sets = bytes > 0 ? CACHES * caches / bytes + 1 : 1;
    return sets < SETS_MAX ? sets : SETS_MAX;
}

static kiln_status fail_room(const kiln__arrays *arrays, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOMEM, KILN__STAGE_DEVICE, 0,
                      "%s has no room for %u arrays of up to %" PRIu64 " elements: name %s", arrays->device->name,
                      (unsigned)arrays->load.count, arrays->load.elements,
                      arrays->load.flat ? "fewer elements" : "smaller sizes");
}

static uint64_t period_of(const kiln__array *array)
{
    return array->elements < KILN__FILL_PERIOD ? array->elements : KILN__FILL_PERIOD;
}

uint64_t kiln__arrays_bytes(const kiln__arrays *arrays, uint32_t array)
{
    return arrays->load.arrays[array].elements * arrays->load.arrays[array].size;
}

/* Places the arrays and their first values; gives the bytes of the values. Small sets lie close together: a page of a
 * GPU for each array would be hundreds of megabytes for nothing. */
static uint64_t lay_out(kiln__arrays *arrays, uint64_t *used)
{
    uint64_t values = 0;
    *used = 0;
    for (uint32_t i = 0; i < arrays->load.count; i++) {
        const kiln__array *array = &arrays->load.arrays[i];
        uint64_t bytes = kiln__arrays_bytes(arrays, i), unit = bytes >= PAGE ? PAGE : GUARD;
        arrays->at[i] = arrays->set_bytes;
        arrays->set_bytes += (bytes + GUARD + unit - 1) / unit * unit;
        *used += bytes;
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

static kiln_status allocate(const kiln__arrays *arrays, void **out, uint64_t bytes, kiln_report *report)
{
    kiln_status status = arrays->device->backend->vtable->alloc(arrays->device, out, (size_t)bytes, report);
    if (status == KILN_OK)
        return KILN_OK;
    *out = NULL;
    return status == KILN_ENOMEM ? fail_room(arrays, report) : status;
}

/* Sets of which all is touched come to little more than three times the caches, or to one; of others only the touched
 * part of each counts. Where memory is short, there are as many as if all were touched. */
static kiln_status allocate_sets(kiln__arrays *out, uint64_t used, bool hot, kiln_report *report)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    uint64_t wanted = 1, least = 1;
    if (out->set_bytes > INT64_MAX / SETS_MAX)
        return fail_room(out, report);
    if (!hot) {
        out->device->backend->vtable->device_info(out->device, &info);
        wanted = sets_of(info.l2_bytes, kiln__load_touches(&out->load));
        least = sets_of(info.l2_bytes, used);
        uint64_t room = info.memory_bytes / MEMORY_PART / out->set_bytes;
        if (wanted > room)
            wanted = room > least ? room : least;
    }
    out->sets = (uint32_t)wanted;
    if (wanted > least && allocate(out, &out->memory, out->set_bytes * wanted, NULL) == KILN_OK)
        return KILN_OK;
    out->sets = (uint32_t)least;
    return allocate(out, &out->memory, out->set_bytes * least, report);
}

kiln_status kiln__arrays_init(kiln__arrays *out, kiln_device *device, const kiln__load *load, bool hot,
                              kiln_report *report)
{
    uint64_t used;
    *out = (kiln__arrays){ .device = device, .load = *load };
    uint64_t values = lay_out(out, &used);
    kiln_status status = allocate_sets(out, used, hot, report);
    if (status == KILN_OK && values > 0)
        status = allocate(out, &out->values, values, report);
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++) {
        const kiln__array *array = &out->load.arrays[i];
        if (array->read)
            status = fill_values(device, values_of(out, i), kiln__array_dtype(array), array->size, load->least,
                                 period_of(array), i + 1, report);
    }
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
    kiln_device *device = arrays->device;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < arrays->load.count && status == KILN_OK; i++) {
        const kiln__array *array = &arrays->load.arrays[i];
        uint64_t have = period_of(array) * array->size;
        void *to = kiln__arrays_in(arrays, set, i);
        if (!array->read || have == 0 || !(array->written || all))
            continue;
        status =
            device->backend->vtable->copy(device, to, values_of(arrays, i), have, KILN__COPY_ON_DEVICE, NULL, report);
        if (status == KILN_OK)
            status = queue_repeats(device, to, have, kiln__arrays_bytes(arrays, i), report);
    }
    return status;
}

kiln_status kiln__arrays_restore(const kiln__arrays *arrays, bool all, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t set = 0; set < arrays->sets && status == KILN_OK; set++)
        status = queue_values(arrays, set, all, report);
    return status == KILN_OK ? arrays->device->backend->vtable->sync(arrays->device, report) : status;
}

kiln_status kiln__arrays_poison(const kiln__arrays *arrays, uint32_t set, unsigned char poison, kiln_report *report)
{
    kiln_status status = queue_values(arrays, set, false, report);
    if (status == KILN_OK)
        status = arrays->device->backend->vtable->sync(arrays->device, report);
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

/* They borrow the arrays. */
static void fill_args(const kiln__arrays *arrays, uint32_t set, kiln_arg args[KILN__ARGS_MAX])
{
    void *places[KILN__ARGS_MAX];
    for (uint32_t i = 0; i < arrays->load.count; i++)
        places[i] = kiln__arrays_in(arrays, set, i);
    kiln__load_args(&arrays->load, places, args);
}

kiln_status kiln__arrays_launch(const kiln__arrays *arrays, uint32_t set, const kiln_kernel *kernel, void *stream,
                                kiln_report *report)
{
    const kiln__load *load = &arrays->load;
    kiln_arg args[KILN__ARGS_MAX];
    fill_args(arrays, set, args);
    return kiln__kernel_launch(kernel, load->sizes, load->size_count, args, load->arg_count, stream, report);
}

/* ---- Workloads of hosts */

kiln_status kiln__workload_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel, const kiln_work *work,
                                kiln_report *report)
{
    kiln__load load;
    *out = NULL;
    if (kernel->plan == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                          "the kernel is a function of a source: its arrays are not known");
    kiln_status status = kiln__service_check_device(service, kernel->device, report);
    if (status == KILN_OK)
        status = kiln__load_of_plan(&load, kernel->plan, work, false, report);
    if (status != KILN_OK)
        return status;
    kiln_workload *workload = kiln__calloc(1, sizeof(*workload));
    if (workload == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    workload->service = service;
    workload->kernel = kiln__kernel_retain(kernel);
    status = kiln__arrays_init(&workload->arrays, kernel->device, &load, true, report);
    if (status != KILN_OK) {
        kiln__workload_free(workload);
        return status;
    }
    fill_args(&workload->arrays, 0, workload->args);
    *out = workload;
    return KILN_OK;
}

void kiln__workload_free(kiln_workload *workload)
{
    kiln__arrays_fini(&workload->arrays);
    kiln__kernel_release(workload->kernel);
    kiln__free(workload);
}

kiln_status kiln__workload_reset(const kiln_workload *workload, kiln_report *report)
{
    bool whole = true;
    kiln_status status = kiln__arrays_check_guard(&workload->arrays, 0, &whole, report);
    if (status == KILN_OK)
        status = kiln__arrays_poison(&workload->arrays, 0, KILN__FILL_POISON, report);
    if (status == KILN_OK && !whole)
        return kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0, "%s writes behind its output",
                          workload->kernel->spec);
    return status;
}
