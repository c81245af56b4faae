/* The cpu twin of compare.cu, which declares the template. Compiles as it stands, for f32. A unit sets KILN_UNIT,
 * brings its own values and real.h, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_INPUTS    2
#define KILN_TILE      65536
#include "real.h"
#endif

/* Of a real number: the bits of the fraction and the least exponent that is normal. */
#if defined(KILN_DTYPE_F64)
#define KILN_FRACTION 52
#define KILN_LEAST    -1022
#elif defined(KILN_DTYPE_F32)
#define KILN_FRACTION 23
#define KILN_LEAST    -126
#elif defined(KILN_DTYPE_F16)
#define KILN_FRACTION 10
#define KILN_LEAST    -14
#elif defined(KILN_DTYPE_F8E4M3)
#define KILN_FRACTION 3
#define KILN_LEAST    -6
#elif defined(KILN_DTYPE_F8E5M2)
#define KILN_FRACTION 2
#define KILN_LEAST    -14
#else
#define KILN_FRACTION 7
#define KILN_LEAST    -126
#endif

/* The bits of an element. */
#if defined(KILN_DTYPE_F32) || defined(KILN_DTYPE_F64)
typedef kiln_bits_t kiln_raw_t;
#define KILN_RAW(element) kiln_bits(element)
#else
typedef kiln_store_t kiln_raw_t;
#define KILN_RAW(element) (element)
#endif

/* The unit in the last place of a finite number, as kiln__dtype_unit of src/lang/dtype.c has it. */
KILN_FN double kiln_unit(double value)
{
    unsigned long long bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52 & 2047) - 1023;
    exponent = (exponent > KILN_LEAST ? exponent : KILN_LEAST) - KILN_FRACTION;
    bits = exponent < -1022 ? 1ull << (exponent + 1074) : (unsigned long long)(exponent + 1023) << 52;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

typedef struct kiln_bounds {
    double ulp, relative, absolute;
} kiln_bounds;

/* Whether numbers with other bits agree, as kiln__tolerance_agrees of src/spec/tolerance.c has it. */
KILN_FN int kiln_agree(double x, double y, const kiln_bounds *bounds)
{
    if (x != x || y != y)
        return x != x && y != y;
    if (bounds->ulp == 0 && bounds->relative == 0 && bounds->absolute == 0)
        return 0;
    if (x == y)
        return 1;
    if (__builtin_fabs(x) == KILN_INFINITY || __builtin_fabs(y) == KILN_INFINITY)
        return 0;
    return __builtin_fabs(x - y) <=
           bounds->ulp * kiln_unit(y) + bounds->relative * __builtin_fabs(y) + bounds->absolute;
}

/* Adds wrong elements of which the first is number `least`. Several threads do so at once. */
static void kiln_note(unsigned long long *found, unsigned long long wrong, unsigned long long least)
{
    unsigned long long before = __atomic_load_n(found + 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(found, wrong, __ATOMIC_RELAXED);
    while (least < before &&
           !__atomic_compare_exchange_n(found + 1, &before, least, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* Elements whose bits differ are rare: only a block that has one is looked at again, and only then in double. */
static void kiln_compare(unsigned long long *found, const kiln_store_t *x, const kiln_store_t *y,
                         unsigned long long begin, unsigned long long end, const kiln_bounds *bounds)
{
    unsigned long long wrong = 0, least = 0;
    kiln_raw_t differing = 0;

    for (unsigned long long i = begin; i < end; i++)
        differing |= (kiln_raw_t)(KILN_RAW(x[i]) ^ KILN_RAW(y[i]));
    if (differing == 0)
        return;
    for (unsigned long long i = begin; i < end; i++) {
        if (KILN_RAW(x[i]) != KILN_RAW(y[i]) && !kiln_agree(kiln_load(x[i]), kiln_load(y[i]), bounds)) {
            least = wrong == 0 ? i : least;
            wrong++;
        }
    }
    if (wrong > 0)
        kiln_note(found, wrong, least);
}

/* Compares in blocks begin to end - 1 of the grid. args[i] points to parameter i. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const unsigned long long n = *(const unsigned long long *)args[3];
    const kiln_bounds bounds = { *(const double *)args[4], *(const double *)args[5], *(const double *)args[6] };

    for (unsigned long long block = begin; block < end; block++) {
        const unsigned long long start = block * KILN_TILE;
        kiln_compare(*(unsigned long long *const *)args[0], *(const kiln_store_t *const *)args[1],
                     *(const kiln_store_t *const *)args[2], start, n - start < KILN_TILE ? n : start + KILN_TILE,
                     &bounds);
    }
}
