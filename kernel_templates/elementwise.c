/* The cpu twin of elementwise.cu, which declares the template. Compiles as it stands, for f32 and one op. A unit sets
 * KILN_UNIT, brings its own values, real.h, the ops it uses and kiln_value, and takes the rest of this text. The cache
 * hint has no meaning here. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_INPUTS    1
#define KILN_TILE      65536
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

#define KILN_CHUNK 64

/* Of input k: a chunk of its values, and element i. */
#define KILN_VALUES(k)  v##k[KILN_CHUNK]
#define KILN_LOAD(k)    kiln_load8(v##k + j, x##k + i + j)
#define KILN_LANE(k)    v##k[j]
#define KILN_ELEMENT(k) KILN_VALUE(k, x##k[i])

/* Of output k: element i, which is calculated before any is stored. */
#define KILN_OUT_ELEMENT(k)     \
    const KILN_RESULT(k) e##k = \
        KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(i)));
#define KILN_PUT_ELEMENT(k)     out##k[i] = e##k;
#define KILN_SCALAR_ARGUMENT(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + 1 + k];

/* Computes blocks begin to end - 1 of the grid. args[i] points to parameter i: the outputs, the inputs, n, the scalars.
 * An output may be one of the inputs. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const unsigned long long n = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS];
    KILN_ALL_OUT(KILN_OUT_ARGUMENT)
    KILN_ALL(KILN_ARGUMENT)
    KILN_ALL_SCALARS(KILN_SCALAR_ARGUMENT)
    unsigned long long i = begin * KILN_TILE;

    end = end * KILN_TILE < n ? end * KILN_TILE : n;

#if defined(KILN_LOAD8) && !defined(KILN_TYPED) && KILN_OUTPUTS == 1 /* all are f16 */
    for (; i < end && end - i >= KILN_CHUNK; i += KILN_CHUNK) {
        kiln_real KILN_EACH(KILN_VALUES), value[KILN_CHUNK];
        for (int j = 0; j < KILN_CHUNK; j += 8)
            KILN_EACH(KILN_LOAD);
        for (int j = 0; j < KILN_CHUNK; j++)
            value[j] = kiln_value(KILN_EACH(KILN_LANE) KILN_ALL_SCALARS(KILN_SCALAR));
        for (int j = 0; j < KILN_CHUNK; j += 8)
            kiln_store8(out0 + i + j, value + j);
    }
#endif

/* No element depends on another. A compiler that is not told so tests for overlap, and runs one by one in place. */
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__)
#pragma GCC ivdep
#endif
    for (; i < end; i++) {
        KILN_ALL_OUT(KILN_OUT_ELEMENT)
        KILN_ALL_OUT(KILN_PUT_ELEMENT)
    }
}
