/* The numbers that templates and ops compute with, the same on the GPU (CUDA C++) and on the cpu (C).
 *
 *   kiln_real      values are computed in it: double for f64, float for other real dtypes; for whole numbers long long
 *                  (i64) or int, or float where the op gives real numbers (KILN_REAL_F32)
 *   kiln_store_t   an element of an array of the dtype; a bool is a byte, 8 and 16 bits of a real dtype are its bits
 *   kiln_TYPE      an element of an array of any type: kiln_f16, kiln_u8
 *   kiln_out_t     an element of the result: of the dtype, unless KILN_OUT_... names another type
 *   kiln_load      from an array's element to a value
 *   kiln_store     from a value to an array's element, rounded once to nearest, ties to even
 *   kiln_store_out from a value to an element of the result
 *
 * Each primitive rounds once and is never contracted with its neighbours, so GPU and cpu agree bit for bit, signed
 * zeros, subnormals and infinities included; only the bits of a NaN may differ. Sums, differences and products of whole
 * numbers wrap around. Templates set one of KILN_DTYPE_F32, F64, F16, BF16, F8E4M3, F8E5M2, I8, I16, I32, I64, U8 and
 * BOOL, and KILN_INPUTS. */
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
/* gcc 12 loses terms of a sum of narrow whole numbers, where it removes partial redundancies. */
#if defined(KILN_REDUCES)
#pragma GCC optimize("no-tree-pre")
#endif
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

/* hypot(inf, NaN) and pow(NaN, 0) are numbers, but not in the C library where the NaN is a signaling one. */
#if defined(__CUDACC__)
#define KILN_QUIET(x) (x)
#else
#define KILN_QUIET(x) ((x) == (x) ? (x) : (kiln_real)__builtin_nan(""))
#endif

/* One thing for each input: KILN_ALL(M) is M(0) M(1) ..., KILN_EACH(M) has commas between. A template with out... and
 * s... has KILN_ALL_OUT, KILN_EACH_OUT and KILN_ALL_SCALARS likewise. A unit brings its own. */
#if !defined(KILN_UNIT)
#define KILN_ALL(M)      M(0)
#define KILN_EACH(M)     M(0)
#define KILN_OUTPUTS     1
#define KILN_ALL_OUT(M)  M(0)
#define KILN_EACH_OUT(M) M(0)
#define KILN_ALL_SCALARS(M)
#elif !defined(KILN_OUTPUTS)
#define KILN_OUTPUTS 1
#endif

/* Of input k: the type of its elements, one of them as a value, and the parameter of a function. Where inputs differ, a
 * unit sets KILN_TYPED, KILN_TYPE0, ... and KILN_VALUE0, ... */
#if defined(KILN_TYPED)
#define KILN_TYPE(k)           KILN_TYPE##k
#define KILN_VALUE(k, element) KILN_VALUE##k(element)
#else
#define KILN_TYPE(k)           kiln_store_t
#define KILN_VALUE(k, element) kiln_load(element)
#endif
#define KILN_PARAMETER(k) const KILN_TYPE(k) * x##k

/* Of output k: the type of its elements, a value as one of them, and the parameter of a function. For more than one,
 * and where values have several types (KILN_MIXED), a unit sets KILN_RESULT0, ... and KILN_STORE0, ... */
#if KILN_OUTPUTS > 1 || defined(KILN_MIXED)
#define KILN_RESULT(k)       KILN_RESULT##k
#define KILN_STORE(k, value) KILN_STORE##k(value)
#else
#define KILN_RESULT(k)       kiln_out_t
#define KILN_STORE(k, value) kiln_store_out(value)
#endif
#define KILN_OUTPUT(k) KILN_RESULT(k) * out##k

/* Behind other parameters and arguments: those of scalar k. */
#define KILN_SCALAR_PARAMETER(k) , double s##k
#if defined(KILN_MIXED)
#define KILN_SCALAR(k) , s##k
#else
#define KILN_SCALAR(k) , (kiln_real)s##k
#endif

/* An op of the index takes the number of the element, as its last argument. */
#if defined(KILN_INDEXED)
#define KILN_POSITION(index) , (long long)(index)
#else
#define KILN_POSITION(index)
#endif

