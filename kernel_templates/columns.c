/* The cpu twin of columns.cu, which declares the template. Compiles as it stands, for f32 and one op. A unit sets
 * KILN_UNIT, brings its own values, real.h, rows.h, the ops it uses, the folds of its stages and kiln_value, and takes
 * the rest of this text. Of the geometry only the tile of columns counts. */
#ifndef KILN_UNIT
#define KILN_ACROSS 16
#define KILN_VECTOR 4
#include "rows_example.h"
#endif

#undef KILN_FOLD_NUMBER
#define KILN_FOLD_NUMBER j

/* Places of the axis that are folded together: few, so that a sum of many loses no more than a sum of few. */
#define KILN_CHUNK 256

#define KILN_TILE_COLUMNS (KILN_ACROSS * KILN_VECTOR)

/* Of input k: the element of column number j of the group at a place of the axis, and the one for the whole column. */
#define KILN_OF_COLUMN(k)                                               \
    KILN_VALUE(k, KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? x##k[line + j] \
                  : KILN_LAYOUT##k == KILN_LAYOUT_ONE  ? x##k[0]        \
                                                       : (KILN_TYPE(k))0)
#define KILN_ELEMENT(k)                                                                \
    KILN_VALUE(k, x##k[KILN_LAYOUT##k == KILN_LAYOUT_FULL     ? begin + at * inner + j \
                       : KILN_LAYOUT##k == KILN_LAYOUT_ROW    ? at                     \
                       : KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? line + j               \
                                                              : 0])

/* Of output k: the element of a place, or of a column. All are calculated before any is stored. */
#define KILN_OUT_OF_GROUP(k)                                                                      \
    const KILN_RESULT(k) e##k = KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL                            \
                                    ? KILN_STORE(k, KILN_RESULT_AT(k, KILN_ELEMENT, at, &row[j])) \
                                    : (KILN_RESULT(k))0;
#define KILN_PUT_OF_GROUP(k)                    \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL) \
        out##k[begin + at * inner + j] = e##k;  \
    (void)e##k;
#define KILN_OUT_OF_COLUMN(k)                                                                      \
    const KILN_RESULT(k) e##k = KILN_OUT_LAYOUT##k == KILN_LAYOUT_COLUMN                           \
                                    ? KILN_STORE(k, KILN_RESULT_AT(k, KILN_OF_COLUMN, 0, &row[j])) \
                                    : (KILN_RESULT(k))0;
#define KILN_PUT_OF_COLUMN(k)                     \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_COLUMN) \
        out##k[line + j] = e##k;                  \
    (void)e##k;
#define KILN_SCALAR_ARGUMENT(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + 3 + k];

#define KILN_TAKE(s) KILN_TAKE_OF(s, f)
#define KILN_TAKE_OF(s, f) \
    kiln_take##s(&f, j, &row[j], KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR), (long long)at)

/* One walk along the axis, for a group of neighbouring columns: a compiler makes vectors of a whole group. */
#define KILN_STAGE(s)                                                                             \
    {                                                                                             \
        kiln_folds##s f, all;                                                                     \
        for (unsigned j = 0; j < KILN_SPREAD; j++)                                                \
            kiln_clear##s(&all, j);                                                               \
        for (unsigned long long start = 0; start < cols; start += KILN_CHUNK) {                   \
            const unsigned long long end = cols - start < KILN_CHUNK ? cols : start + KILN_CHUNK; \
            for (unsigned j = 0; j < KILN_SPREAD; j++)                                            \
                kiln_clear##s(&f, j);                                                             \
            for (unsigned long long at = start; at < end; at++) {                                 \
                if (count == KILN_SPREAD)                                                         \
                    for (unsigned j = 0; j < KILN_SPREAD; j++)                                    \
                        KILN_TAKE(s);                                                             \
                else                                                                              \
                    for (unsigned j = 0; j < count; j++)                                          \
                        KILN_TAKE(s);                                                             \
            }                                                                                     \
            for (unsigned j = 0; j < KILN_SPREAD; j++)                                            \
                kiln_join##s(&all, j, &f, j);                                                     \
        }                                                                                         \
        for (unsigned j = 0; j < count; j++)                                                      \
            kiln_finish##s(&all, j, &row[j], cols);                                               \
    }

