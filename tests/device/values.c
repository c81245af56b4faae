#include "values.h"

#include <math.h>
#include <string.h>

static const double specials[] = { NAN,     INFINITY, -INFINITY, 0.0,    -0.0,    1.0,     -1.0,      3.0,
                                   -3.0,    2.5,      -2.5,      6.0,    -6.0,    0.5,     -0.5,      2.0,
                                   -2.0,    1e-45,    -1e-45,    1e-310, -1e-310, 6e-8,    -6e-8,     1e-40,
                                   65504.0, -65504.0, 65520.0,   3.4e38, -3.4e38, 1.7e308, 3.0000002, -3.0000002,
                                   0.2,     0.1,      1e-7,      1e30 };
enum { SPECIALS = sizeof(specials) / sizeof(specials[0]) };

size_t values_size(const char *dtype)
{
    static const char *const of_bytes[][6] = { { "f8e4m3", "f8e5m2", "i8", "u8", "bool" },
                                               { "f16", "bf16", "i16" },
                                               { "f32", "i32" } };
    for (size_t i = 0; i < sizeof(of_bytes) / sizeof(of_bytes[0]); i++)
        for (size_t j = 0; of_bytes[i][j] != NULL; j++)
            if (strcmp(dtype, of_bytes[i][j]) == 0)
                return (size_t)1 << i;
    return 8;
}

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Bits of a value in the dtype. The 16-bit forms need no exact rounding here: they only choose inputs. */
static uint64_t bits_of(double value, const char *dtype)
{
    float single = (float)value;
    uint32_t word;
    uint64_t wide;
    memcpy(&word, &single, sizeof(word));
    memcpy(&wide, &value, sizeof(wide));
    if (strcmp(dtype, "f64") == 0)
        return wide;
    if (strcmp(dtype, "f32") == 0)
        return word;
    if (strcmp(dtype, "bf16") == 0)
        return isnan(single) ? 0x7fc1 : word >> 16;
    uint32_t sign = word >> 16 & 0x8000;
    if (isnan(single))
        return sign | 0x7e01;
    if (fabsf(single) >= 65520.0f)
        return sign | 0x7c00;
    if (fabsf(single) < 6.1035156e-05f)
        return sign | (uint32_t)(fabsf(single) * 16777216.0f);
    return sign | ((((word & 0x7fffffff) >> 13) - (112u << 10)) & 0x7fff);
}

/* All bits of a small type, and of whole numbers any bits, small numbers and the ends of the range. */
static uint64_t whole_element(size_t i, const char *dtype, unsigned stream, uint64_t *state)
{
    size_t bits = 8 * values_size(dtype);
    uint64_t random = next(state), chosen = random >> 32;
    if (i < 65536)
        random = stream == 0 ? i : stream == 1 ? i >> 8 : random;
    else if (i % 3 == 0)
        random = (chosen & 15) - 8;
    else if (i % 3 == 1)
        random = ((uint64_t)1 << (bits - 1)) - (chosen & 1);
    return strcmp(dtype, "bool") == 0 ? random & 1 : random;
}

static uint64_t element(size_t i, const char *dtype, unsigned stream, uint64_t *state)
{
    size_t pairs = (size_t)SPECIALS * SPECIALS;
    if (dtype[0] == 'i' || dtype[0] == 'u' || values_size(dtype) == 1)
        return whole_element(i, dtype, stream, state);
    if (values_size(dtype) == 2 && stream == 0 && i < 65536)
        return i;
    if (i < 65536 + pairs && i >= 65536) {
        size_t j = i - 65536;
        return bits_of(specials[stream == 0   ? j % SPECIALS
                                : stream == 1 ? j / SPECIALS
                                              : (j * 7 + 3) % SPECIALS],
                       dtype);
    }
    uint64_t random = next(state);
    if (i % 4 == 0) /* any bits at all: NaN payloads, subnormals, huge values */
        return random;
    return bits_of(((double)(random >> 11) / 9007199254740992.0 - 0.5) * 16.0, dtype);
}

void values_fill(void *out, size_t n, const char *dtype, unsigned stream)
{
    size_t size = values_size(dtype);
    uint64_t state = 12345 + stream;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = element(i, dtype, stream, &state);
        memcpy((char *)out + i * size, &bits, size);
    }
}

void values_store(void *out, size_t i, const char *dtype, double value)
{
    const size_t size = values_size(dtype);
    const uint64_t bits = bits_of(value, dtype);
    memcpy((char *)out + i * size, &bits, size);
}

static int is_nan(uint64_t bits, const char *dtype)
{
    if (strcmp(dtype, "f64") == 0)
        return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
    if (strcmp(dtype, "f32") == 0)
        return (bits & 0x7fffffff) > 0x7f800000;
    return (bits & 0x7fff) > (strcmp(dtype, "bf16") == 0 ? 0x7f80u : 0x7c00u);
}

size_t values_compare(const void *a, const void *b, size_t n, const char *dtype)
{
    size_t size = values_size(dtype);
    if (memcmp(a, b, n * size) == 0)
        return n;
    for (size_t i = 0; i < n; i++) {
        uint64_t left = 0, right = 0;
        memcpy(&left, (const char *)a + i * size, size);
        memcpy(&right, (const char *)b + i * size, size);
        if (left != right && !(is_nan(left, dtype) && is_nan(right, dtype)))
            return i;
    }
    return n;
}