/* In a cpu twin, whose parameters are the outputs and the inputs first: the arrays of input and of output k. */
#define KILN_ARGUMENT(k)     const KILN_TYPE(k) *const x##k = *(const KILN_TYPE(k) *const *)args[KILN_OUTPUTS + k];
#define KILN_OUT_ARGUMENT(k) KILN_RESULT(k) *const out##k = *(KILN_RESULT(k) *const *)args[k];

/* ---- Types ----------------------------------------------------------------------------------------------------- */

/* The bytes of an element, and PREFIX_TYPE: KILN_OF_DTYPE(kiln_load) is kiln_load_f32 where the dtype is f32. */
#if defined(KILN_DTYPE_F64)
#define KILN_BYTES            8
#define KILN_OF_DTYPE(prefix) prefix##_f64
#elif defined(KILN_DTYPE_F32)
#define KILN_BYTES            4
#define KILN_OF_DTYPE(prefix) prefix##_f32
#elif defined(KILN_DTYPE_F16)
#define KILN_BYTES            2
#define KILN_OF_DTYPE(prefix) prefix##_f16
#elif defined(KILN_DTYPE_BF16)
#define KILN_BYTES            2
#define KILN_OF_DTYPE(prefix) prefix##_bf16
#elif defined(KILN_DTYPE_F8E4M3)
#define KILN_BYTES            1
#define KILN_OF_DTYPE(prefix) prefix##_f8e4m3
#elif defined(KILN_DTYPE_F8E5M2)
#define KILN_BYTES            1
#define KILN_OF_DTYPE(prefix) prefix##_f8e5m2
#elif defined(KILN_DTYPE_I8)
#define KILN_BYTES            1
#define KILN_OF_DTYPE(prefix) prefix##_i8
#elif defined(KILN_DTYPE_I16)
#define KILN_BYTES            2
#define KILN_OF_DTYPE(prefix) prefix##_i16
#elif defined(KILN_DTYPE_I32)
#define KILN_BYTES            4
#define KILN_OF_DTYPE(prefix) prefix##_i32
#elif defined(KILN_DTYPE_I64)
#define KILN_BYTES            8
#define KILN_OF_DTYPE(prefix) prefix##_i64
#elif defined(KILN_DTYPE_U8)
#define KILN_BYTES            1
#define KILN_OF_DTYPE(prefix) prefix##_u8
#else
#define KILN_BYTES            1
#define KILN_OF_DTYPE(prefix) prefix##_bool
#endif

#if defined(KILN_OUT_F64)
#define KILN_OUT_BYTES      8
#define KILN_OF_OUT(prefix) prefix##_f64
#elif defined(KILN_OUT_F32)
#define KILN_OUT_BYTES      4
#define KILN_OF_OUT(prefix) prefix##_f32
#elif defined(KILN_OUT_F16)
#define KILN_OUT_BYTES      2
#define KILN_OF_OUT(prefix) prefix##_f16
#elif defined(KILN_OUT_BF16)
#define KILN_OUT_BYTES      2
#define KILN_OF_OUT(prefix) prefix##_bf16
#elif defined(KILN_OUT_F8E4M3)
#define KILN_OUT_BYTES      1
#define KILN_OF_OUT(prefix) prefix##_f8e4m3
#elif defined(KILN_OUT_F8E5M2)
#define KILN_OUT_BYTES      1
#define KILN_OF_OUT(prefix) prefix##_f8e5m2
#elif defined(KILN_OUT_I8)
#define KILN_OUT_BYTES      1
#define KILN_OF_OUT(prefix) prefix##_i8
#elif defined(KILN_OUT_I16)
#define KILN_OUT_BYTES      2
#define KILN_OF_OUT(prefix) prefix##_i16
#elif defined(KILN_OUT_I32)
#define KILN_OUT_BYTES      4
#define KILN_OF_OUT(prefix) prefix##_i32
#elif defined(KILN_OUT_I64)
#define KILN_OUT_BYTES      8
#define KILN_OF_OUT(prefix) prefix##_i64
#elif defined(KILN_OUT_U8)
#define KILN_OUT_BYTES      1
#define KILN_OF_OUT(prefix) prefix##_u8
#elif defined(KILN_OUT_BOOL)
#define KILN_OUT_BYTES      1
#define KILN_OF_OUT(prefix) prefix##_bool
#else
#define KILN_OUT_IS_DTYPE   1
#define KILN_OUT_BYTES      KILN_BYTES
#define KILN_OF_OUT(prefix) KILN_OF_DTYPE(prefix)
#endif

