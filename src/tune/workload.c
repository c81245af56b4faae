/* Workloads: their shapes from plans, values in a device's memory, sets of arrays, and the workloads of hosts. */
#include "tune/workload.h"

#include "base/alloc.h"
#include <inttypes.h>
#include <stdio.h>
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

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_DEVICE, 0, __VA_ARGS__)

/* ---- Shapes */

bool kiln__array_is_real(const kiln__array *array)
{
    return kiln__dtype_is_real(array->type);
}

/* Adds an array to the list and to the sums. False: no memory holds it. */
static bool add_array(kiln__load *out, const kiln__array *array)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(array->elements, array->size * ((uint64_t)array->read + array->written), &bytes) ||
        bytes > INT64_MAX / 8 / KILN__ARGS_MAX)
        return false;
    out->arrays[out->count++] = *array;
    out->bytes += bytes;
    out->elements = array->elements > out->elements ? array->elements : out->elements;
    out->changes = out->changes || (array->read && array->written);
    out->whole = out->whole || (array->read && array->indices);
    return true;
}

static bool is_array(const kiln__plan_arg *arg)
{
    return arg->role <= KILN__ARG_INOUT;
}

static kiln_status take_array(kiln__load *out, const kiln__plan *plan, const kiln__formula_values *values, uint32_t i,
                              bool may_be_empty, kiln_report *report)
{
    const kiln__plan_arg *arg = &plan->args[i];
    kiln__array array = { .type = arg->type,
                          .size = arg->bytes,
                          .read = arg->role != KILN__ARG_OUT,
                          .written = arg->role != KILN__ARG_IN,
                          .indices = arg->declared == arg->type && !kiln__dtype_is_real(arg->type) };
    kiln_status status = KILN_OK;
    kiln__text_copy(array.name, sizeof(array.name), arg->name);
    out->at[out->count] = out->arg_count;
    for (uint32_t d = 0; d < arg->dims && status == KILN_OK; d++) {
        uint64_t extent = 0;
        status = kiln__plan_value(plan, arg->formulas[d], values, arg->name, &extent, report);
        if (status == KILN_OK && extent == 0 && !may_be_empty)
            return FAIL(report, KILN_EINVAL, "argument %s has no elements with these sizes: name larger ones",
                        arg->name);
        out->least = out->least == 0 || extent < out->least ? extent : out->least;
    }
    if (status == KILN_OK)
        status = kiln__plan_elements(plan, i, values, &array.elements, report);
    if (status == KILN_OK && !add_array(out, &array))
        return FAIL(report, KILN_EINVAL, "%s is larger than any memory: name smaller sizes", arg->name);
    return status;
}

static kiln_status take_number(kiln__load *out, const kiln__plan_arg *arg, const kiln_work *work, kiln_report *report)
{
    uint32_t place = out->arg_count;
    const kiln_arg *number = place < work->arg_count ? &work->args[place] : NULL;
    if (number == NULL || number->data == NULL || number->bytes != arg->bytes)
        return FAIL(report, KILN_EINVAL,
                    "argument %s is a number of type %s, and none of its %u bytes is given: name it", arg->name,
                    kiln__dtype_name(arg->type), arg->bytes);
    memcpy(&out->numbers[place], number->data, arg->bytes);
    out->number_bytes[place] = arg->bytes;
    return KILN_OK;
}

/* The counts are checked before any array of the host is read. */
static kiln_status check_counts(const kiln__plan *plan, const kiln_work *work, kiln_report *report)
{
    kiln__text names = { 0 };
    uint32_t wanted = 0;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < plan->arg_count; i++)
        wanted += plan->args[i].role != KILN__ARG_FORMULA;
    for (uint32_t i = 0; i < plan->size_count; i++)
        kiln__text_printf(&names, "%s%s", i == 0 ? "" : ", ", plan->sizes[i]);
    if (work->elements > 0 && !plan->flat)
        status = FAIL(report, KILN_EINVAL, "a number of elements is not enough for the kernel: name its sizes (%s)",
                      kiln__text_string(&names));
    else if (work->elements > INT64_MAX / 64 / KILN__ARGS_MAX)
        status = FAIL(report, KILN_ENOMEM, "there is no room for arrays of %" PRIu64 " elements: name fewer",
                      work->elements);
    else if (work->elements > 0 && work->size_count > 0)
        status = FAIL(report, KILN_EINVAL, "elements and sizes are given: name the one or the other");
    else if (work->elements == 0 &&
             (work->size_count != plan->size_count || (work->sizes == NULL && plan->size_count > 0)))
        status = FAIL(report, KILN_EINVAL, "the kernel has %u size%s (%s), and %zu are given", plan->size_count,
                      plan->size_count == 1 ? "" : "s", kiln__text_string(&names), work->size_count);
    else if (work->arg_count != 0 && (work->arg_count != wanted || work->args == NULL))
        status = FAIL(report, KILN_EINVAL, "the kernel takes %u arguments that no formula gives, and %zu are given",
                      wanted, work->arg_count);
    kiln__text_fini(&names);
    return status;
}

