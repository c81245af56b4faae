/* The table of types, their names, and values in their formats. */
#include "lang/dtype.h"

#include <math.h>
#include <strings.h>

typedef enum dtype_kind { REAL, SIGNED, UNSIGNED, TRUTH, OPEN } dtype_kind;

static const struct {
    const char *name, *others, *macro; /* the others with blanks between */
    unsigned bytes;
    dtype_kind kind;
    int fraction, least, most;
} dtypes[KILN__DTYPE_END] = { [KILN__DTYPE_UNSET] = { "dtype", "", "", 0, OPEN, 0, 0, 0 },
#define ROW(id, name, others, bytes, kind, fraction, least, most) \
    [KILN__DTYPE_##id] = { name, others, #id, bytes, kind, fraction, least, most },
                              KILN__DTYPES(ROW)
#undef ROW
};

bool kiln__dtype_is_real(kiln__dtype dtype)
{
    return dtypes[dtype].kind == REAL;
}

bool kiln__dtype_is_signed(kiln__dtype dtype)
{
    return dtypes[dtype].kind == SIGNED;
}

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
        { "fp32", KILN__DTYPE_F32 },           { "float32", KILN__DTYPE_F32 },
        { "float", KILN__DTYPE_F32 },          { "single", KILN__DTYPE_F32 },
        { "fp64", KILN__DTYPE_F64 },           { "float64", KILN__DTYPE_F64 },
        { "double", KILN__DTYPE_F64 },         { "fp16", KILN__DTYPE_F16 },
        { "float16", KILN__DTYPE_F16 },        { "half", KILN__DTYPE_F16 },
        { "__half", KILN__DTYPE_F16 },         { "bfloat16", KILN__DTYPE_BF16 },
        { "bfloat", KILN__DTYPE_BF16 },        { "bfp16", KILN__DTYPE_BF16 },
        { "__nv_bfloat16", KILN__DTYPE_BF16 }, { "float8_e4m3fn", KILN__DTYPE_F8E4M3 },
        { "float8_e5m2", KILN__DTYPE_F8E5M2 }, { "int8", KILN__DTYPE_I8 },
        { "int16", KILN__DTYPE_I16 },          { "short", KILN__DTYPE_I16 },
        { "int32", KILN__DTYPE_I32 },          { "int", KILN__DTYPE_I32 },
        { "int64", KILN__DTYPE_I64 },          { "long", KILN__DTYPE_I64 },
        { "uint8", KILN__DTYPE_U8 },           { "byte", KILN__DTYPE_U8 },
        { "boolean", KILN__DTYPE_BOOL },
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (is_like(name, others[i].name))
            return others[i].dtype;
    for (int i = KILN__DTYPE_UNSET + 1; i < KILN__DTYPE_SPECS_END; i++)
        if (is_like(name, dtypes[i].name))
            return (kiln__dtype)i;
    return KILN__DTYPE_UNSET;
}

static bool is_among(kiln__word name, const char *list)
{
    kiln__word rest = kiln__word_of(list);
    while (rest.length > 0)
        if (kiln__word_same(name, kiln__word_next(&rest)))
            return true;
    return false;
}

