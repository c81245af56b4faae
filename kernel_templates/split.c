/* The cpu twin of split.cu, which declares the template. Compiles as it stands, for f32 and one op. A unit sets
 * KILN_UNIT, brings its own values, real.h, rows.h, the ops it uses, the folds of its stages and kiln_value, and takes
 * the rest of this text. Of the geometry only the number of parts counts. */
#ifndef KILN_UNIT
#define KILN_SPLIT 64
#include "rows_example.h"
#endif

#define KILN_SCALAR_ARGUMENT(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + 4 + k];

/* The folds that the parts of a row leave in a phase for the next ones. */
#define KILN_FOLDS_OF(s, phase)                                   \
    ((kiln_folds##s *)(void *)(partials + ((phase)*rows + line) * \
                                              (KILN_SPLIT * KILN_SPREAD * (unsigned long long)KILN_FOLD_BYTES)))

/* Values of the row that an earlier phase has folded: all parts join the folds in one order. */
#define KILN_KNOW(s)                                                \
    if (phase > s) {                                                \
        const kiln_folds##s *const from = KILN_FOLDS_OF(s, s##ull); \
        kiln_folds##s f;                                            \
        kiln_clear##s(&f, 0);                                       \
        for (unsigned i = 0; i < KILN_SPLIT; i++)                   \
            kiln_join##s(&f, 0, &from[i], 0);                       \
        kiln_finish##s(&f, 0, &row, cols);                          \
    }

/* A stage, in its phase: the folds of this part of the row. */
#define KILN_FOLD(s)                                                                                 \
    _Static_assert(sizeof(kiln_folds##s) <= KILN_SPREAD * KILN_FOLD_BYTES, "folds fit their place"); \
    if (phase == s) {                                                                                \
        kiln_folds##s all;                                                                           \
        KILN_WALK(s, all, first, last)                                                               \
        KILN_FOLDS_OF(s, s##ull)[part] = all;                                                        \
    }

/* Computes blocks begin to end - 1 of the grid: parts of rows. args[i] points to parameter i: the outputs, the inputs,
 * rows, cols, the folds, the phase, the scalars. An output may be one of the inputs. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const unsigned long long rows = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS];
    const unsigned long long cols = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS + 1];
    char *const partials = *(char *const *)args[KILN_OUTPUTS + KILN_INPUTS + 2];
    const unsigned phase = *(const unsigned *)args[KILN_OUTPUTS + KILN_INPUTS + 3];
    const unsigned long long share = (cols + (KILN_SPLIT - 1)) / KILN_SPLIT;
    KILN_ALL_OUT(KILN_OUT_ARGUMENT)
    KILN_ALL(KILN_ARGUMENT)
    KILN_ALL_SCALARS(KILN_SCALAR_ARGUMENT)

    for (unsigned long long block = begin; block < end; block++) {
        const unsigned long long line = block / KILN_SPLIT, part = block % KILN_SPLIT;
        const unsigned long long first = part * share < cols ? part * share : cols;
        const unsigned long long last = cols - first < share ? cols : first + share;
        kiln_row row;
        KILN_ALL(KILN_BEGIN)
        KILN_FOLD_STAGES(KILN_KNOW)
        KILN_FOLD_STAGES(KILN_FOLD)
#if defined(KILN_SCANS)
        kiln_folds_scan all, *const folds = KILN_FOLDS_OF(_scan, KILN_SCAN_PHASE);
        kiln_clear_scan(&all, 0);
        if (phase == KILN_SCAN_PHASE) {
            KILN_SCAN_WALK(all, first, last, 0)
            folds[part] = all;
        }
        if (phase == KILN_RESULTS_PHASE) {
            for (unsigned i = 0; i < part; i++)
                kiln_join_scan(&all, 0, &folds[i], 0);
            KILN_SCAN_WALK(all, first, last, 1)
        }
#else
        if (phase == KILN_RESULTS_PHASE)
            KILN_STORE_RESULTS(first, 0 KILN_ALL_OUT(KILN_IS_FULL) ? last : first)
#endif
        if (phase == KILN_COLUMNS_PHASE && part == 0) {
            KILN_ALL_OUT(KILN_PUT_COLUMN)
        }
    }
}