kiln_status kiln__load_of_plan(kiln__load *out, const kiln__plan *plan, const kiln_work *work, bool may_be_empty,
                               kiln_report *report)
{
    kiln__formula_values values;
    memset(out, 0, sizeof(*out));
    out->flat = plan->flat;
    out->elementwise = plan->elementwise;
    kiln_status status = check_counts(plan, work, report);
    for (uint32_t i = 0; i < plan->size_count && status == KILN_OK; i++)
        out->sizes[out->size_count++] = work->elements > 0 ? work->elements : work->sizes[i];
    if (status == KILN_OK)
        kiln__plan_calculate(plan, out->sizes, &values);
    for (uint32_t i = 0; i < plan->arg_count && status == KILN_OK; i++) {
        const kiln__plan_arg *arg = &plan->args[i];
        if (arg->role == KILN__ARG_FORMULA)
            continue;
        status = is_array(arg) ? take_array(out, plan, &values, i, may_be_empty, report)
                               : take_number(out, arg, work, report);
        out->arg_count++;
    }
    if (status == KILN_OK && out->count == 0)
        status = FAIL(report, KILN_EINVAL, "the kernel takes no array: there is nothing to measure it with");
    /* A launch of no blocks takes no time and computes nothing. */
    for (int i = 0; i < 3 && status == KILN_OK && !may_be_empty; i++) {
        uint64_t blocks = 0;
        status = kiln__plan_value(plan, plan->grid[i], &values, "grid", &blocks, report);
        if (status == KILN_OK && blocks == 0)
            status = FAIL(report, KILN_EINVAL, "the grid has no blocks with these sizes: name larger ones");
    }
    if (status == KILN_OK && plan->traffic != UINT32_MAX)
        status = kiln__plan_value(plan, plan->traffic, &values, "traffic", &out->bytes, report);
    return status;
}

kiln_status kiln__load_of_spec(kiln__load *out, const kiln__fields *spec, const kiln_work *work, kiln_report *report)
{
    kiln__plan *plan = NULL;
    kiln_status status = kiln__spec_plan(&plan, spec, report);
    if (status == KILN_OK)
        status = kiln__load_of_plan(out, plan, work, false, report);
    kiln__free(plan);
    return status;
}

void kiln__load_args(const kiln__load *load, void *const arrays[KILN__ARGS_MAX], kiln_arg args[KILN__ARGS_MAX])
{
    for (uint32_t i = 0; i < load->arg_count; i++)
        args[i] = (kiln_arg){ KILN_ARG_VALUE, load->number_bytes[i], &load->numbers[i] };
    for (uint32_t i = 0; i < load->count; i++)
        args[load->at[i]] = KILN_ARRAY(arrays[i], load->arrays[i].elements * load->arrays[i].size);
}

/* The least number of bytes of its arrays that a launch touches, if it reads and writes no byte more than once: all of
 * them, unless a template has declared less traffic; of arrays that are read and written each byte may stand for two
 * of that. */
static uint64_t bytes_touched(const kiln__load *load)
{
    uint64_t all = 0, twice = 0;
    for (uint32_t i = 0; i < load->count; i++) {
        const kiln__array *array = &load->arrays[i];
        all += array->elements * array->size;
        twice += array->read && array->written ? array->elements * array->size : 0;
    }
    uint64_t touched = load->bytes / 2 > twice ? load->bytes - twice : load->bytes / 2;
    return touched > 0 && touched < all ? touched : all;
}

/* NULL, or how an argument is not number `place` of the workload; `array` counts those that are arrays. */
static const char *compare_arg(const kiln__load *load, const kiln__plan *plan, const kiln__formula_values *values,
                               uint32_t i, uint32_t place, uint32_t *array)
{
    const kiln__plan_arg *arg = &plan->args[i];
    uint64_t elements = 0;
    if (place >= load->arg_count)
        return "is not there";
    if (!is_array(arg))
        return load->number_bytes[place] == arg->bytes ? NULL : "is another number";
    const kiln__array *known = *array < load->count ? &load->arrays[(*array)++] : NULL;
    if (known == NULL || load->number_bytes[place] != 0)
        return "is a number";
    if (known->type != arg->type || known->read != (arg->role != KILN__ARG_OUT) ||
        known->written != (arg->role != KILN__ARG_IN))
        return "has another type or role";
    if (kiln__plan_elements(plan, i, values, &elements, NULL) != KILN_OK || elements != known->elements)
        return "has another shape";
    return NULL;
}

