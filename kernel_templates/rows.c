/* The cpu twin of rows.cu, which declares the template. Compiles as it stands, for f32 and one op. A unit sets
 * KILN_UNIT, brings its own values, real.h, rows.h, the ops it uses, the folds of its stages and kiln_value, and takes
 * the rest of this text. The geometry has no meaning here. */
#ifndef KILN_UNIT
#include "rows_example.h"
#endif

#define KILN_SCALAR_ARGUMENT(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + 2 + k];

#define KILN_STAGE(s)                        \
    {                                        \
        kiln_folds##s all;                   \
        KILN_WALK(s, all, 0, cols)           \
        kiln_finish##s(&all, 0, &row, cols); \
    }

/* Computes blocks begin to end - 1 of the grid, of as many rows as have 65536 elements, or of one. args[i] points to
 * parameter i: the outputs, the inputs, rows, cols, the scalars. An output may be one of the inputs. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const unsigned long long rows = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS];
    const unsigned long long cols = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS + 1];
    const unsigned long long most = 65536 / (cols > 0 ? cols : 1), group = most > 0 ? most : 1;
    const unsigned long long last = end * group < rows ? end * group : rows;
    KILN_ALL_OUT(KILN_OUT_ARGUMENT)
    KILN_ALL(KILN_ARGUMENT)
    KILN_ALL_SCALARS(KILN_SCALAR_ARGUMENT)

    for (unsigned long long line = begin * group; line < last; line++) {
        kiln_row row;
        KILN_ALL(KILN_BEGIN)
        KILN_FOLD_STAGES(KILN_STAGE)
        KILN_ALL_OUT(KILN_PUT_COLUMN)
#if defined(KILN_SCANS)
        kiln_folds_scan all;
        kiln_clear_scan(&all, 0);
        KILN_SCAN_WALK(all, 0, cols, 1)
#else
        KILN_STORE_RESULTS(0, 0 KILN_ALL_OUT(KILN_IS_FULL) ? cols : 0)
#endif
    }
}
