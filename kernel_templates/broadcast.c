/* The cpu twin of broadcast.cu, which declares the template. Compiles as it stands, for f32 and one op. A unit sets
 * KILN_UNIT, brings its own values, real.h, the ops it uses and kiln_value, and takes the rest of this text. The cache
 * hint has no meaning here. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32     1
#define KILN_INPUTS        1
#define KILN_LAYOUT_FULL   0
#define KILN_LAYOUT_ROW    1
#define KILN_LAYOUT_COLUMN 2
#define KILN_LAYOUT_ONE    3
#define KILN_LAYOUT0       KILN_LAYOUT_ROW
#define KILN_TILE          65536
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

/* Of input k: the element for element i + j of the outputs, which is in the row, and in the column + j. */
#define KILN_INDEX(layout)                      \
    ((layout) == KILN_LAYOUT_FULL     ? i + j   \
     : (layout) == KILN_LAYOUT_ROW    ? col + j \
     : (layout) == KILN_LAYOUT_COLUMN ? row     \
                                      : 0)
#define KILN_ELEMENT(k) KILN_VALUE(k, x##k[KILN_INDEX(KILN_LAYOUT##k)])

/* Of output k: the element, which is calculated before any is stored. */
#define KILN_OUT_ELEMENT(k)     \
    const KILN_RESULT(k) e##k = \
        KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(i + j)));
#define KILN_PUT_ELEMENT(k)     out##k[i + j] = e##k;
#define KILN_SCALAR_ARGUMENT(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + 3 + k];

/* Computes blocks begin to end - 1 of the grid. args[i] points to parameter i: the outputs, the inputs, rows, cols, the
 * inverse of cols, the scalars. An output may be one of the inputs. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const unsigned long long rows = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS];
    const unsigned long long cols = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS + 1];
    const unsigned long long n = rows * cols, last = end * KILN_TILE < n ? end * KILN_TILE : n;
    KILN_ALL_OUT(KILN_OUT_ARGUMENT)
    KILN_ALL(KILN_ARGUMENT)
    KILN_ALL_SCALARS(KILN_SCALAR_ARGUMENT)

    for (unsigned long long i = begin * KILN_TILE, count; i < last; i += count) {
        const unsigned long long row = i / cols, col = i % cols;
        count = cols - col < last - i ? cols - col : last - i;
/* No element depends on another. A compiler that is not told so tests for overlap, and runs one by one in place. */
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__)
#pragma GCC ivdep
#endif
        for (unsigned long long j = 0; j < count; j++) {
            KILN_ALL_OUT(KILN_OUT_ELEMENT)
            KILN_ALL_OUT(KILN_PUT_ELEMENT)
        }
        (void)row;
    }
}
