/* The cpu twin of crossed.cu, which declares the template. A block is a tile, which the caches hold. Compiles as it
 * stands, for f32 and one op. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and kiln_value, and
 * takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_INPUTS    1
#define KILN_OUTPUTS   1
#define KILN_DIMS      2
#define KILN_VECTOR    1
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

#define KILN_EDGE (32 * KILN_VECTOR)

#define KILN_ELEMENT(k) KILN_VALUE(k, x##k[at[KILN_OUTPUTS + k] + j * view->stride[KILN_OUTPUTS + k][0]])

/* Of output k: the element, which is calculated before any is stored. */
#define KILN_OUT_ELEMENT(k)     \
    const KILN_RESULT(k) e##k = \
        KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(first + j)));
#define KILN_PUT_ELEMENT(k)     out##k[at[k] + j * view->stride[k][0]] = e##k;
#define KILN_SCALAR_ARGUMENT(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + 1 + k];

/* Computes blocks begin to end - 1 of the grid. args[i] points to parameter i: the outputs, the inputs, the strides,
 * the scalars. An output may be one of the inputs. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const kiln_view *const view = (const kiln_view *)args[KILN_OUTPUTS + KILN_INPUTS];
    const unsigned long long cols = view->extent[0], rows = KILN_DIMS > 1 ? view->extent[KILN_DIMS > 1] : 1;
    const unsigned long long wide = (cols + KILN_EDGE - 1) / KILN_EDGE, high = (rows + KILN_EDGE - 1) / KILN_EDGE;
    KILN_ALL_OUT(KILN_OUT_ARGUMENT)
    KILN_ALL(KILN_ARGUMENT)
    KILN_ALL_SCALARS(KILN_SCALAR_ARGUMENT)

    for (unsigned long long block = begin; block < end; block++) {
        const unsigned long long col = block % wide * KILN_EDGE, row = block / wide % high * KILN_EDGE;
        const unsigned long long last = row + KILN_EDGE < rows ? row + KILN_EDGE : rows;
        const long long count = (long long)(cols - col < KILN_EDGE ? cols - col : KILN_EDGE);
        for (unsigned long long i = row; i < last; i++) {
            unsigned long long rest = block / wide / high;
            const long long first = (long long)((rest * rows + i) * cols + col);
            long long at[KILN_OUTPUTS + KILN_INPUTS];
            for (int k = 0; k < KILN_OUTPUTS + KILN_INPUTS; k++)
                at[k] = (long long)col * view->stride[k][0] +
                        (KILN_DIMS > 1 ? (long long)i * view->stride[k][KILN_DIMS > 1] : 0);
            for (int d = 2; d < KILN_DIMS; rest /= view->extent[d], d++)
                for (int k = 0; k < KILN_OUTPUTS + KILN_INPUTS; k++)
                    at[k] += (long long)(rest % view->extent[d]) * view->stride[k][d];
            for (long long j = 0; j < count; j++) {
                KILN_ALL_OUT(KILN_OUT_ELEMENT)
                KILN_ALL_OUT(KILN_PUT_ELEMENT)
            }
        }
    }
}