typedef double kiln_f64;
typedef float kiln_f32;
typedef unsigned short kiln_f16, kiln_bf16;
typedef unsigned char kiln_f8e4m3, kiln_f8e5m2, kiln_u8, kiln_bool;
typedef signed char kiln_i8;
typedef short kiln_i16;
typedef int kiln_i32;
typedef long long kiln_i64;
typedef KILN_OF_DTYPE(kiln) kiln_store_t;
typedef KILN_OF_OUT(kiln) kiln_out_t;

/* KILN_WHOLE_DTYPE: the arrays hold whole numbers, of which a bool is one. KILN_WHOLE: values are whole numbers too. */
#if defined(KILN_DTYPE_I8) || defined(KILN_DTYPE_I16) || defined(KILN_DTYPE_I32) || defined(KILN_DTYPE_I64) || \
    defined(KILN_DTYPE_U8) || defined(KILN_DTYPE_BOOL)
#define KILN_WHOLE_DTYPE 1
#endif
#if defined(KILN_WHOLE_DTYPE) && !defined(KILN_REAL_F32)
#define KILN_WHOLE 1
#endif

/* math=fast: functions.h has CUDA's fast forms, which are for floats alone. */
#if defined(KILN_MATH_FAST) && defined(__CUDACC__) && !defined(KILN_DTYPE_F64) && !defined(KILN_WHOLE)
#define KILN_FAST 1
#endif

/* Where an op reduces, exp is the greatest part of the work on values of 16 bits. These need fewer bits than a float
 * has, and functions.h takes three instructions instead of eight. */
#if defined(KILN_REDUCES) && (defined(KILN_DTYPE_F16) || defined(KILN_DTYPE_BF16)) && defined(__CUDACC__) && \
    !defined(KILN_MATH_PORTABLE) && !defined(KILN_WHOLE)
#define KILN_SHORT_EXP 1
#endif

#if defined(KILN_DTYPE_I64) && defined(KILN_WHOLE)
typedef long long kiln_real;
typedef unsigned long long kiln_bits_t;
#elif defined(KILN_WHOLE)
typedef int kiln_real;
typedef unsigned int kiln_bits_t;
#elif defined(KILN_DTYPE_F64)
typedef double kiln_real;
typedef unsigned long long kiln_bits_t;
#else
typedef float kiln_real;
typedef unsigned int kiln_bits_t;
#endif

/* One thing where values are whole numbers, another where they are real. */
#if defined(KILN_WHOLE)
#define KILN_WHOLE_OR(whole, real) (whole)
#else
#define KILN_WHOLE_OR(whole, real) (real)
#endif

/* ---- Primitives ------------------------------------------------------------------------------------------------
 *
 *   kiln_add, kiln_mul   a + b and a * b, rounded
 *   kiln_times           the same for a number b, where each step is rounded by itself
 *   kiln_scale           a * b, rounded, for a factor b that most specs know: it costs nothing where that is 1
 *   kiln_sub, kiln_neg   a - b, rounded, and -a
 *   kiln_choose          condition ? a : b
 *   kiln_fma             a * b + c, rounded once
 *   kiln_min, kiln_max   NaN if either is NaN; -0 is below +0 (minimum and maximum of IEEE 754-2019)
 *   kiln_bits            the IEEE bits of a real value
 *   kiln_from_bits       the real value with these bits
 *   kiln_float_bits      the bits of a float, whatever values are computed in
 *   kiln_float_from      the float with these bits */

#if defined(__CUDACC__)

KILN_FN unsigned int kiln_float_bits(float x)
{
    return __float_as_uint(x);
}

KILN_FN float kiln_float_from(unsigned int bits)
{
    return __uint_as_float(bits);
}

#else

