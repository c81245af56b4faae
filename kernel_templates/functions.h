/* The functions that definitions of ops may call and that real.h does not have.
 *
 * The first ones round once or not at all: they have the same bits on the GPU (CUDA C++) and on the cpu (C); any NaN
 * equals any NaN. exp, log and tanh do so with math=portable, where they consist of such steps. Otherwise a GPU has
 * CUDA's own functions, the ones that PyTorch's kernels call, and the cpu these or those of the C library. With
 * math=fast a GPU has CUDA's fast forms where KILN_FAST is defined; src/lang/primitive.c has their bounds.
 *
 * A function is a line "//! function NAME(inputs)", lines of documentation that begin with "//!", and the C function
 * kiln_NAME. It is built from real.h, and from functions above it. A unit takes only the functions that it uses. */
#ifndef KILN_FUNCTIONS_H
#define KILN_FUNCTIONS_H

#include "real.h"

//! function div(x, y)
//! x / y, rounded once, but not with math=fast.
KILN_FN kiln_real kiln_div(kiln_real x, kiln_real y)
{
#if defined(KILN_FAST)
    kiln_real quotient;
    asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(x), "f"(y));
    return quotient;
#else
    return x / y;
#endif
}

//! function over(x, y)
//! x / y where y is the same for all elements. As PyTorch it multiplies by 1 / y, but not with math=portable.
KILN_FN kiln_real kiln_over(kiln_real x, kiln_real y)
{
#if defined(KILN_MATH_PORTABLE)
    return kiln_div(x, y);
#else
    return kiln_scale(x, (kiln_real)1 / y); /* which the compiler calculates where y is a number */
#endif
}

//! function sqrt(x)
//! The square root, rounded once, but not with math=fast; -0 stays -0, below 0 it is NaN.
KILN_FN kiln_real kiln_sqrt(kiln_real x)
{
#if defined(KILN_FAST)
    kiln_real root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
#else
    return KILN_LIBRARY(sqrt)(x);
#endif
}

//! function abs(x)
//! x without its sign.
KILN_FN kiln_real kiln_abs(kiln_real x)
{
#if defined(KILN_WHOLE)
    return x < 0 ? kiln_neg(x) : x;
#else
    return kiln_from_bits(kiln_bits(x) & (kiln_bits_t)-1 >> 1);
#endif
}

