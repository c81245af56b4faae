/* The table of types, their names, and values in their formats. */
#include "spec/dtype.h"

#include <math.h>
#include <strings.h>

static const struct {
    const char *name, *other, *macro;
    unsigned bytes;
    int fraction, least, most;
} dtypes[KILN__DTYPE_END] = { [KILN__DTYPE_UNSET] = { "dtype", "", "", 0, 0, 0, 0 },
#define ROW(id, name, other, bytes, fraction, least, most) \
    [KILN__DTYPE_##id] = { name, other, #id, bytes, fraction, least, most },
                              KILN__DTYPES(ROW)
#undef ROW
};

kiln__dtype kiln__dtype_parse(const char *name, size_t length)
{
    for (int i = KILN__DTYPE_UNSET + 1; i < KILN__DTYPE_SPECS_END; i++)
        if (kiln__word_is((kiln__word){ name, length }, dtypes[i].name))
            return (kiln__dtype)i;
    return KILN__DTYPE_UNSET;
}

static bool is_like(kiln__word word, const char *name)
{
    return strlen(name) == word.length && strncasecmp(name, word.text, word.length) == 0;
}

kiln__dtype kiln__dtype_guess(kiln__word name)
{
    static const struct {
        const char *name;
        kiln__dtype dtype;
    } others[] = {
        { "fp32", KILN__DTYPE_F32 },    { "float32", KILN__DTYPE_F32 }, { "float", KILN__DTYPE_F32 },
        { "single", KILN__DTYPE_F32 },  { "fp64", KILN__DTYPE_F64 },    { "float64", KILN__DTYPE_F64 },
        { "double", KILN__DTYPE_F64 },  { "fp16", KILN__DTYPE_F16 },    { "float16", KILN__DTYPE_F16 },
        { "half", KILN__DTYPE_F16 },    { "__half", KILN__DTYPE_F16 },  { "bfloat16", KILN__DTYPE_BF16 },
        { "bfloat", KILN__DTYPE_BF16 }, { "bfp16", KILN__DTYPE_BF16 },  { "__nv_bfloat16", KILN__DTYPE_BF16 },
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (is_like(name, others[i].name))
            return others[i].dtype;
    for (int i = KILN__DTYPE_UNSET + 1; i < KILN__DTYPE_SPECS_END; i++)
        if (is_like(name, dtypes[i].name))
            return (kiln__dtype)i;
    return KILN__DTYPE_UNSET;
}

bool kiln__dtype_find(kiln__word name, kiln__dtype *out)
{
    for (int i = KILN__DTYPE_UNSET; i < KILN__DTYPE_END; i++)
        if (name.length > 0 && (kiln__word_is(name, dtypes[i].name) || kiln__word_is(name, dtypes[i].other))) {
            *out = (kiln__dtype)i;
            return true;
        }
    return false;
}

const char *kiln__dtype_type_at(const void *data, size_t i)
{
    (void)data;
    return i < KILN__DTYPE_END ? dtypes[i].name : NULL;
}

const char *kiln__dtype_name_at(const void *data, size_t i)
{
    return i + 1 < KILN__DTYPE_SPECS_END ? kiln__dtype_type_at(data, i + 1) : NULL;
}

const char *kiln__dtype_name(kiln__dtype dtype)
{
    return dtypes[dtype].name;
}

const char *kiln__dtype_macro(kiln__dtype dtype)
{
    return dtypes[dtype].macro;
}

unsigned kiln__dtype_bytes(kiln__dtype dtype)
{
    return dtypes[dtype].bytes;
}

static double small_value(uint16_t bits, kiln__dtype dtype)
{
    int fraction = dtypes[dtype].fraction, exponent = bits >> fraction & (dtype == KILN__DTYPE_F16 ? 31 : 255);
    double digits = bits & ((1 << fraction) - 1), magnitude;
    if (exponent > dtypes[dtype].most - dtypes[dtype].least + 1)
        magnitude = digits != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(digits, dtypes[dtype].least - fraction);
    else
        magnitude = ldexp(digits + (1 << fraction), exponent - 1 + dtypes[dtype].least - fraction);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double kiln__dtype_value(const void *array, uint64_t i, kiln__dtype dtype)
{
    float single;
    double value;
    uint16_t bits;
    switch (dtype) {
    case KILN__DTYPE_F64:
        memcpy(&value, (const char *)array + i * sizeof(value), sizeof(value));
        return value;
    case KILN__DTYPE_F32:
        memcpy(&single, (const char *)array + i * sizeof(single), sizeof(single));
        return (double)single;
    default:
        memcpy(&bits, (const char *)array + i * sizeof(bits), sizeof(bits));
        return small_value(bits, dtype);
    }
}

double kiln__dtype_unit(double value, kiln__dtype dtype)
{
    int exponent = dtypes[dtype].least;
    if (value != 0 && isfinite(value) && ilogb(value) > exponent)
        exponent = ilogb(value) < dtypes[dtype].most ? ilogb(value) : dtypes[dtype].most;
    return ldexp(1, exponent - dtypes[dtype].fraction);
}

double kiln__dtype_largest(kiln__dtype dtype)
{
    return ldexp(2 - ldexp(1, -dtypes[dtype].fraction), dtypes[dtype].most);
}

double kiln__dtype_distance(double got, double want, kiln__dtype dtype)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (got == want)
        return 0;
    double unit = kiln__dtype_unit(want, dtype);
    double most = kiln__dtype_largest(dtype);
    if (isinf(got) && fabs(want) > most && (got > 0) == (want > 0))
        return fabs(want) >= most + unit / 2 ? 0 : (most + unit / 2 - fabs(want)) / unit;
    return fabs(got - want) / unit;
}