KILN_FN unsigned int kiln_float_bits(float x)
{
    unsigned int bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

KILN_FN float kiln_float_from(unsigned int bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

#endif

/* clang-format off */
#if defined(KILN_WHOLE) /* the sign bit takes part in unsigned arithmetic, which wraps around */

KILN_FN kiln_real kiln_add(kiln_real a, kiln_real b) { return (kiln_real)((kiln_bits_t)a + (kiln_bits_t)b); }
KILN_FN kiln_real kiln_mul(kiln_real a, kiln_real b) { return (kiln_real)((kiln_bits_t)a * (kiln_bits_t)b); }
KILN_FN kiln_real kiln_sub(kiln_real a, kiln_real b) { return (kiln_real)((kiln_bits_t)a - (kiln_bits_t)b); }
KILN_FN kiln_real kiln_fma(kiln_real a, kiln_real b, kiln_real c) { return kiln_add(kiln_mul(a, b), c); }
KILN_FN kiln_real kiln_min(kiln_real a, kiln_real b) { return b < a ? b : a; }
KILN_FN kiln_real kiln_max(kiln_real a, kiln_real b) { return b > a ? b : a; }

#elif defined(__CUDACC__) && defined(KILN_DTYPE_F64)

KILN_FN kiln_real kiln_add(kiln_real a, kiln_real b) { return __dadd_rn(a, b); }
KILN_FN kiln_real kiln_mul(kiln_real a, kiln_real b) { return __dmul_rn(a, b); }
KILN_FN kiln_real kiln_fma(kiln_real a, kiln_real b, kiln_real c) { return __fma_rn(a, b, c); }
KILN_FN kiln_bits_t kiln_bits(kiln_real x) { return (kiln_bits_t)__double_as_longlong(x); }
KILN_FN kiln_real kiln_from_bits(kiln_bits_t bits) { return __longlong_as_double((long long)bits); }

#elif defined(__CUDACC__)

KILN_FN kiln_real kiln_add(kiln_real a, kiln_real b) { return __fadd_rn(a, b); }
KILN_FN kiln_real kiln_mul(kiln_real a, kiln_real b) { return __fmul_rn(a, b); }
KILN_FN kiln_real kiln_fma(kiln_real a, kiln_real b, kiln_real c) { return __fmaf_rn(a, b, c); }
KILN_FN kiln_bits_t kiln_bits(kiln_real x) { return kiln_float_bits(x); }
KILN_FN kiln_real kiln_from_bits(kiln_bits_t bits) { return kiln_float_from(bits); }

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

#if defined(KILN_WHOLE)

/* By its own instruction on a GPU. The least number has no opposite, and wraps around. ptxas takes the result of
 * abs.s64 for positive where it is converted, and forgets to wrap an opposite of 8 or 16 bits. */
KILN_FN kiln_real kiln_neg(kiln_real a)
{
#if defined(__CUDACC__) && defined(KILN_DTYPE_I64)
    asm("neg.s64 %0, %0;" : "+l"(a));
    return a;
#elif defined(__CUDACC__)
    asm("neg.s32 %0, %0;" : "+r"(a));
    return a;
#else
    return (kiln_real)(0 - (kiln_bits_t)a);
#endif
}

#else

KILN_FN kiln_real kiln_neg(kiln_real a)
{
    return -a;
}

KILN_FN kiln_real kiln_sub(kiln_real a, kiln_real b)
{
    return kiln_add(a, -b);
}

#endif

/* The threads of a warp seldom agree, so that a GPU has both values sooner than two branches. On the cpu one of them
 * may be a call of the C library. */
#if defined(__CUDACC__)
KILN_FN kiln_real kiln_choose(bool condition, kiln_real a, kiln_real b)
{
    return condition ? a : b;
}
#else
#define kiln_choose(condition, a, b) ((condition) ? (a) : (b))
#endif

/* ptxas joins a product by 2, 4, 8 or their inverses with the last product of a CUDA function, as of exp, and rounds
 * once: a subnormal number then has other bits. It joins no sum. */
KILN_FN kiln_real kiln_times(kiln_real a, kiln_real b)
{
#if defined(__CUDACC__) && !defined(KILN_WHOLE)
    return kiln_fma(a, b, -(kiln_real)0);
#else
    return kiln_mul(a, b);
#endif
}

KILN_FN kiln_real kiln_scale(kiln_real a, kiln_real b)
{
    return kiln_choose(b == 1, a, kiln_mul(a, b));
}

#if defined(KILN_WHOLE)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(KILN_DTYPE_F64)

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

/* ---- Array elements --------------------------------------------------------------------------------------------
 *
 * kiln_load_TYPE gives the number that an element of the type is. kiln_store_TYPE takes a value. A narrow real type
 * takes it as a float, so that an f64 is rounded twice, as in PyTorch. */

/* clang-format off */
KILN_FN double kiln_load_f64(kiln_f64 element) { return element; }
KILN_FN float kiln_load_f32(kiln_f32 element) { return element; }
KILN_FN int kiln_load_i8(kiln_i8 element) { return element; }
KILN_FN int kiln_load_i16(kiln_i16 element) { return element; }
KILN_FN int kiln_load_i32(kiln_i32 element) { return element; }
KILN_FN long long kiln_load_i64(kiln_i64 element) { return element; }
KILN_FN int kiln_load_u8(kiln_u8 element) { return element; }
KILN_FN int kiln_load_bool(kiln_bool element) { return element != 0; }

KILN_FN kiln_f64 kiln_store_f64(kiln_real value) { return (double)value; }
KILN_FN kiln_f32 kiln_store_f32(kiln_real value) { return (float)value; }
KILN_FN kiln_bool kiln_store_bool(kiln_real value) { return value != 0; }
/* clang-format on */

/* Without its fraction. A value that int or long long does not hold becomes the nearest of these, NaN of a float
 * becomes 0 in int, and any other NaN the least: so do the instructions of a GPU. */
#if defined(KILN_WHOLE)

KILN_FN int kiln_to_int(kiln_real value)
{
    return (int)value;
}

KILN_FN long long kiln_to_long(kiln_real value)
{
    return (long long)value;
}

#elif defined(__CUDACC__) && defined(KILN_DTYPE_F64) /* a cast of a constant out of range has no value in C++ */

KILN_FN int kiln_to_int(kiln_real value)
{
    return __double2int_rz(value);
}

KILN_FN long long kiln_to_long(kiln_real value)
{
    return __double2ll_rz(value);
}

#elif defined(__CUDACC__)

KILN_FN int kiln_to_int(kiln_real value)
{
    return __float2int_rz(value);
}

KILN_FN long long kiln_to_long(kiln_real value)
{
    return __float2ll_rz(value);
}

#else

KILN_FN int kiln_to_int(kiln_real value)
{
    const int least = -0x7fffffff - 1, most = 0x7fffffff;
    const int none = sizeof(kiln_real) == sizeof(double) ? least : 0;
    kiln_real within = value > (kiln_real)-0x1p+31 ? value : (kiln_real)-0x1p+31;
    return value != value ? none : within >= (kiln_real)0x1p+31 ? most : (int)within;
}

KILN_FN long long kiln_to_long(kiln_real value)
{
    const long long least = -0x7fffffffffffffff - 1, most = 0x7fffffffffffffff;
    return !(value > (kiln_real)-0x1p+63) ? least : value >= (kiln_real)0x1p+63 ? most : (long long)value;
}

#endif

/* clang-format off */
KILN_FN kiln_i8 kiln_store_i8(kiln_real value) { return (kiln_i8)kiln_to_int(value); }
KILN_FN kiln_i16 kiln_store_i16(kiln_real value) { return (kiln_i16)kiln_to_int(value); }
KILN_FN kiln_i32 kiln_store_i32(kiln_real value) { return kiln_to_int(value); }
KILN_FN kiln_i64 kiln_store_i64(kiln_real value) { return kiln_to_long(value); }
KILN_FN kiln_u8 kiln_store_u8(kiln_real value) { return (kiln_u8)kiln_to_long(value); }
/* clang-format on */

KILN_FN float kiln_load_bf16(kiln_bf16 element)
{
    return kiln_float_from((unsigned int)element << 16);
}

KILN_FN kiln_bf16 kiln_store_bf16(kiln_real value)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    kiln_bf16 element;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element) : "f"((float)value));
    return element;