//! function copysign(x, y)
//! x with the sign of y. A NaN of f16 and f8e5m2 has none: a GPU drops it when it loads an element.
KILN_FN kiln_real kiln_copysign(kiln_real x, kiln_real y)
{
    kiln_bits_t magnitude = (kiln_bits_t)-1 >> 1;
#if (defined(KILN_DTYPE_F16) || defined(KILN_DTYPE_F8E5M2)) && !defined(__CUDACC__)
    y = y == y ? y : 0;
#endif
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

//! function stored(x)
//! x rounded to the dtype of the arrays, as if it were stored and loaded again. Where these hold whole numbers and x is
//! real, it is x.
KILN_FN kiln_real kiln_stored(kiln_real x)
{
#if defined(KILN_WHOLE_DTYPE) && !defined(KILN_WHOLE)
    return x;
#else
    return kiln_load(kiln_store(x));
#endif
}

//! function floor(x)
//! The greatest whole number that is not above x.
KILN_FN kiln_real kiln_floor(kiln_real x)
{
    return KILN_WHOLE_OR(x, KILN_LIBRARY(floor)(x));
}

//! function ceil(x)
//! The least whole number that is not below x.
KILN_FN kiln_real kiln_ceil(kiln_real x)
{
    return KILN_WHOLE_OR(x, KILN_LIBRARY(ceil)(x));
}

//! function trunc(x)
//! x without its fraction.
KILN_FN kiln_real kiln_trunc(kiln_real x)
{
    return KILN_WHOLE_OR(x, KILN_LIBRARY(trunc)(x));
}

//! function rint(x)
//! The nearest whole number, of two the even one.
KILN_FN kiln_real kiln_rint(kiln_real x)
{
    return KILN_WHOLE_OR(x, KILN_LIBRARY(rint)(x));
}

//! function fmod(x, y)
//! The remainder of x / y with the sign of x, exact. Of whole numbers it is -1 where y is 0.
KILN_FN kiln_real kiln_fmod(kiln_real x, kiln_real y)
{
#if defined(KILN_WHOLE)
    return y == 0 ? -1 : y == -1 ? 0 : x % y;
#else
    return KILN_LIBRARY(fmod)(x, y);
#endif
}

//! function quotient(x, y)
//! x / y of whole numbers, without its fraction; -1 where y is 0.
KILN_FN kiln_real kiln_quotient(kiln_real x, kiln_real y)
{
    return y == 0 ? -1 : y == -1 ? kiln_neg(x) : x / y;
}

//! function bitwise_and(x, y)
//! The bits that two whole numbers both have.
KILN_FN kiln_real kiln_bitwise_and(kiln_real x, kiln_real y)
{
    return x & y;
}

//! function bitwise_or(x, y)
//! The bits that one or both of two whole numbers have.
KILN_FN kiln_real kiln_bitwise_or(kiln_real x, kiln_real y)
{
    return x | y;
}

//! function bitwise_xor(x, y)
//! The bits that just one of two whole numbers has.
KILN_FN kiln_real kiln_bitwise_xor(kiln_real x, kiln_real y)
{
    return x ^ y;
}

//! function bitwise_not(x)
//! The bits that a whole number does not have; of a bool the other.
KILN_FN kiln_real kiln_bitwise_not(kiln_real x)
{
#if defined(KILN_DTYPE_BOOL)
    return x == 0;
#else
    return ~x;
#endif
}

//! function bitwise_left_shift(x, y)
//! x * 2^y of whole numbers, as it is stored; 0 where y is negative, or not below the bits of the dtype.
KILN_FN kiln_real kiln_bitwise_left_shift(kiln_real x, kiln_real y)
{
    const int bits = 8 * KILN_BYTES;
    return y < 0 || y >= bits ? 0 : (kiln_real)((kiln_bits_t)x << y);
}

//! function bitwise_right_shift(x, y)
//! x / 2^y of whole numbers, rounded down. Where y is negative or too large, it is 0, or -1 where x is negative.
KILN_FN kiln_real kiln_bitwise_right_shift(kiln_real x, kiln_real y)
{
#if defined(KILN_DTYPE_U8)
    const int most = 8;
#else
    const int most = 8 * KILN_BYTES - 1;
#endif
    return x >> (y < 0 || y > most ? most : y);
}

//! function exp(x)
//! e to the power of x. Portable and on the cpu within 2 ulp, rounded step by step.
KILN_FN kiln_real kiln_exp(kiln_real x)
{
#if defined(KILN_FAST)
    return __expf(x);
#elif defined(KILN_SHORT_EXP)
    kiln_real root; /* whose square is subnormal where exp(x) is */
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x * 0x1.715476p-1f));
    return root * root;
#elif defined(__CUDACC__) && !defined(KILN_MATH_PORTABLE)
    return KILN_LIBRARY(exp)(x);
#else
    /* x = n ln 2 + r with abs(r) below 0.35, a series in r, and two steps to 2^n, so that subnormals come out right. */
#if defined(KILN_DTYPE_F64)
    kiln_real within = kiln_min(kiln_max(x, (kiln_real)-746), (kiln_real)710);
    kiln_real n = kiln_rint(kiln_mul(within, (kiln_real)0x1.71547652b82fep+0));
    kiln_real r = kiln_fma(n, (kiln_real)-0x1.abc9e3b39803fp-56, kiln_fma(n, (kiln_real)-0x1.62e42fefa39efp-1, within));
    kiln_real p = (kiln_real)0x1.6124613a86d09p-33;
    p = kiln_fma(p, r, (kiln_real)0x1.1eed8eff8d898p-29);
    p = kiln_fma(p, r, (kiln_real)0x1.ae64567f544e4p-26);
    p = kiln_fma(p, r, (kiln_real)0x1.27e4fb7789f5cp-22);
    p = kiln_fma(p, r, (kiln_real)0x1.71de3a556c734p-19);
    p = kiln_fma(p, r, (kiln_real)0x1.a01a01a01a01ap-16);
    p = kiln_fma(p, r, (kiln_real)0x1.a01a01a01a01ap-13);
#else
    kiln_real within = kiln_min(kiln_max(x, (kiln_real)-105), (kiln_real)90);
    kiln_real n = kiln_rint(kiln_mul(within, (kiln_real)0x1.715476p+0));
    kiln_real r = kiln_fma(n, (kiln_real)0x1.05c61p-29, kiln_fma(n, (kiln_real)-0x1.62e43p-1, within));
    kiln_real p = (kiln_real)0x1.a01a01a01a01ap-13;
