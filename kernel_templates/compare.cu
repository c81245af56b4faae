//! template compare
//! about    found[0] += the number of elements in which x and y do not agree; found[1] = min(found[1], the least index of one)
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! size     n
//! arg      found    inout uint64[2]
//! arg      x        in dtype[n]
//! arg      y        in dtype[n]
//! arg      n        uint64 = n
//! arg      ulp      double -- |x - y| <= ulp * (the unit in the last place of y) + relative * |y| + absolute
//! arg      relative double
//! arg      absolute double
//! param    block 32..1024 step 32 = sm == 0 ? 1024 : 256 -- threads per block
//! param    elems 1..64 = sm == 0 ? 64 : 16               -- elements per thread
//! tile     block * elems
//! grid     (n + (tile - 1)) / tile
//! entry    kiln_compare align bytes

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values and real.h, and takes the rest of
 * this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_INPUTS    2
#define KILN_BLOCK     256
#define KILN_ELEMS     16
#define KILN_TILE      (KILN_BLOCK * KILN_ELEMS)
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
    int exponent = (int)(__double_as_longlong(value) >> 52 & 2047) - 1023;
    exponent = (exponent > KILN_LEAST ? exponent : KILN_LEAST) - KILN_FRACTION;
    return __longlong_as_double(exponent < -1022 ? 1ll << (exponent + 1074) : (long long)(exponent + 1023) << 52);
}

/* Whether numbers with other bits agree, as kiln__tolerance_agrees of src/spec/tolerance.c has it. */
KILN_FN bool kiln_agree(double x, double y, double ulp, double relative, double absolute)
{
    if (x != x || y != y)
        return x != x && y != y;
    if (ulp == 0 && relative == 0 && absolute == 0)
        return false;
    if (x == y)
        return true;
    if (fabs(x) == KILN_INFINITY || fabs(y) == KILN_INFINITY)
        return false;
    return fabs(x - y) <= ulp * kiln_unit(y) + relative * fabs(y) + absolute;
}

/* Elements whose bits differ are rare: a thread that finds one looks at its elements again, and only then in double. So the
 * first loop is as fast as memory. Both numbers found are 64 bits, whatever the dtype of the arrays. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    kiln_compare(unsigned long long *found, const kiln_store_t *x, const kiln_store_t *y, unsigned long long n,
                 double ulp, double relative, double absolute)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    const unsigned count = n - start < KILN_TILE ? (unsigned)(n - start) : KILN_TILE;
    unsigned wrong = 0, least = 0;
    kiln_raw_t differing = 0;

    x += start;
    y += start;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < count; i += KILN_BLOCK)
        differing |= (kiln_raw_t)(KILN_RAW(x[i]) ^ KILN_RAW(y[i]));
    if (differing == 0)
        return;
    for (unsigned i = threadIdx.x; i < count; i += KILN_BLOCK) {
        if (KILN_RAW(x[i]) != KILN_RAW(y[i]) &&
            !kiln_agree((double)kiln_load(x[i]), (double)kiln_load(y[i]), ulp, relative, absolute)) {
            least = wrong == 0 ? i : least;
            wrong++;
        }
    }
    if (wrong > 0) {
        atomicAdd(found, (unsigned long long)wrong);
        atomicMin(found + 1, start + least);
    }
}