#else
    unsigned int bits = kiln_float_bits((float)value);
    unsigned int rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    unsigned int quiet = bits | 0x400000u;
    return (kiln_bf16)((value == value ? rounded : quiet) >> 16);
#endif
}

#if defined(__CUDACC__)

KILN_FN float kiln_load_f16(kiln_f16 element)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element));
    return value;
}

KILN_FN kiln_f16 kiln_store_f16(kiln_real value)
{
    kiln_f16 element;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element) : "f"((float)value));
    return element;
}

#else /* f16 on the cpu: an exponent is biased by 15 in a half and by 127 in a float */

KILN_FN float kiln_load_f16(kiln_f16 element)
{
    unsigned int sign = (element & 0x8000u) << 16;
    unsigned int bits = (element & 0x7fffu) << 13;
    unsigned int normal = bits + (112u << 23);
    unsigned int special = bits + (224u << 23); /* infinity and NaN */
    unsigned int subnormal = kiln_float_bits(kiln_float_from(bits + (113u << 23)) - kiln_float_from(113u << 23));
    unsigned int large = bits < (31u << 23) ? normal : special;
    unsigned int magnitude = bits < (1u << 23) ? subnormal : large;
    return kiln_float_from(sign | magnitude);
}

KILN_FN kiln_f16 kiln_store_f16(kiln_real value)
{
    unsigned int sign = kiln_float_bits((float)value) >> 16 & 0x8000u;
    unsigned int bits = kiln_float_bits((float)value) & 0x7fffffffu;
    unsigned int normal = (bits - (112u << 23) + 0xfffu + (bits >> 13 & 1u)) >> 13;
    unsigned int subnormal =
        kiln_float_bits(kiln_float_from(bits) + 0.5f) - kiln_float_bits(0.5f); /* the sum rounds to 2^-24 */
    unsigned int special = bits > (255u << 23) ? 0x7e00u : 0x7c00u;
    unsigned int large = bits < (143u << 23) ? normal : special;
    unsigned int magnitude = bits < (113u << 23) ? subnormal : large;
    return (kiln_f16)(sign | magnitude);
}

