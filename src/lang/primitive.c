/* The table of functions. */
#include "lang/primitive.h"

#include "lang/dtype.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* X(name, number of arguments, cost, ulps, of whole numbers, portable, value of the arguments v). The C function is
 * kiln_NAME, of real.h or functions.h. The cost is a compiler's work for a call. `ulps` bounds the distance of CUDA's
 * function, which math=torch calls, from the cpu's: the errors of both together, as the CUDA C++ Programming Guide and
 * glibc's manual state them. 0: both have the same bits. Of whole numbers: whether it gives whole numbers then
 * (CLOSED), takes no other (WHOLE), or calculates real numbers (REAL). Portable: math=portable has a form with the
 * same bits everywhere. */
#define FUNCTIONS(X)                                                           \
    X(min, 2, 1, 0, CLOSED, true, lesser(v[0], v[1]))                          \
    X(max, 2, 1, 0, CLOSED, true, greater(v[0], v[1]))                         \
    X(fmin, 2, 3, 0, CLOSED, true, present(v[0], v[1], lesser(v[0], v[1])))    \
    X(fmax, 2, 3, 0, CLOSED, true, present(v[0], v[1], greater(v[0], v[1])))   \
    X(clamp, 3, 2, 0, CLOSED, true, lesser(greater(v[0], v[1]), v[2]))         \
    X(div, 2, 16, 0, REAL, true, v[0] / v[1])                                  \
    X(fma, 3, 1, 0, CLOSED, true, fma(v[0], v[1], v[2]))                       \
    X(fmod, 2, 60, 0, CLOSED, true, fmod(v[0], v[1]))                          \
    X(abs, 1, 1, 0, CLOSED, true, fabs(v[0]))                                  \
    X(copysign, 2, 1, 0, REAL, true, copysign(v[0], v[1]))                     \
    X(sqrt, 1, 16, 0, REAL, true, sqrt(v[0]))                                  \
    X(floor, 1, 1, 0, CLOSED, true, floor(v[0]))                               \
    X(ceil, 1, 1, 0, CLOSED, true, ceil(v[0]))                                 \
    X(trunc, 1, 1, 0, CLOSED, true, trunc(v[0]))                               \
    X(rint, 1, 1, 0, CLOSED, true, rint(v[0]))                                 \
    X(stored, 1, 2, 0, CLOSED, true, v[0])                                     \
    X(exp, 1, 18, 4, REAL, true, exp(v[0]))                                    \
    X(exp_add, 2, 19, 4, REAL, true, v[0] + exp(v[1]))                         \
    X(log, 1, 36, 4, REAL, true, log(v[0]))                                    \
    X(tanh, 1, 60, 6, REAL, true, tanh(v[0]))                                  \
    X(exp2, 1, 20, 4, REAL, false, exp2(v[0]))                                 \
    X(expm1, 1, 30, 3, REAL, false, expm1(v[0]))                               \
    X(log1p, 1, 40, 3, REAL, false, log1p(v[0]))                               \
    X(log2, 1, 30, 3, REAL, false, log2(v[0]))                                 \
    X(log10, 1, 40, 5, REAL, false, log10(v[0]))                               \
    X(rsqrt, 1, 8, 4, REAL, false, 1 / sqrt(v[0]))                             \
    X(sin, 1, 60, 4, REAL, false, sin(v[0]))                                   \
    X(cos, 1, 60, 4, REAL, false, cos(v[0]))                                   \
    X(tan, 1, 60, 6, REAL, false, tan(v[0]))                                   \
    X(asin, 1, 40, 4, REAL, false, asin(v[0]))                                 \
    X(acos, 1, 40, 4, REAL, false, acos(v[0]))                                 \
    X(atan, 1, 40, 4, REAL, false, atan(v[0]))                                 \
    X(sinh, 1, 50, 6, REAL, false, sinh(v[0]))                                 \
    X(cosh, 1, 40, 5, REAL, false, cosh(v[0]))                                 \
    X(asinh, 1, 60, 6, REAL, false, asinh(v[0]))                               \
    X(acosh, 1, 60, 7, REAL, false, acosh(v[0]))                               \
    X(atanh, 1, 60, 6, REAL, false, atanh(v[0]))                               \
    X(erf, 1, 50, 4, REAL, false, erf(v[0]))                                   \
    X(erfc, 1, 60, 10, REAL, false, erfc(v[0]))                                \
    X(lgamma, 1, 90, 12, REAL, false, lgamma(v[0]))                            \
    X(atan2, 2, 60, 5, REAL, false, atan2(v[0], v[1]))                         \
    X(hypot, 2, 40, 5, REAL, false, hypot(v[0], v[1]))                         \
    X(pow, 2, 90, 10, CLOSED, false, pow(v[0], v[1]))                          \
    X(quotient, 2, 20, 0, WHOLE, true, trunc(v[0] / v[1]))                     \
    X(bitwise_and, 2, 1, 0, WHOLE, true, (double)(whole(v[0]) & whole(v[1])))  \
    X(bitwise_or, 2, 1, 0, WHOLE, true, (double)(whole(v[0]) | whole(v[1])))   \
    X(bitwise_xor, 2, 1, 0, WHOLE, true, (double)(whole(v[0]) ^ whole(v[1])))  \
    X(bitwise_not, 1, 1, 0, WHOLE, true, (double)~whole(v[0]))                 \
    X(bitwise_left_shift, 2, 3, 0, WHOLE, true, ldexp(v[0], (int)whole(v[1]))) \
    X(bitwise_right_shift, 2, 3, 0, WHOLE, true, floor(ldexp(v[0], -(int)whole(v[1]))))

