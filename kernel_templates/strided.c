/* The cpu twin of strided.cu, which declares the template. Compiles as it stands, for f32 and one op. A unit sets
 * KILN_UNIT, brings its own values, real.h, the ops it uses and kiln_value, and takes the rest of this text. The cache
 * hint has no meaning here. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32   1
#define KILN_INPUTS      1
#define KILN_OUTPUTS     1
#define KILN_LAYOUT_UNIT 4
#define KILN_LAYOUT_SAME 5
#define KILN_LAYOUT_ANY  6
#define KILN_OUT_LAYOUT0 KILN_LAYOUT_UNIT
#define KILN_LAYOUT0     KILN_LAYOUT_ANY
#define KILN_DIMS        2
#define KILN_TILE        65536
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

/* The offset of element j of a row in array k, whose first is at[k]. */
#define KILN_OFFSET(layout, k) \
    (at[k] + ((layout) == KILN_LAYOUT_UNIT ? j : (layout) == KILN_LAYOUT_SAME ? 0 : j * step[k]))
#define KILN_ELEMENT(k) KILN_VALUE(k, x##k[KILN_OFFSET(KILN_LAYOUT##k, KILN_OUTPUTS + k)])

/* Of output k: the element, which is calculated before any is stored. */
#define KILN_OUT_ELEMENT(k)     \
    const KILN_RESULT(k) e##k = \
        KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(first + j)));
#define KILN_PUT_ELEMENT(k)     out##k[KILN_OFFSET(KILN_OUT_LAYOUT##k, k)] = e##k;
#define KILN_SCALAR_ARGUMENT(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + 2 + k];

/* Computes blocks begin to end - 1 of the grid. args[i] points to parameter i: the outputs, the inputs, the strides, n,
 * the scalars. An output may be one of the inputs. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const kiln_view *const view = (const kiln_view *)args[KILN_OUTPUTS + KILN_INPUTS];
    const unsigned long long n = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS + 1];
    const unsigned long long last = end * KILN_TILE < n ? end * KILN_TILE : n;
    long long at[KILN_OUTPUTS + KILN_INPUTS], step[KILN_OUTPUTS + KILN_INPUTS];
    KILN_ALL_OUT(KILN_OUT_ARGUMENT)
    KILN_ALL(KILN_ARGUMENT)
    KILN_ALL_SCALARS(KILN_SCALAR_ARGUMENT)

    for (unsigned long long i = begin * KILN_TILE, count; i < last; i += count) {
        const long long first = (long long)i;
        const unsigned long long col = i % view->extent[0];
        unsigned long long rest = i / view->extent[0];
        count = view->extent[0] - col < last - i ? view->extent[0] - col : last - i;
        for (int k = 0; k < KILN_OUTPUTS + KILN_INPUTS; k++) {
            step[k] = view->stride[k][0];
            at[k] = (long long)col * step[k];
        }
        for (int d = 1; d < KILN_DIMS; d++) {
            for (int k = 0; k < KILN_OUTPUTS + KILN_INPUTS; k++)
                at[k] += (long long)(rest % view->extent[d]) * view->stride[k][d];
            rest /= view->extent[d];
        }
/* No element depends on another. A compiler that is not told so tests for overlap, and runs one by one in place. */
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__)
#pragma GCC ivdep
#endif
        for (long long j = 0; j < (long long)count; j++) {
            KILN_ALL_OUT(KILN_OUT_ELEMENT)
            KILN_ALL_OUT(KILN_PUT_ELEMENT)
        }
    }
}
