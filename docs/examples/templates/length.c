/* The cpu twin of length.cu: blocks begin to end - 1 of the grid, of KILN_TILE elements each. */
#include "plane.h"

#include <stdint.h>
#include <string.h>

#ifndef KILN_UNIT
#define KILN_TILE 1024
#endif

__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

/* Exact: the exponent of a float16 is moved to its place in a float by a product with 2^112. */
static float widen(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = (uint32_t)(half & 0x7fffu) << 13;
    const uint32_t special = (half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
    float value;
    memcpy(&value, &rest, sizeof value);
    value *= 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits |= sign | special;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    float *out = *(float *const *)args[0];
    const uint16_t *x = *(const uint16_t *const *)args[1], *y = *(const uint16_t *const *)args[2];
    const unsigned long long n = *(const unsigned long long *)args[3];

    end = end * KILN_TILE < n ? end * KILN_TILE : n;
    for (unsigned long long i = begin * KILN_TILE; i < end; i++)
        out[i] = plane_length(widen(x[i]), widen(y[i]));
}