#endif

/* f8e5m2 is the upper half of f16, rounded from a float at once. */
KILN_FN float kiln_load_f8e5m2(kiln_f8e5m2 element)
{
    return kiln_load_f16((kiln_f16)(element << 8));
}

KILN_FN kiln_f8e5m2 kiln_store_f8e5m2(kiln_real value)
{
    unsigned int sign = kiln_float_bits((float)value) >> 24 & 0x80u;
    unsigned int bits = kiln_float_bits((float)value) & 0x7fffffffu;
    unsigned int normal = (bits - (112u << 23) + 0xfffffu + (bits >> 21 & 1u)) >> 21;
    unsigned int subnormal =
        kiln_float_bits(kiln_float_from(bits) + 128.0f) - kiln_float_bits(128.0f); /* rounds to 2^-16 */
    unsigned int special = bits > (255u << 23) ? 0x7fu : 0x7cu;
    unsigned int large = bits < (143u << 23) ? normal : special;
    unsigned int magnitude = bits < (113u << 23) ? subnormal : large;
    return (kiln_f8e5m2)(sign | magnitude);
}

/* f8e4m3 has exponents biased by 7 and no infinity: numbers that round beyond 448 become NaN, as in PyTorch. */
KILN_FN float kiln_load_f8e4m3(kiln_f8e4m3 element)
{
    unsigned int sign = (element & 0x80u) << 24;
    unsigned int bits = (element & 0x7fu) << 20;
    unsigned int normal = bits + (120u << 23);
    unsigned int subnormal = kiln_float_bits(kiln_float_from(bits + (121u << 23)) - kiln_float_from(121u << 23));
    unsigned int number = bits < (1u << 23) ? subnormal : normal;
    return kiln_float_from(sign | ((element & 0x7fu) == 0x7fu ? 0x7fc00000u : number));
}

KILN_FN kiln_f8e4m3 kiln_store_f8e4m3(kiln_real value)
{
    unsigned int sign = kiln_float_bits((float)value) >> 24 & 0x80u;
    unsigned int bits = kiln_float_bits((float)value) & 0x7fffffffu;
    unsigned int normal = (bits - (120u << 23) + 0x7ffffu + (bits >> 20 & 1u)) >> 20;
    unsigned int subnormal =
        kiln_float_bits(kiln_float_from(bits) + 16384.0f) - kiln_float_bits(16384.0f); /* rounds to 2^-9 */
    unsigned int number = bits < (121u << 23) ? subnormal : normal;
    return (kiln_f8e4m3)(sign | (bits < 0x43f00000u && number < 0x7fu ? number : 0x7fu));
}

KILN_FN kiln_real kiln_load(kiln_store_t element)
{
    return (kiln_real)KILN_OF_DTYPE(kiln_load)(element);
}