/* NaN if either is, -0 below +0, as kiln_min and kiln_max. */
static double lesser(double a, double b)
{
    if (a == b)
        return signbit(a) ? a : b;
    return a != a || a < b ? a : b;
}

static double greater(double a, double b)
{
    if (a == b)
        return signbit(a) ? b : a;
    return a != a || a > b ? a : b;
}

/* Of a value that a whole number has given. */
static int64_t whole(double value)
{
    return fabs(value) < 0x1p+63 ? (int64_t)value : 0;
}

/* The number where one of two is NaN, else `both`. */
static double present(double a, double b, double both)
{
    return a != a ? b : b != b ? a : both;
}

#define EVALUATE(name, arity, cost, ulps, domain, portable, value) \
    static double value_##name(const double *v)                    \
    {                                                              \
        return value;                                              \
    }
FUNCTIONS(EVALUATE)
#undef EVALUATE

static const kiln__primitive primitives[] = {
#define ROW(name, arity, cost, ulps, domain, portable, value) \
    { #name, arity, cost, ulps, KILN__DOMAIN_##domain, portable, value_##name },
    FUNCTIONS(ROW)
#undef ROW
};

enum {
#define NUMBER(name, arity, cost, ulps, domain, portable, value) NUMBER_##name,
    FUNCTIONS(NUMBER)
#undef NUMBER
        PRIMITIVES
};

/* The CUDA C++ Programming Guide (intrinsic functions) and the PTX ISA (div.full, sqrt.approx) state the bounds. */
static const kiln__fast_form fast_forms[] = {
    { "div", .ulps = 2 },
    { "sqrt", .relative = 0x1p-23 },
    { "exp", .ulps = 2, .cpu = 2, .slope = 1.173 },
    { "exp_add", .ulps = 2, .cpu = 2, .slope = 1.173 },
    { "log", .ulps = 3, .cpu = 2, .absolute = 0x1.816p-22 /* 2^-21.41 */ },
    { "log2", .ulps = 2, .cpu = 2, .absolute = 0x1p-22 },
    { "log10", .ulps = 3, .cpu = 3, .absolute = 0x1p-24 },
    { "tanh", .ulps = 2, .cpu = 4, .relative = 0x1p-11 },
};

const kiln__fast_form *kiln__primitive_fast(uint32_t i)
{
    for (size_t j = 0; j < sizeof(fast_forms) / sizeof(fast_forms[0]); j++)
        if (strcmp(primitives[i].name, fast_forms[j].name) == 0)
            return &fast_forms[j];
    return NULL;
}

const kiln__primitive *kiln__primitive_at(uint32_t i)
{
    return i < PRIMITIVES ? &primitives[i] : NULL;
}

uint32_t kiln__primitive_count(void)
{
    return PRIMITIVES;
}

uint32_t kiln__primitive_division(void)
{
    return NUMBER_div;
}

/* Other names of the same functions. */
static const struct {
    const char *name, *meant;
} aliases[] = {
    { "fabs", "abs" }, { "minimum", "min" }, { "maximum", "max" }, { "clip", "clamp" }, { "nearbyint", "rint" },
};

static int find_function(kiln__word name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (kiln__word_is(name, aliases[i].name))
            name = kiln__word_of(aliases[i].meant);
    for (int i = 0; i < PRIMITIVES; i++)
        if (kiln__word_is(name, primitives[i].name))
            return i;
    return -1;
}

int kiln__primitive_find(kiln__word name)
{
    int index = find_function(name);
    bool ends = name.length > 1 && name.text[name.length - 1] == 'f';
    return index < 0 && ends ? find_function((kiln__word){ name.text, name.length - 1 }) : index;
}

/* The errors of two functions are not relative to their results, which may be much smaller: exp_add where its terms
 * cancel, lgamma around its zeros. */
double kiln__primitive_scale(uint32_t i, const double *v, double value)
{
    bool cancels = i == NUMBER_exp_add || i == NUMBER_lgamma;
    return cancels && fabs(v[0]) > fabs(value) ? v[0] : value;
}

static double float_unit(double value)
{
    return kiln__dtype_unit(value, KILN__DTYPE_F32);
}

static double fast_error(const kiln__fast_form *form, double x, double value)
{
    double unit = float_unit(value), size = fmin(fabs(x), 104); /* beyond it exp is 0 or infinite */
    double number = fmax(form->relative * fabs(value), form->absolute);
    return fmax(number, (form->ulps + floor(form->slope * size)) * unit) + form->cpu * unit;
}

double kiln__primitive_fast_error(uint32_t i, const double *v, double value)
{
    const kiln__fast_form *form = kiln__primitive_fast(i);
    if (form == NULL || !isfinite(value))
        return 0;
    if (i == NUMBER_exp_add)
        return fast_error(form, v[1], exp(v[1])) + float_unit(fmax(fabs(v[0]), fabs(value)));
    return value != 0 || form->absolute > 0 ? fast_error(form, v[0], value) : 0;
}

bool kiln__primitive_stores(uint32_t i)
{
    return i == NUMBER_stored;
}