bool kiln__dtype_find(kiln__word name, kiln__dtype *out)
{
    for (int i = KILN__DTYPE_UNSET; i < KILN__DTYPE_END; i++)
        if (name.length > 0 && (kiln__word_is(name, dtypes[i].name) || is_among(name, dtypes[i].others))) {
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

/* 2 to a power that a double has, -1074 to 1023. ldexp takes longer than all else that is done with an element. */
static double power_of_two(int exponent)
{
    const uint64_t bits = exponent >= -1022 ? (uint64_t)(exponent + 1023) << 52 : (uint64_t)1 << (exponent + 1074);
    double power;
    memcpy(&power, &bits, sizeof(power));
    return power;
}

/* A value of a format of 8 or 16 bits. Its largest exponent but one is that of infinity and NaN, but in f8e4m3, which
 * has numbers there, no infinity, and NaN where all bits are set. */
static double small_value(unsigned bits, kiln__dtype dtype)
{
    int fraction = dtypes[dtype].fraction, width = 8 * (int)dtypes[dtype].bytes;
    int exponent = (int)(bits & ((1u << (width - 1)) - 1)) >> fraction;
    double digits = bits & ((1u << fraction) - 1), magnitude;
    bool whole_range = dtype == KILN__DTYPE_F8E4M3;
    if (whole_range ? exponent == 15 && digits == 7 : exponent > dtypes[dtype].most - dtypes[dtype].least + 1)
        magnitude = whole_range || digits != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = digits * power_of_two(dtypes[dtype].least - fraction);
    else
        magnitude = (digits + (1 << fraction)) * power_of_two(exponent - 1 + dtypes[dtype].least - fraction);
    return bits >> (width - 1) != 0 ? -magnitude : magnitude;
}

double kiln__dtype_value(const void *array, uint64_t i, kiln__dtype dtype)
{
    float single;
    double value;
    uint64_t bits = 0;
    unsigned bytes = dtypes[dtype].bytes;
    memcpy(&bits, (const char *)array + i * bytes, bytes);
    switch (dtypes[dtype].kind) {
    case SIGNED:
        return (double)((int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
    case UNSIGNED:
        return (double)bits;
    case TRUTH:
        return bits != 0;
    default:
        break;
    }
    memcpy(&value, &bits, sizeof(value));
    memcpy(&single, &bits, sizeof(single));
    return dtype == KILN__DTYPE_F64   ? value
           : dtype == KILN__DTYPE_F32 ? (double)single
                                      : small_value((unsigned)bits, dtype);
}

double kiln__dtype_unit(double value, kiln__dtype dtype)
{
    const int least = dtypes[dtype].least, most = dtypes[dtype].most;
    if (dtypes[dtype].kind != REAL)
        return 1;
    const int own = value != 0 && isfinite(value) ? ilogb(value) : least;
    return power_of_two((own < least ? least : own > most ? most : own) - dtypes[dtype].fraction);
}

double kiln__dtype_largest(kiln__dtype dtype)
{
    if (dtypes[dtype].kind != REAL)
        return INFINITY;
    const double digits = 2 - (dtype == KILN__DTYPE_F8E4M3 ? 2 : 1) * power_of_two(-dtypes[dtype].fraction);
    return digits * power_of_two(dtypes[dtype].most);
}

double kiln__dtype_distance(double got, double want, kiln__dtype dtype)
{
    double unit = kiln__dtype_unit(want, dtype);
    double most = kiln__dtype_largest(dtype);
    if (dtype == KILN__DTYPE_F8E4M3 && isnan(got) && fabs(want) > most)
        got = copysign(INFINITY, want); /* that has none */
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (got == want)
        return 0;
    if (isinf(got) && fabs(want) > most && (got > 0) == (want > 0))
        return fabs(want) >= most + unit / 2 ? 0 : (most + unit / 2 - fabs(want)) / unit;
    return fabs(got - want) / unit;
}

static kiln__dtype wider(kiln__dtype a, kiln__dtype b)
{
    return dtypes[a].bytes >= dtypes[b].bytes ? a : b;
}

kiln__dtype kiln__dtype_promote(kiln__dtype a, kiln__dtype b)
{
    dtype_kind first = dtypes[a].kind, second = dtypes[b].kind;
    if (a == b || first == OPEN || second == OPEN)
        return a != KILN__DTYPE_UNSET ? a : b;
    if (first == REAL && second == REAL)
        return dtypes[a].bytes != dtypes[b].bytes ? wider(a, b) : KILN__DTYPE_F32;
    if (first == REAL || second == REAL) {
        kiln__dtype real = first == REAL ? a : b;
        return dtypes[real].bytes > 1 ? real : KILN__DTYPE_F32;
    }
    if (first == TRUTH || second == TRUTH)
        return first == TRUTH ? b : a;
    if (first != second && dtypes[a].bytes == dtypes[b].bytes) /* u8 and i8: specs have no wider type without a sign */
        return KILN__DTYPE_I16;
    return wider(a, b);
}

static bool is_f8(kiln__dtype dtype)
{
    return dtypes[dtype].kind == REAL && dtypes[dtype].bytes == 1;
}

/* A type of 8 bits gives way to any other real one, so that it comes last. */
kiln__dtype kiln__dtype_promote_all(const kiln__dtype *types, uint32_t count)
{
    kiln__dtype all = KILN__DTYPE_UNSET;
    for (uint32_t k = 0; k < count; k++)
        all = kiln__dtype_promote(all, is_f8(types[k]) ? KILN__DTYPE_UNSET : types[k]);
    for (uint32_t k = 0; k < count; k++)
        all = kiln__dtype_promote(all, is_f8(types[k]) ? types[k] : KILN__DTYPE_UNSET);
    return all;
}

bool kiln__dtype_holds(kiln__dtype dtype, kiln__dtype other)
{
    if (dtypes[other].kind == REAL)
        return dtypes[dtype].kind == REAL && dtypes[dtype].fraction >= dtypes[other].fraction;
    int digits = dtypes[other].kind == TRUTH ? 1 : 8 * (int)dtypes[other].bytes - (dtypes[other].kind == SIGNED);
    return dtypes[dtype].kind != REAL || digits <= dtypes[dtype].fraction + 1;
}

static double wrap(double value, kiln__dtype dtype)
{
    if (dtypes[dtype].kind == TRUTH)
        return value != 0;
    if (!(fabs(value) < 0x1p+63)) /* or is not exact */
        return value;
    int64_t whole = (int64_t)value;
    return kiln__dtype_value(&whole, 0, dtype); /* on little-endian machines, which have GPUs */
}

double kiln__dtype_round(double value, kiln__dtype dtype)
{
    if (dtypes[dtype].kind != REAL)
        return wrap(value, dtype);
    if (dtype == KILN__DTYPE_F64 || !isfinite(value))
        return value;
    double single = (double)(float)value, unit = kiln__dtype_unit(single, dtype);
    double rounded = rint(single / unit) * unit;
    return fabs(rounded) <= kiln__dtype_largest(dtype) ? rounded : copysign(INFINITY, rounded);
}
