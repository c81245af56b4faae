#include "dtype.h"

#include <math.h>
#include <string.h>

static const dtype types[] = {
    { "f32", "<f4", 4, 23 },
    { "f64", "<f8", 8, 52 },
    { "f16", "<f2", 2, 10 },
    { "bf16", "<u2", 2, 7 },
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

const dtype *dtype_named(const char *name)
{
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const dtype *dtype_of_descr(const char *descr)
{
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].descr, descr) == 0 && descr[1] == 'f')
            return &types[i];
    return NULL;
}

const char *dtype_names(void)
{
    return "f32, f64, f16 or bf16";
}

uint64_t dtype_bits(const dtype *type, const void *array, uint64_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * type->size, type->size);
    return bits;
}

static uint64_t exponent_mask(const dtype *type)
{
    uint32_t exponent_bits = type->size * 8 - 1 - type->mantissa;
    return ((UINT64_C(1) << exponent_bits) - 1) << type->mantissa;
}

bool dtype_is_nan(const dtype *type, uint64_t bits)
{
    uint64_t exponent = exponent_mask(type);
    return (bits & exponent) == exponent && (bits & ((UINT64_C(1) << type->mantissa) - 1)) != 0;
}

double dtype_value(const dtype *type, uint64_t bits)
{
    uint64_t exponent_max = exponent_mask(type) >> type->mantissa;
    uint64_t exponent = (bits >> type->mantissa) & exponent_max;
    uint64_t mantissa = bits & ((UINT64_C(1) << type->mantissa) - 1);
    int bias = (int)(exponent_max >> 1);
    bool negative = bits >> (type->size * 8 - 1) & 1;
    double value = 0;
    if (exponent == exponent_max)
        value = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp((double)mantissa, 1 - bias - (int)type->mantissa);
    else
        value = ldexp((double)(mantissa | UINT64_C(1) << type->mantissa), (int)exponent - bias - (int)type->mantissa);
    return negative ? -value : value;
}

uint64_t dtype_round(const dtype *type, double value)
{
    uint64_t exponent_max = exponent_mask(type) >> type->mantissa;
    int bias = (int)(exponent_max >> 1);
    uint64_t sign = signbit(value) ? UINT64_C(1) << (type->size * 8 - 1) : 0;
    if (isnan(value))
        return sign | exponent_mask(type) | UINT64_C(1) << (type->mantissa - 1);
    if (isinf(value))
        return sign | exponent_mask(type);
    int exponent = 0;
    double magnitude = fabs(value);
    frexp(magnitude, &exponent);
    if (exponent < 2 - bias)
        exponent = 2 - bias;
    /* In units of the last place the value is a whole number once rounded; a carry runs into the exponent by itself. */
    uint64_t units = (uint64_t)nearbyint(ldexp(magnitude, (int)type->mantissa + 1 - exponent));
    uint64_t bits = units + ((uint64_t)(exponent + bias - 2) << type->mantissa);
    return sign | (bits < exponent_mask(type) ? bits : exponent_mask(type));
}