#endif
    p = kiln_fma(p, r, (kiln_real)0x1.6c16c16c16c17p-10);
    p = kiln_fma(p, r, (kiln_real)0x1.1111111111111p-7);
    p = kiln_fma(p, r, (kiln_real)0x1.5555555555555p-5);
    p = kiln_fma(p, r, (kiln_real)0x1.5555555555555p-3);
    p = kiln_fma(p, r, (kiln_real)0x1p-1);
    p = kiln_fma(p, r, (kiln_real)0x1p+0);
    p = kiln_fma(p, r, (kiln_real)0x1p+0);
    int power = (int)(x == x ? n : (kiln_real)0), half = power / 2;
#if defined(KILN_DTYPE_F64)
    kiln_real first = kiln_from_bits((kiln_bits_t)(half + 1023) << 52);
    kiln_real second = kiln_from_bits((kiln_bits_t)(power - half + 1023) << 52);
#else
    kiln_real first = kiln_from_bits((kiln_bits_t)(half + 127) << 23);
    kiln_real second = kiln_from_bits((kiln_bits_t)(power - half + 127) << 23);
#endif
    return kiln_mul(kiln_mul(p, first), second);
#endif
}

//! function log(x)
//! The natural logarithm. Portable and on the cpu within 2 ulp, rounded step by step. -inf for 0, NaN below.
KILN_FN kiln_real kiln_log(kiln_real x)
{
#if defined(KILN_FAST)
    return __logf(x);
#elif defined(__CUDACC__) && !defined(KILN_MATH_PORTABLE)
    return KILN_LIBRARY(log)(x);
#else
    /* x = 2^n (1 + f) with 1 + f around 1, and the series of log(1 + f) in s = f / (2 + f). */
#if defined(KILN_DTYPE_F64)
    int small = x < (kiln_real)0x1p-1022;
    kiln_bits_t bits = kiln_bits(small ? kiln_mul(x, (kiln_real)0x1p+54) : x);
    long long power = (long long)(bits - 0x3fe6a09e667f3bcdull) >> 52;
    kiln_real f = kiln_add(kiln_from_bits(bits - ((kiln_bits_t)power << 52)), (kiln_real)-1);
    kiln_real n = (kiln_real)(power - (small ? 54 : 0)), low = (kiln_real)0x1.abc9e3b39803fp-56;
#else
    int small = x < (kiln_real)0x1p-126;
    kiln_bits_t bits = kiln_bits(small ? kiln_mul(x, (kiln_real)0x1p+25) : x);
    int power = (int)(bits - 0x3f3504f3u) >> 23;
    kiln_real f = kiln_add(kiln_from_bits(bits - ((kiln_bits_t)power << 23)), (kiln_real)-1);
    kiln_real n = (kiln_real)(power - (small ? 25 : 0)), low = (kiln_real)-0x1.05c61p-29;
#endif
    kiln_real s = kiln_div(f, kiln_add(f, (kiln_real)2)), z = kiln_mul(s, s);
#if defined(KILN_DTYPE_F64)
    kiln_real p = (kiln_real)0x1.642c8590b2164p-4;
    p = kiln_fma(p, z, (kiln_real)0x1.8618618618618p-4);
    p = kiln_fma(p, z, (kiln_real)0x1.af286bca1af28p-4);
    p = kiln_fma(p, z, (kiln_real)0x1.e1e1e1e1e1e1ep-4);
    p = kiln_fma(p, z, (kiln_real)0x1.1111111111111p-3);
    p = kiln_fma(p, z, (kiln_real)0x1.3b13b13b13b14p-3);
    p = kiln_fma(p, z, (kiln_real)0x1.745d1745d1746p-3);
#else
    kiln_real p = (kiln_real)0x1.745d1745d1746p-3;
#endif
    p = kiln_fma(p, z, (kiln_real)0x1.c71c71c71c71cp-3);
    p = kiln_fma(p, z, (kiln_real)0x1.2492492492492p-2);
    p = kiln_fma(p, z, (kiln_real)0x1.999999999999ap-2);
    p = kiln_fma(p, z, (kiln_real)0x1.5555555555555p-1);
    kiln_real square = kiln_mul(kiln_mul((kiln_real)0.5, f), f);
    kiln_real rest = kiln_fma(s, kiln_fma(p, z, square), kiln_mul(n, low));
    kiln_real value = kiln_fma(n, (kiln_real)0x1.62e42fefa39efp-1, kiln_add(f, -kiln_add(square, -rest)));
    kiln_real infinite = (kiln_real)KILN_INFINITY;
    kiln_real beyond = x == 0 ? -infinite : x < 0 ? kiln_add(infinite, -infinite) : x;
    return x > 0 && x < infinite ? value : beyond;
#endif
}

