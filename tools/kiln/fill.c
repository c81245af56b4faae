#include "fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 8 << 20, POISON_BYTES = 1 << 20, POISON = 0xa5 };

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

/* Two independent normal values by the method of Box and Muller. */
static void next_normals(uint64_t state[4], double *a, double *b)
{
    const double turn = 6.283185307179586;
    double radius = sqrt(-2 * log(((double)(next_random(state) >> 11) + 1) * 0x1p-53));
    double angle = turn * (double)(next_random(state) >> 11) * 0x1p-53;
    *a = radius * cos(angle);
    *b = radius * sin(angle);
}

static void put_value(const dtype *type, void *data, uint64_t i, double value)
{
    if (strcmp(type->name, "f32") == 0) {
        ((float *)data)[i] = (float)value;
    } else {
        uint64_t bits = dtype_round(type, value);
        memcpy((char *)data + i * type->size, &bits, type->size);
    }
}

void fill_block_make(fill_block *out, const dtype *type, uint64_t elements)
{
    uint64_t state[4] = { 0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0x2545f4914f6cdd1du };
    *out = (fill_block){ .elements = elements < MOST_VALUES ? elements : MOST_VALUES, .element_size = type->size };
    out->data = need_array(NULL, out->elements + 1, type->size);
    for (uint64_t i = 0; i < out->elements; i += 2) {
        double a = 0, b = 0;
        next_normals(state, &a, &b);
        put_value(type, out->data, i, 3 * a);
        put_value(type, out->data, i + 1, 3 * b);
    }
}

/* Repeats the first `have` of `bytes` bytes by copies on the device. */
static kiln_status repeat(kiln_device *device, char *to, uint64_t have, uint64_t bytes, kiln_report *report)
{
    kiln_status status = KILN_OK;
    while (have < bytes && !status) {
        uint64_t part = bytes - have < have ? bytes - have : have;
        status = kiln_copy(device, to + have, to, part, KILN_COPY_ON_DEVICE, NULL, report);
        have += part;
    }
    return status ? status : kiln_sync(device, report);
}

kiln_status fill_values(kiln_device *device, void *to, uint64_t n, const fill_block *block, uint64_t shift,
                        kiln_report *report)
{
    if (n == 0 || block->elements == 0)
        return KILN_OK;
    uint64_t size = block->element_size;
    uint64_t count = n < block->elements ? n : block->elements;
    uint64_t from = shift % block->elements;
    uint64_t first = block->elements - from < count ? block->elements - from : count;
    const char *data = block->data;
    kiln_status status = kiln_copy(device, to, data + from * size, first * size, KILN_COPY_TO_DEVICE, NULL, report);
    if (!status && first < count)
        status = kiln_copy(device, (char *)to + first * size, data, (count - first) * size, KILN_COPY_TO_DEVICE, NULL,
                           report);
    return status ? status : repeat(device, to, count * size, n * size, report);
}

kiln_status fill_poison(kiln_device *device, void *to, uint64_t bytes, kiln_report *report)
{
    uint64_t first = bytes < POISON_BYTES ? bytes : POISON_BYTES;
    if (bytes == 0)
        return KILN_OK;
    void *poison = need_alloc(first);
    memset(poison, POISON, first);
    kiln_status status = kiln_copy(device, to, poison, first, KILN_COPY_TO_DEVICE, NULL, report);
    free(poison);
    return status ? status : repeat(device, to, first, bytes, report);
}