/* One walk in the order of the scans, a chunk at a time: the folds of a chunk follow those of all chunks before it. */
#define KILN_SCAN                                                                                 \
    {                                                                                             \
        kiln_folds_scan all, chunk, states[2];                                                    \
        const kiln_folds_scan *const before = &states[0], *const after = &states[1];              \
        for (unsigned j = 0; j < KILN_SPREAD; j++)                                                \
            kiln_clear_scan(&all, j);                                                             \
        for (unsigned long long start = 0; start < cols; start += KILN_CHUNK) {                   \
            const unsigned long long end = cols - start < KILN_CHUNK ? cols : start + KILN_CHUNK; \
            for (unsigned j = 0; j < KILN_SPREAD; j++)                                            \
                kiln_clear_scan(&chunk, j);                                                       \
            states[1] = all;                                                                      \
            for (unsigned long long i = start; i < end; i++) {                                    \
                const unsigned long long at = KILN_REVERSE ? cols - 1 - i : i;                    \
                states[0] = states[1];                                                            \
                for (unsigned j = 0; j < count; j++)                                              \
                    KILN_TAKE_OF(_scan, chunk);                                                   \
                states[1] = all;                                                                  \
                for (unsigned j = 0; j < KILN_SPREAD; j++)                                        \
                    kiln_join_scan(&states[1], j, &chunk, j);                                     \
                for (unsigned j = 0; j < count; j++) {                                            \
                    KILN_ALL_OUT(KILN_OUT_OF_GROUP)                                               \
                    KILN_ALL_OUT(KILN_PUT_OF_GROUP)                                               \
                }                                                                                 \
            }                                                                                     \
            all = states[1];                                                                      \
        }                                                                                         \
    }

/* Computes blocks first to last - 1 of the grid: tiles of columns. args[i] points to parameter i: the outputs, the
 * inputs, outer, cols, inner, the scalars. An output may be one of the inputs. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long first, unsigned long long last,
                                                     void *const *args);

void kiln_cpu(unsigned long long first, unsigned long long last, void *const *args)
{
    const unsigned long long cols = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS + 1];
    const unsigned long long inner = *(const unsigned long long *)args[KILN_OUTPUTS + KILN_INPUTS + 2];
    const unsigned long long tiles = (inner + (KILN_TILE_COLUMNS - 1)) / KILN_TILE_COLUMNS;
    KILN_ALL_OUT(KILN_OUT_ARGUMENT)
    KILN_ALL(KILN_ARGUMENT)
    KILN_ALL_SCALARS(KILN_SCALAR_ARGUMENT)

    for (unsigned long long tile = first; tile < last; tile++) {
        const unsigned long long slab = tile / tiles, left = tile % tiles * KILN_TILE_COLUMNS,
                                 right = inner - left < KILN_TILE_COLUMNS ? inner : left + KILN_TILE_COLUMNS;
        for (unsigned long long column = left; column < right; column += KILN_SPREAD) {
            const unsigned count = right - column < KILN_SPREAD ? (unsigned)(right - column) : KILN_SPREAD;
            const unsigned long long line = slab * inner + column, begin = slab * cols * inner + column;
            kiln_row row[KILN_SPREAD];
            KILN_FOLD_STAGES(KILN_STAGE)
#if defined(KILN_SCANS)
            KILN_SCAN
#else
            for (unsigned long long at = 0; at < (0 KILN_ALL_OUT(KILN_IS_FULL) ? cols : 0); at++)
/* No element depends on another. A compiler that is not told so tests for overlap, and runs one by one in place. */
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__)
#pragma GCC ivdep
#endif
                for (unsigned j = 0; j < count; j++) {
                    KILN_ALL_OUT(KILN_OUT_OF_GROUP)
                    KILN_ALL_OUT(KILN_PUT_OF_GROUP)
                }
#endif
            /* Last: a column may be an input of the results. */
            for (unsigned j = 0; j < count; j++) {
                KILN_NOT_SCANNED
                KILN_ALL_OUT(KILN_OUT_OF_COLUMN)
                KILN_ALL_OUT(KILN_PUT_OF_COLUMN)
            }
        }
    }
}
