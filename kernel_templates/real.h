/* The numbers that templates and ops compute with, the same on the GPU (CUDA C++) and on the cpu (C).
 *
 *   kiln_real      what values are computed in: double for f64, float for f32, f16 and bf16
 *   kiln_store_t   what arrays hold: double, float, or the bits of a 16-bit type
 *   kiln_load      from an array's element to a value, exact
 *   kiln_store     from a value to an array's element, rounded once to nearest, ties to even
 *
 * Each primitive rounds once and is never contracted with its neighbours, so GPU and cpu agree bit for bit, signed
 * zeros, subnormals and infinities included; only the bits of a NaN may differ. Templates set one of KILN_DTYPE_F32,
 * KILN_DTYPE_F64, KILN_DTYPE_F16 and KILN_DTYPE_BF16, and KILN_INPUTS. */
#ifndef KILN_REAL_H
#define KILN_REAL_H

#if defined(__CUDACC__)
#define KILN_FN static __device__ __forceinline__ __attribute__((unused))
#else
#define KILN_FN static inline __attribute__((unused))
#endif

/* Otherwise gcc turns choices into branches, and vectorises no loop that has one. No value depends on it. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC optimize("no-trapping-math", "no-thread-jumps")
#endif

#if defined(__CUDACC__)
#define KILN_INFINITY __longlong_as_double(0x7ff0000000000000)
#else
#define KILN_INFINITY __builtin_inf()
#endif

/* The function of CUDA or of the C library by its name in C: KILN_LIBRARY(erf) is erff where values are floats. */
#if defined(__CUDACC__) && defined(KILN_DTYPE_F64)
#define KILN_LIBRARY(name) name
#elif defined(__CUDACC__)
#define KILN_LIBRARY(name) name##f
#elif defined(KILN_DTYPE_F64)
#define KILN_LIBRARY(name) __builtin_##name
#else
#define KILN_LIBRARY(name) __builtin_##name##f
#endif

/* The first KILN_INPUTS of three things: parameters, declarations, arguments or expressions. */
#if KILN_INPUTS == 1
#define KILN_TAKE(x, y, z) x
#elif KILN_INPUTS == 2
#define KILN_TAKE(x, y, z) x, y
#else
#define KILN_TAKE(x, y, z) x, y, z
#endif

#if defined(KILN_DTYPE_F64)
#define KILN_BYTES 8
typedef double kiln_real;
typedef double kiln_store_t;
typedef unsigned long long kiln_bits_t;
#elif defined(KILN_DTYPE_F32)
#define KILN_BYTES 4
typedef float kiln_real;
typedef float kiln_store_t;
typedef unsigned int kiln_bits_t;
#else
#define KILN_BYTES 2
typedef float kiln_real;
typedef unsigned short kiln_store_t;
typedef unsigned int kiln_bits_t;
#endif

/* ---- Primitives ------------------------------------------------------------------------------------------------
 *
 *   kiln_add, kiln_mul   a + b and a * b, rounded
 *   kiln_fma             a * b + c, rounded once
 *   kiln_min, kiln_max   NaN if either is NaN; -0 is below +0 (minimum and maximum of IEEE 754-2019)
 *   kiln_bits            the IEEE bits of a value
 *   kiln_from_bits       the value with these bits */

/* clang-format off */
#if defined(__CUDACC__) && defined(KILN_DTYPE_F64)

KILN_FN kiln_real kiln_add(kiln_real a, kiln_real b) { return __dadd_rn(a, b); }
KILN_FN kiln_real kiln_mul(kiln_real a, kiln_real b) { return __dmul_rn(a, b); }
KILN_FN kiln_real kiln_fma(kiln_real a, kiln_real b, kiln_real c) { return __fma_rn(a, b, c); }
KILN_FN kiln_bits_t kiln_bits(kiln_real x) { return (kiln_bits_t)__double_as_longlong(x); }
KILN_FN kiln_real kiln_from_bits(kiln_bits_t bits) { return __longlong_as_double((long long)bits); }

#elif defined(__CUDACC__)

KILN_FN kiln_real kiln_add(kiln_real a, kiln_real b) { return __fadd_rn(a, b); }
KILN_FN kiln_real kiln_mul(kiln_real a, kiln_real b) { return __fmul_rn(a, b); }
KILN_FN kiln_real kiln_fma(kiln_real a, kiln_real b, kiln_real c) { return __fmaf_rn(a, b, c); }
KILN_FN kiln_bits_t kiln_bits(kiln_real x) { return __float_as_uint(x); }
KILN_FN kiln_real kiln_from_bits(kiln_bits_t bits) { return __uint_as_float(bits); }

/* clang-format on */
#else /* the cpu: compiled with -ffp-contract=off */

KILN_FN kiln_real kiln_add(kiln_real a, kiln_real b)
{
    return a + b;
}

KILN_FN kiln_real kiln_mul(kiln_real a, kiln_real b)
{
    return a * b;
}

KILN_FN kiln_real kiln_fma(kiln_real a, kiln_real b, kiln_real c)
{
#if defined(KILN_DTYPE_F64)
    return __builtin_fma(a, b, c);
#else
    return __builtin_fmaf(a, b, c);
#endif
}

