#include "tune/fill.h"

#include "base/alloc.h"
#include <string.h>

enum { POISON_BYTES = 1 << 20, SMALLEST = -6, OCTAVES = 9 };

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

/* How a dtype's bits are divided. */
typedef struct layout {
    unsigned bits, mantissa, bias;
} layout;

static layout layout_of(kiln__dtype dtype)
{
    switch (dtype) {
    case KILN__DTYPE_F64:
        return (layout){ 64, 52, 1023 };
    case KILN__DTYPE_F16:
        return (layout){ 16, 10, 15 };
    case KILN__DTYPE_BF16:
        return (layout){ 16, 7, 127 };
    default:
        return (layout){ 32, 23, 127 };
    }
}

/* Put together from bits, not rounded from another type: the same on every machine. */
static void put_random(void *data, size_t at, const layout *to, uint64_t state[4])
{
    uint64_t sign = next_random(state) >> 63;
    uint64_t exponent = (uint64_t)((int)to->bias + SMALLEST) + next_random(state) % OCTAVES;
    uint64_t bits = sign << (to->bits - 1) | exponent << to->mantissa | next_random(state) >> (64 - to->mantissa);
    memcpy((char *)data + at * (to->bits / 8), &bits, to->bits / 8);
}

/* Repeats the first `have` of `bytes` bytes by copies on the device, which it does not wait for. */
static kiln_status repeat(kiln_device *device, char *to, uint64_t have, uint64_t bytes, kiln_report *report)
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

static kiln_status spread(kiln_device *device, void *to, const void *from, uint64_t have, uint64_t bytes,
                          kiln_report *report)
{
    if (from == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    kiln_status status = device->backend->vtable->copy(device, to, from, have, KILN__COPY_TO_DEVICE, NULL, report);
    if (status == KILN_OK)
        status = repeat(device, to, have, bytes, report);
    return status == KILN_OK ? device->backend->vtable->sync(device, report) : status;
}

kiln_status kiln__fill_random(kiln_device *device, void *to, kiln__dtype dtype, uint64_t n, uint64_t seed,
                              kiln_report *report)
{
    uint64_t state[4], size = kiln__dtype_bytes(dtype), count = n < KILN__FILL_PERIOD ? n : KILN__FILL_PERIOD;
    layout shape = layout_of(dtype);
    if (n == 0)
        return KILN_OK;
    void *values = kiln__calloc(count, size);
    seed_state(state, seed);
    for (size_t i = 0; i < count && values != NULL; i++)
        put_random(values, i, &shape, state);
    kiln_status status = spread(device, to, values, count * size, n * size, report);
    kiln__free(values);
    return status;
}

/* No more than a signed number of that size holds. */
static uint64_t bound_whole(uint32_t size, uint64_t below)
{
    uint64_t most = UINT64_C(1) << (8 * size - 1);
    return below == 0 ? 1 : below < most ? below : most;
}

kiln_status kiln__fill_whole(kiln_device *device, void *to, uint32_t size, uint64_t n, uint64_t below, uint64_t seed,
                             kiln_report *report)
{
    uint64_t state[4], count = n < KILN__FILL_PERIOD ? n : KILN__FILL_PERIOD;
    if (n == 0)
        return KILN_OK;
    char *values = kiln__calloc(count, size);
    seed_state(state, seed);
    for (size_t i = 0; i < count && values != NULL; i++) {
        uint64_t value = next_random(state) % bound_whole(size, below);
        memcpy(values + i * size, &value, size); /* little endian, as every machine with such a GPU */
    }
    kiln_status status = spread(device, to, values, count * size, n * size, report);
    kiln__free(values);
    return status;
}

kiln_status kiln__fill_repeat(kiln_device *device, void *to, const void *from, uint64_t have, uint64_t bytes,
                              kiln_report *report)
{
    if (have > bytes)
        have = bytes;
    if (have == 0)
        return KILN_OK;
    kiln_status status = device->backend->vtable->copy(device, to, from, have, KILN__COPY_ON_DEVICE, NULL, report);
    return status == KILN_OK ? repeat(device, to, have, bytes, report) : status;
}

kiln_status kiln__fill_bytes(kiln_device *device, void *to, unsigned char byte, uint64_t bytes, kiln_report *report)
{
    uint64_t first = bytes < POISON_BYTES ? bytes : POISON_BYTES;
    if (bytes == 0)
        return KILN_OK;
    void *block = kiln__calloc(1, first);
    if (block != NULL)
        memset(block, byte, first);
    kiln_status status = spread(device, to, block, first, bytes, report);
    kiln__free(block);
    return status;
}