//! function tanh(x)
//! The hyperbolic tangent. Portable and on the cpu within 4 ulp, rounded step by step.
KILN_FN kiln_real kiln_tanh(kiln_real x)
{
#if defined(KILN_FAST) && __CUDA_ARCH__ >= 750
    kiln_real tangent;
    asm("tanh.approx.f32 %0, %1;" : "=f"(tangent) : "f"(x));
    return tangent;
#elif defined(__CUDACC__) && !defined(KILN_MATH_PORTABLE)
    return KILN_LIBRARY(tanh)(x);
#else
    /* Of y = 2 abs(x): (exp(y) - 1) / (exp(y) + 1), with a series for exp(y) - 1 where that is small. */
    kiln_real y = kiln_mul((kiln_real)2, kiln_abs(x));
#if defined(KILN_DTYPE_F64)
    kiln_real p = (kiln_real)0x1.71b8ef6dcf572p-66;
    p = kiln_fma(p, y, (kiln_real)0x1.e542ba4020225p-62);
    p = kiln_fma(p, y, (kiln_real)0x1.2f49b46814157p-57);
    p = kiln_fma(p, y, (kiln_real)0x1.6827863b97d97p-53);
    p = kiln_fma(p, y, (kiln_real)0x1.952c77030ad4ap-49);
    p = kiln_fma(p, y, (kiln_real)0x1.ae7f3e733b81fp-45);
    p = kiln_fma(p, y, (kiln_real)0x1.ae7f3e733b81fp-41);
    p = kiln_fma(p, y, (kiln_real)0x1.93974a8c07c9dp-37);
    p = kiln_fma(p, y, (kiln_real)0x1.6124613a86d09p-33);
#else
    kiln_real p = (kiln_real)0x1.6124613a86d09p-33;
#endif
    p = kiln_fma(p, y, (kiln_real)0x1.1eed8eff8d898p-29);
    p = kiln_fma(p, y, (kiln_real)0x1.ae64567f544e4p-26);
    p = kiln_fma(p, y, (kiln_real)0x1.27e4fb7789f5cp-22);
    p = kiln_fma(p, y, (kiln_real)0x1.71de3a556c734p-19);
    p = kiln_fma(p, y, (kiln_real)0x1.a01a01a01a01ap-16);
    p = kiln_fma(p, y, (kiln_real)0x1.a01a01a01a01ap-13);
    p = kiln_fma(p, y, (kiln_real)0x1.6c16c16c16c17p-10);
    p = kiln_fma(p, y, (kiln_real)0x1.1111111111111p-7);
    p = kiln_fma(p, y, (kiln_real)0x1.5555555555555p-5);
    p = kiln_fma(p, y, (kiln_real)0x1.5555555555555p-3);
    p = kiln_fma(p, y, (kiln_real)0x1p-1);
    p = kiln_fma(p, y, (kiln_real)0x1p+0);
    kiln_real near = kiln_mul(p, y), far = kiln_div((kiln_real)2, kiln_add(kiln_exp(y), (kiln_real)1));
    kiln_real value = y < (kiln_real)1.1 ? kiln_div(near, kiln_add(near, (kiln_real)2)) : kiln_add((kiln_real)1, -far);
    return kiln_copysign(value, x);
#endif
}

//! function exp_add(x, y)
//! x + exp(y) as CUDA's compiler builds it: the sum is fused with the last multiplication of exp.
KILN_FN kiln_real kiln_exp_add(kiln_real x, kiln_real y)
{
#if defined(__CUDACC__) && !defined(KILN_MATH_PORTABLE) && !defined(KILN_FAST) && !defined(KILN_SHORT_EXP)
    return x + KILN_LIBRARY(exp)(y);
#else
    return kiln_add(x, kiln_exp(y));
#endif
}

//! function rsqrt(x)
//! 1 / sqrt(x); on a GPU as its instruction approximates it.
KILN_FN kiln_real kiln_rsqrt(kiln_real x)
{
#if defined(__CUDACC__)
    return KILN_LIBRARY(rsqrt)(x);
#else
    return kiln_div((kiln_real)1, kiln_sqrt(x));
#endif
}

//! function exp2(x)
//! 2 to the power of x.
KILN_FN kiln_real kiln_exp2(kiln_real x)
{
    return KILN_LIBRARY(exp2)(x);
}

//! function expm1(x)
//! exp(x) - 1, accurate where x is small.
KILN_FN kiln_real kiln_expm1(kiln_real x)
{
    return KILN_LIBRARY(expm1)(x);
}