KILN_FN kiln_bits_t kiln_bits(kiln_real x)
{
    kiln_bits_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

KILN_FN kiln_real kiln_from_bits(kiln_bits_t bits)
{
    kiln_real x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(KILN_DTYPE_F64)

KILN_FN kiln_real kiln_min(kiln_real a, kiln_real b)
{
    kiln_real lesser;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(lesser) : "f"(a), "f"(b));
    return lesser;
}

KILN_FN kiln_real kiln_max(kiln_real a, kiln_real b)
{
    kiln_real greater;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(greater) : "f"(a), "f"(b));
    return greater;
}

#else /* only zeros can be equal and still differ: "or" and "and" of their bits choose the sign */

KILN_FN kiln_real kiln_min(kiln_real a, kiln_real b)
{
    kiln_real zero = kiln_from_bits(kiln_bits(a) | kiln_bits(b));
    kiln_real lesser = a > b ? b : a;
    kiln_real number = a == b && b == 0 ? zero : lesser;
    return b == b ? number : b;
}

KILN_FN kiln_real kiln_max(kiln_real a, kiln_real b)
{
    kiln_real zero = kiln_from_bits(kiln_bits(a) & kiln_bits(b));
    kiln_real greater = a < b ? b : a;
    kiln_real number = a == b && b == 0 ? zero : greater;
    return b == b ? number : b;
}

#endif

/* ---- Array elements -------------------------------------------------------------------------------------------- */

#if defined(KILN_DTYPE_F32) || defined(KILN_DTYPE_F64)

KILN_FN kiln_real kiln_load(kiln_store_t element)
{
    return element;
}

KILN_FN kiln_store_t kiln_store(kiln_real value)
{
    return value;
}

#elif defined(KILN_DTYPE_BF16)

KILN_FN kiln_real kiln_load(kiln_store_t element)
{
    return kiln_from_bits((kiln_bits_t)element << 16);
}

KILN_FN kiln_store_t kiln_store(kiln_real value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    kiln_store_t element;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element) : "f"(value));
    return element;
#else
    kiln_bits_t bits = kiln_bits(value);
    kiln_bits_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    kiln_bits_t quiet = bits | 0x400000u;
    return (kiln_store_t)((value == value ? rounded : quiet) >> 16);
#endif
}

#elif defined(__CUDACC__)

KILN_FN kiln_real kiln_load(kiln_store_t element)
{
    kiln_real value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element));
    return value;
}

KILN_FN kiln_store_t kiln_store(kiln_real value)
{
    kiln_store_t element;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element) : "f"(value));
    return element;
}

#else /* f16 on the cpu: an exponent is biased by 15 in a half and by 127 in a float */

KILN_FN kiln_real kiln_load(kiln_store_t element)
{
    kiln_bits_t sign = (element & 0x8000u) << 16;
    kiln_bits_t bits = (element & 0x7fffu) << 13;
    kiln_bits_t normal = bits + (112u << 23);
    kiln_bits_t special = bits + (224u << 23); /* infinity and NaN */
    kiln_bits_t subnormal = kiln_bits(kiln_from_bits(bits + (113u << 23)) - kiln_from_bits(113u << 23));
    kiln_bits_t large = bits < (31u << 23) ? normal : special;
    kiln_bits_t magnitude = bits < (1u << 23) ? subnormal : large;
    return kiln_from_bits(sign | magnitude);
}

KILN_FN kiln_store_t kiln_store(kiln_real value)
{
    kiln_bits_t sign = kiln_bits(value) >> 16 & 0x8000u;
    kiln_bits_t bits = kiln_bits(value) & 0x7fffffffu;
    kiln_bits_t normal = (bits - (112u << 23) + 0xfffu + (bits >> 13 & 1u)) >> 13;
    kiln_bits_t subnormal = kiln_bits(kiln_from_bits(bits) + 0.5f) - kiln_bits(0.5f); /* the sum rounds to 2^-24 */
    kiln_bits_t special = bits > (255u << 23) ? 0x7e00u : 0x7c00u;
    kiln_bits_t large = bits < (143u << 23) ? normal : special;
    kiln_bits_t magnitude = bits < (113u << 23) ? subnormal : large;
    return (kiln_store_t)(sign | magnitude);
}

#if defined(__F16C__)
#define KILN_LOAD8 1

/* Eight at a time in one instruction, which neither gcc 12 nor clang 14 finds in a loop over the functions above. */
KILN_FN void kiln_load8(kiln_real *values, const kiln_store_t *elements)
{
    short halves __attribute__((vector_size(16)));
    float floats __attribute__((vector_size(32)));
    __builtin_memcpy(&halves, elements, sizeof halves);
    floats = __builtin_ia32_vcvtph2ps256(halves);
    __builtin_memcpy(values, &floats, sizeof floats);
}

KILN_FN void kiln_store8(kiln_store_t *elements, const kiln_real *values)
{
    short halves __attribute__((vector_size(16)));
    float floats __attribute__((vector_size(32)));
    __builtin_memcpy(&floats, values, sizeof floats);
    halves = __builtin_ia32_vcvtps2ph256(floats, 0); /* 0: to nearest, ties to even */
    __builtin_memcpy(elements, &halves, sizeof halves);
}

#endif

#endif

#endif
