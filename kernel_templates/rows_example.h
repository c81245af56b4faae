/* With these values and the folds of x - max(x), the texts of the templates that reduce compile as they stand. */
#ifndef KILN_ROWS_EXAMPLE_H
#define KILN_ROWS_EXAMPLE_H

#define KILN_REDUCES       1
#define KILN_DTYPE_F32     1
#define KILN_INPUTS        1
#define KILN_LAYOUT_FULL   0
#define KILN_LAYOUT_ROW    1
#define KILN_LAYOUT_COLUMN 2
#define KILN_LAYOUT_ONE    3
#define KILN_LAYOUT0       KILN_LAYOUT_FULL
#define KILN_OUT_LAYOUT0   KILN_LAYOUT_FULL
#define KILN_PLACE0        0
#define KILN_WIDEST        4
#include "real.h"

#include "rows.h" /* which needs real.h */
#define kiln_value0    kiln_value
#define KILN_FOLD_STAGES(M) M(0)
#define KILN_FOLDS0(M)      M(a0)
#define KILN_PICKS0(M)
#define KILN_FOLD_BYTES     8

typedef struct kiln_row {
    float r0;
} kiln_row;

typedef struct kiln_folds0 {
    float a0[KILN_SPREAD];
} kiln_folds0;

KILN_FN void KILN_OF_STAGE(kiln_clear, 0)(kiln_folds0 *f, unsigned j)
{
    f->a0[j] = (float)-KILN_INFINITY;
}

KILN_FN void KILN_OF_STAGE(kiln_take, 0)(kiln_folds0 *f, unsigned j, const kiln_row *row, kiln_real x,
                                         long long position)
{
    (void)row;
    (void)position;
    f->a0[j] = kiln_max(f->a0[j], x);
}

KILN_FN void KILN_OF_STAGE(kiln_join, 0)(kiln_folds0 *f, unsigned j, const kiln_folds0 *g, unsigned i)
{
    f->a0[j] = kiln_max(f->a0[j], g->a0[i]);
}

KILN_FN void KILN_OF_STAGE(kiln_finish, 0)(const kiln_folds0 *f, unsigned j, kiln_row *row, unsigned long long n)
{
    (void)n;
    row->r0 = f->a0[j];
}

KILN_FN kiln_real kiln_value(kiln_real x, const kiln_row *row)
{
    return kiln_sub(x, row->r0);
}

#endif