KILN_FN kiln_store_t kiln_store(kiln_real value)
{
    return KILN_OF_DTYPE(kiln_store)(value);
}

KILN_FN kiln_out_t kiln_store_out(kiln_real value)
{
    return KILN_OF_OUT(kiln_store)(value);
}

#if defined(__F16C__) && !defined(__CUDACC__) && defined(KILN_DTYPE_F16) && defined(KILN_OUT_IS_DTYPE)
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

/* ---- Words ----------------------------------------------------------------------------------------------------- */

#if defined(__CUDACC__) && defined(KILN_VECTOR) && defined(KILN_ALL_OUT)

/* A word is what one access moves: KILN_VECTOR elements of an input or of the result, or fewer. */
struct alignas(32) kiln_word32 {
    unsigned long long a, b, c, d;
};

template <int bytes> struct kiln_word;
template <> struct kiln_word<1> {
    typedef unsigned char type;
};
template <> struct kiln_word<2> {
    typedef unsigned short type;
};
template <> struct kiln_word<4> {
    typedef unsigned int type;
};
template <> struct kiln_word<8> {
    typedef uint2 type;
};
template <> struct kiln_word<16> {
    typedef uint4 type;
};
template <> struct kiln_word<32> {
    typedef kiln_word32 type;
};

/* Of inputs with one element for a row, which no access reads by words. */
template <int bytes> struct kiln_no_word {
    uint4 parts[bytes / 16];
};
template <> struct kiln_word<64> {
    typedef kiln_no_word<64> type;
};
template <> struct kiln_word<128> {
    typedef kiln_no_word<128> type;
};

template <typename T, int lanes = KILN_VECTOR> union kiln_lanes {
    typedef typename kiln_word<lanes * sizeof(T)>::type word_t;
    word_t word;
    T lane[lanes];
};

#ifdef KILN_CACHE

template <typename W> KILN_FN W kiln_fetch_stream(const W *from)
{
    return __ldcs(from);
}

template <int bytes> KILN_FN kiln_no_word<bytes> kiln_fetch_stream(const kiln_no_word<bytes> *from)
{
    return *from;
}

KILN_FN kiln_word32 kiln_fetch_stream(const kiln_word32 *from)
{
    kiln_word32 w;
    asm volatile("ld.global.cs.v4.b64 {%0, %1, %2, %3}, [%4];"
                 : "=l"(w.a), "=l"(w.b), "=l"(w.c), "=l"(w.d)
                 : "l"(__cvta_generic_to_global(from)));
    return w;
}

template <typename W> KILN_FN void kiln_put_stream(W *to, W w)
{
    __stcs(to, w);
}

KILN_FN void kiln_put_stream(kiln_word32 *to, kiln_word32 w)
{
    asm volatile("st.global.cs.v4.b64 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(to)), "l"(w.a), "l"(w.b), "l"(w.c), "l"(w.d)
                 : "memory");
}

template <typename T> KILN_FN typename kiln_lanes<T>::word_t kiln_fetch(const T *array, unsigned index)
{
    const typename kiln_lanes<T>::word_t *from = (const typename kiln_lanes<T>::word_t *)array + index;
    return KILN_CACHE == KILN_CACHE_PLAIN ? *from : kiln_fetch_stream(from);
}

template <typename T> KILN_FN void kiln_put(T *array, unsigned index, typename kiln_lanes<T>::word_t w)
{
    typename kiln_lanes<T>::word_t *to = (typename kiln_lanes<T>::word_t *)array + index;
    if (KILN_CACHE == KILN_CACHE_PLAIN)
        *to = w;
    else
        kiln_put_stream(to, w);
}

#endif
#endif

/* ---- Strides -------------------------------------------------------------------------------------------------- */

#if defined(KILN_DIMS)

/* The argument of strides: the dimensions over which a kernel runs, the innermost first. The extents multiply to n. */
typedef struct kiln_view {
    unsigned long long extent[KILN_DIMS];
    unsigned magic[KILN_DIMS], shift[KILN_DIMS]; /* of a division of 32 bits by the extent, see kiln_divide */
    long long stride[KILN_OUTPUTS + KILN_INPUTS][KILN_DIMS]; /* in elements, of the outputs, then of the inputs */
} kiln_view;

#endif

#endif