bool kiln__load_fits(const kiln__load *load, const kiln__plan *plan, char *problem, size_t size)
{
    kiln__formula_values values;
    uint32_t array = 0, place = 0;
    const char *how = NULL;
    problem[0] = '\0';
    if (plan->size_count != load->size_count) {
        snprintf(problem, size, "it takes other arguments");
        return false;
    }
    kiln__plan_calculate(plan, load->sizes, &values);
    for (uint32_t i = 0; i < plan->arg_count && how == NULL; i++) {
        if (plan->args[i].role == KILN__ARG_FORMULA)
            continue;
        how = compare_arg(load, plan, &values, i, place++, &array);
        if (how != NULL)
            snprintf(problem, size, "argument %s %s, so that it cannot be compared", plan->args[i].name, how);
    }
    if (how == NULL && place != load->arg_count)
        snprintf(problem, size, "it takes fewer arguments, so that it cannot be compared");
    return problem[0] == '\0';
}

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

/* A whole number as bits: an index is less than `below` and not negative at its size. 0: it is no index. */
static uint64_t random_whole(kiln__dtype dtype, uint64_t below, uint64_t state[4])
{
    uint64_t most = UINT64_C(1) << (8 * kiln__dtype_bytes(dtype) - 1), bits = next_random(state);
    if (below > 0)
        return bits % (below < most ? below : most);
    if (dtype == KILN__DTYPE_BOOL)
        return bits >> 63;
    return bits >> 63 != 0 ? bits : (bits & 15) - 8;
}

/* A random element, as bits. It is put together from parts and not rounded from another type, so that it is the same on
 * every machine. */
static uint64_t random_bits(kiln__dtype dtype, uint64_t below, uint64_t state[4])
{
    static const struct {
        unsigned bits, mantissa, bias;
    } layouts[KILN__DTYPE_END] = {
        [KILN__DTYPE_F32] = { 32, 23, 127 }, [KILN__DTYPE_F64] = { 64, 52, 1023 }, [KILN__DTYPE_F16] = { 16, 10, 15 },
        [KILN__DTYPE_BF16] = { 16, 7, 127 }, [KILN__DTYPE_F8E4M3] = { 8, 3, 7 },   [KILN__DTYPE_F8E5M2] = { 8, 2, 15 }
    };
    if (!kiln__dtype_is_real(dtype))
        return random_whole(dtype, below, state);
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

/* Random values; indices are less than `below`, and 0 is for what is none. */
static kiln_status fill_values(kiln_device *device, void *to, kiln__dtype dtype, uint64_t below, uint64_t n,
                               uint64_t seed, kiln_report *report)
{
    uint32_t size = kiln__dtype_bytes(dtype);
    uint64_t state[4], count = n < KILN__FILL_PERIOD ? n : KILN__FILL_PERIOD;
    if (n == 0)
        return KILN_OK;
    char *values = kiln__calloc(count, size);
    seed_state(state, seed);
    for (size_t i = 0; i < count && values != NULL; i++) {
        uint64_t bits = random_bits(dtype, below, state);
        memcpy(values + i * size, &bits, size); /* little endian, as every machine with such a GPU */
    }
    kiln_status status = spread_bytes(device, to, values, count * size, n * size, report);
    kiln__free(values);
    return status;
}

kiln_status kiln__fill_random(kiln_device *device, void *to, kiln__dtype dtype, uint64_t n, uint64_t seed,
                              kiln_report *report)
{
    return fill_values(device, to, dtype, 0, n, seed, report);
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

/* Memory is asked for before it is taken: a host that has promised too much kills processes later. */
static kiln_status check_room(const kiln__arrays *arrays, uint64_t bytes, uint64_t free, kiln_report *report)
{
    if (free == 0 || bytes <= free)
        return KILN_OK;
    return kiln__fail(report, KILN_ENOMEM, KILN__STAGE_DEVICE, 0,
                      "%s has no room: %u arrays of up to %" PRIu64 " elements take %" PRIu64 " MiB, and %" PRIu64
                      " MiB are free; name %s",
                      arrays->device->name, (unsigned)arrays->load.count, arrays->load.elements, (bytes >> 20) + 1,
                      free >> 20, arrays->load.flat ? "fewer elements" : "smaller sizes");
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
    uint64_t (*free_memory)(kiln_device *) = out->device->backend->vtable->free_memory;
    uint64_t free = free_memory != NULL ? free_memory(out->device) : 0;
    if (out->set_bytes > INT64_MAX / SETS_MAX)
        return fail_room(out, report);
    if (!hot) {
        out->device->backend->vtable->device_info(out->device, &info);
        wanted = sets_of(info.l2_bytes, bytes_touched(&out->load));
        least = sets_of(info.l2_bytes, used);
        uint64_t room = info.memory_bytes / MEMORY_PART / out->set_bytes;
        if (wanted > room)
            wanted = room > least ? room : least;
    }
    kiln_status status = check_room(out, out->set_bytes * least, free, report);
    if (status != KILN_OK)
        return status;
    if (wanted > least && free != 0 && out->set_bytes * wanted > free)
        wanted = least;
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
            status = fill_values(device, values_of(out, i), array->type,
                                 !array->indices   ? 0
                                 : load->least > 0 ? load->least
                                                   : 1,
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

/* The arguments borrow the arrays. */
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
