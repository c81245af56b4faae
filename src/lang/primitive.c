#include "lang/primitive.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* Name, how many arguments, cost, value of the arguments v. */
#define FUNCTIONS(X)                                  \
    X(min, 2, 1, lesser(v[0], v[1]))                  \
    X(max, 2, 1, greater(v[0], v[1]))                 \
    X(fmin, 2, 3, fmin(v[0], v[1]))                   \
    X(fmax, 2, 3, fmax(v[0], v[1]))                   \
    X(clamp, 3, 2, lesser(greater(v[0], v[1]), v[2])) \
    X(fma, 3, 1, fma(v[0], v[1], v[2]))               \
    X(abs, 1, 1, fabs(v[0]))                          \
    X(copysign, 2, 1, copysign(v[0], v[1]))           \
    X(sqrt, 1, 16, sqrt(v[0]))                        \
    X(floor, 1, 1, floor(v[0]))                       \
    X(ceil, 1, 1, ceil(v[0]))                         \
    X(trunc, 1, 1, trunc(v[0]))                       \
    X(rint, 1, 1, rint(v[0]))                         \
    X(exp, 1, 18, exp(v[0]))                          \
    X(log, 1, 36, log(v[0]))                          \
    X(tanh, 1, 60, tanh(v[0]))                        \
    X(expm1, 1, 0, expm1(v[0]))                       \
    X(log1p, 1, 0, log1p(v[0]))                       \
    X(erf, 1, 0, erf(v[0]))                           \
    X(sin, 1, 0, sin(v[0]))                           \
    X(cos, 1, 0, cos(v[0]))                           \
    X(pow, 2, 0, pow(v[0], v[1]))

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

#define EVALUATE(name, arity, cost, value)      \
    static double value_##name(const double *v) \
    {                                           \
        return value;                           \
    }
FUNCTIONS(EVALUATE)
#undef EVALUATE

const kiln__primitive kiln__primitives[KILN__PRIMITIVES] = {
#define ROW(name, arity, cost, value) { #name, arity, cost, value_##name },
    FUNCTIONS(ROW)
#undef ROW
};

/* How else the same is called elsewhere. */
static const struct {
    const char *name, *meant;
} aliases[] = {
    { "fminf", "fmin" },  { "fmaxf", "fmax" },   { "fabs", "abs" },   { "fabsf", "abs" },          { "fmaf", "fma" },
    { "sqrtf", "sqrt" },  { "floorf", "floor" }, { "ceilf", "ceil" }, { "truncf", "trunc" },       { "rintf", "rint" },
    { "minimum", "min" }, { "maximum", "max" },  { "clip", "clamp" }, { "copysignf", "copysign" }, { "expf", "exp" },
    { "logf", "log" },    { "tanhf", "tanh" },
};

int kiln__primitive_find(kiln__word name)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (kiln__word_is(name, aliases[i].name))
            name = (kiln__word){ aliases[i].meant, strlen(aliases[i].meant) };
    for (int i = 0; i < KILN__PRIMITIVES; i++)
        if (kiln__word_is(name, kiln__primitives[i].name))
            return i;
    return -1;
}
