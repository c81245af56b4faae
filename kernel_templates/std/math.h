/* The functions for float and double are the compiler's own. */
#ifndef KILN_STD_MATH_H
#define KILN_STD_MATH_H

#ifndef M_E
#define M_E 2.7182818284590452354
#endif
#ifndef M_LOG2E
#define M_LOG2E 1.4426950408889634074
#endif
#ifndef M_LOG10E
#define M_LOG10E 0.43429448190325182765
#endif
#ifndef M_LN2
#define M_LN2 0.69314718055994530942
#endif
#ifndef M_LN10
#define M_LN10 2.30258509299404568402
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#ifndef M_PI_2
#define M_PI_2 1.57079632679489661923
#endif
#ifndef M_PI_4
#define M_PI_4 0.78539816339744830962
#endif
#ifndef M_1_PI
#define M_1_PI 0.31830988618379067154
#endif
#ifndef M_2_PI
#define M_2_PI 0.63661977236758134308
#endif
#ifndef M_2_SQRTPI
#define M_2_SQRTPI 1.12837916709551257390
#endif
#ifndef M_SQRT2
#define M_SQRT2 1.41421356237309504880
#endif
#ifndef M_SQRT1_2
#define M_SQRT1_2 0.70710678118654752440
#endif

#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#endif
#ifndef HUGE_VAL
#define HUGE_VAL ((double)INFINITY)
#endif

/* What std allows besides float and double: integers count as double, and of two types the wider one decides. */
namespace kiln_std
{
template <class T> struct number {
};
template <class T> struct whole {
};
#define KILN_STD_WHOLE(t)          \
    template <> struct number<t> { \
        typedef double type;       \
    };                             \
    template <> struct whole<t> {  \
        typedef double type;       \
    };
KILN_STD_WHOLE(char)
KILN_STD_WHOLE(signed char)
KILN_STD_WHOLE(unsigned char)
KILN_STD_WHOLE(short)
KILN_STD_WHOLE(unsigned short)
KILN_STD_WHOLE(int)
KILN_STD_WHOLE(unsigned)
KILN_STD_WHOLE(long)
KILN_STD_WHOLE(unsigned long)
KILN_STD_WHOLE(long long)
KILN_STD_WHOLE(unsigned long long)
#undef KILN_STD_WHOLE
template <> struct number<float> {
    typedef float type;
};
template <> struct number<double> {
    typedef double type;
};
template <class A, class B> struct wider {
    typedef double type;
};
template <> struct wider<float, float> {
    typedef float type;
};
} // namespace kiln_std

#define KILN_STD_ONE(f)                                                           \
    template <class T> __device__ inline typename kiln_std::whole<T>::type f(T x) \
    {                                                                             \
        return ::f((double)x);                                                    \
    }
#define KILN_STD_TWO(f)                                                       \
    template <class A, class B, class P = typename kiln_std::number<A>::type, \
              class Q = typename kiln_std::number<B>::type>                   \
    __device__ inline typename kiln_std::wider<P, Q>::type f(A a, B b)        \
    {                                                                         \
        typedef typename kiln_std::wider<P, Q>::type type;                    \
        return ::f((type)a, (type)b);                                         \
    }
KILN_STD_ONE(acos)
KILN_STD_ONE(acosh)
KILN_STD_ONE(asin)
KILN_STD_ONE(asinh) KILN_STD_ONE(atan) KILN_STD_ONE(atanh) KILN_STD_ONE(cbrt) KILN_STD_ONE(ceil) KILN_STD_ONE(cos)
    KILN_STD_ONE(cosh) KILN_STD_ONE(erf) KILN_STD_ONE(erfc) KILN_STD_ONE(exp) KILN_STD_ONE(exp2) KILN_STD_ONE(expm1)
        KILN_STD_ONE(fabs) KILN_STD_ONE(floor) KILN_STD_ONE(lgamma) KILN_STD_ONE(log) KILN_STD_ONE(log10)
            KILN_STD_ONE(log1p) KILN_STD_ONE(log2) KILN_STD_ONE(logb) KILN_STD_ONE(nearbyint) KILN_STD_ONE(rint)
                KILN_STD_ONE(round) KILN_STD_ONE(sin) KILN_STD_ONE(sinh) KILN_STD_ONE(sqrt) KILN_STD_ONE(tan)
                    KILN_STD_ONE(tanh) KILN_STD_ONE(tgamma) KILN_STD_ONE(trunc) KILN_STD_TWO(atan2)
                        KILN_STD_TWO(copysign) KILN_STD_TWO(fdim) KILN_STD_TWO(fmax) KILN_STD_TWO(fmin)
                            KILN_STD_TWO(fmod) KILN_STD_TWO(hypot) KILN_STD_TWO(nextafter) KILN_STD_TWO(pow)
                                KILN_STD_TWO(remainder)
#undef KILN_STD_ONE
#undef KILN_STD_TWO

#endif