//! function log1p(x)
//! log(1 + x), accurate where x is small.
KILN_FN kiln_real kiln_log1p(kiln_real x)
{
    return KILN_LIBRARY(log1p)(x);
}

//! function log2(x)
//! The logarithm to base 2.
KILN_FN kiln_real kiln_log2(kiln_real x)
{
#if defined(KILN_FAST)
    return __log2f(x);
#else
    return KILN_LIBRARY(log2)(x);
#endif
}

//! function log10(x)
//! The logarithm to base 10.
KILN_FN kiln_real kiln_log10(kiln_real x)
{
#if defined(KILN_FAST)
    return __log10f(x);
#else
    return KILN_LIBRARY(log10)(x);
#endif
}

//! function sin(x)
//! The sine of x in radians.
KILN_FN kiln_real kiln_sin(kiln_real x)
{
    return KILN_LIBRARY(sin)(x);
}

//! function cos(x)
//! The cosine of x in radians.
KILN_FN kiln_real kiln_cos(kiln_real x)
{
    return KILN_LIBRARY(cos)(x);
}

//! function tan(x)
//! The tangent of x in radians.
KILN_FN kiln_real kiln_tan(kiln_real x)
{
    return KILN_LIBRARY(tan)(x);
}

//! function asin(x)
//! The inverse sine, in radians.
KILN_FN kiln_real kiln_asin(kiln_real x)
{
    return KILN_LIBRARY(asin)(x);
}

//! function acos(x)
//! The inverse cosine, in radians.
KILN_FN kiln_real kiln_acos(kiln_real x)
{
    return KILN_LIBRARY(acos)(x);
}

//! function atan(x)
//! The inverse tangent, in radians.
KILN_FN kiln_real kiln_atan(kiln_real x)
{
    return KILN_LIBRARY(atan)(x);
}

//! function sinh(x)
//! The hyperbolic sine.
KILN_FN kiln_real kiln_sinh(kiln_real x)
{
    return KILN_LIBRARY(sinh)(x);
}

//! function cosh(x)
//! The hyperbolic cosine.
KILN_FN kiln_real kiln_cosh(kiln_real x)
{
    return KILN_LIBRARY(cosh)(x);
}

//! function asinh(x)
//! The inverse hyperbolic sine.
KILN_FN kiln_real kiln_asinh(kiln_real x)
{
    return KILN_LIBRARY(asinh)(x);
}

//! function acosh(x)
//! The inverse hyperbolic cosine.
KILN_FN kiln_real kiln_acosh(kiln_real x)
{
    return KILN_LIBRARY(acosh)(x);
}

//! function atanh(x)
//! The inverse hyperbolic tangent.
KILN_FN kiln_real kiln_atanh(kiln_real x)
{
    return KILN_LIBRARY(atanh)(x);
}

//! function erf(x)
//! The error function.
KILN_FN kiln_real kiln_erf(kiln_real x)
{
    return KILN_LIBRARY(erf)(x);
}

//! function erfc(x)
//! 1 - erf(x), accurate where x is large.
KILN_FN kiln_real kiln_erfc(kiln_real x)
{
    return KILN_LIBRARY(erfc)(x);
}

//! function lgamma(x)
//! The logarithm of the absolute value of the gamma function.
KILN_FN kiln_real kiln_lgamma(kiln_real x)
{
    return KILN_LIBRARY(lgamma)(x);
}

//! function atan2(x, y)
//! The angle of the point (y, x), from -pi to pi.
KILN_FN kiln_real kiln_atan2(kiln_real x, kiln_real y)
{
    return KILN_LIBRARY(atan2)(x, y);
}

//! function hypot(x, y)
//! sqrt(x * x + y * y), without overflow on the way.
KILN_FN kiln_real kiln_hypot(kiln_real x, kiln_real y)
{
    return KILN_LIBRARY(hypot)(KILN_QUIET(x), KILN_QUIET(y));
}

//! function pow(x, y)
//! x to the power of y. Of whole numbers the product wraps around, and 1 / x^-y has no fraction.
KILN_FN kiln_real kiln_pow(kiln_real x, kiln_real y)
{
#if defined(KILN_WHOLE)
    kiln_real power = 1;
    if (y < 0)
        return x == 1 ? 1 : x != -1 ? 0 : y % 2 != 0 ? -1 : 1;
    for (; y != 0; y /= 2, x = kiln_mul(x, x))
        power = y % 2 != 0 ? kiln_mul(power, x) : power;
    return power;
#else
    return KILN_LIBRARY(pow)(KILN_QUIET(x), KILN_QUIET(y));
#endif
}

//! end

#endif
