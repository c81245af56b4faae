/* The functions that definitions of ops may call and that real.h does not have. Each rounds as its comment says, on the
 * GPU (CUDA C++) and on the cpu (C) alike, so that both give the same bits; any NaN equals any NaN.
 *
 * A function is a line "//! function NAME(inputs)", lines of documentation that begin with "//!", and the C function
 * kiln_NAME. It is built from real.h, and from functions above it. A unit takes only the functions that it uses. */
#ifndef KILN_FUNCTIONS_H
#define KILN_FUNCTIONS_H

#include "real.h"

//! function div(x, y)
//! x / y, rounded once.
KILN_FN kiln_real kiln_div(kiln_real x, kiln_real y)
{
#if defined(__CUDACC__) && defined(KILN_DTYPE_F64)
    return __ddiv_rn(x, y);
#elif defined(__CUDACC__)
    return __fdiv_rn(x, y);
#else
    return x / y;
#endif
}

//! function sqrt(x)
//! The square root, rounded once; -0 stays -0, below 0 it is NaN.
KILN_FN kiln_real kiln_sqrt(kiln_real x)
{
#if defined(__CUDACC__) && defined(KILN_DTYPE_F64)
    return __dsqrt_rn(x);
#elif defined(__CUDACC__)
    return __fsqrt_rn(x);
#elif defined(KILN_DTYPE_F64)
    return __builtin_sqrt(x);
#else
    return __builtin_sqrtf(x);
#endif
}

//! function abs(x)
//! x without its sign.
KILN_FN kiln_real kiln_abs(kiln_real x)
{
    return kiln_from_bits(kiln_bits(x) & (kiln_bits_t)-1 >> 1);
}

//! function copysign(x, y)
//! x with the sign of y.
KILN_FN kiln_real kiln_copysign(kiln_real x, kiln_real y)
{
    kiln_bits_t magnitude = (kiln_bits_t)-1 >> 1;
    return kiln_from_bits((kiln_bits(x) & magnitude) | (kiln_bits(y) & ~magnitude));
}

//! function fmin(x, y)
//! The lesser, as C's fmin: a NaN is passed over where the other is a number; -0 is below +0.
KILN_FN kiln_real kiln_fmin(kiln_real x, kiln_real y)
{
    kiln_real lesser = kiln_min(x, y);
    return x != x ? y : y != y ? x : lesser;
}

//! function fmax(x, y)
//! The greater, as C's fmax: a NaN is passed over where the other is a number; -0 is below +0.
KILN_FN kiln_real kiln_fmax(kiln_real x, kiln_real y)
{
    kiln_real greater = kiln_max(x, y);
    return x != x ? y : y != y ? x : greater;
}

//! function clamp(x, y, z)
//! min(max(x, y), z): x clamped to [y, z]; NaN is kept.
KILN_FN kiln_real kiln_clamp(kiln_real x, kiln_real y, kiln_real z)
{
    return kiln_min(kiln_max(x, y), z);
}

//! function floor(x)
//! The greatest whole number that is not above x.
KILN_FN kiln_real kiln_floor(kiln_real x)
{
#if defined(KILN_DTYPE_F64) && defined(__CUDACC__)
    return floor(x);
#elif defined(__CUDACC__)
    return floorf(x);
#elif defined(KILN_DTYPE_F64)
    return __builtin_floor(x);
#else
    return __builtin_floorf(x);
#endif
}

//! function ceil(x)
//! The least whole number that is not below x.
KILN_FN kiln_real kiln_ceil(kiln_real x)
{
#if defined(KILN_DTYPE_F64) && defined(__CUDACC__)
    return ceil(x);
#elif defined(__CUDACC__)
    return ceilf(x);
#elif defined(KILN_DTYPE_F64)
    return __builtin_ceil(x);
#else
    return __builtin_ceilf(x);
#endif
}

//! function trunc(x)
//! x without its fraction.
KILN_FN kiln_real kiln_trunc(kiln_real x)
{
#if defined(KILN_DTYPE_F64) && defined(__CUDACC__)
    return trunc(x);
#elif defined(__CUDACC__)
    return truncf(x);
#elif defined(KILN_DTYPE_F64)
    return __builtin_trunc(x);
#else
    return __builtin_truncf(x);
#endif
}

//! function rint(x)
//! The nearest whole number, of two the even one.
KILN_FN kiln_real kiln_rint(kiln_real x)
{
#if defined(KILN_DTYPE_F64) && defined(__CUDACC__)
    return rint(x);
#elif defined(__CUDACC__)
    return rintf(x);
#elif defined(KILN_DTYPE_F64)
    return __builtin_rint(x);
#else
    return __builtin_rintf(x);
#endif
}

//! end

#endif
