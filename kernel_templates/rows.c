/* The cpu twin of rows.cu, which declares the template. Compiles as it stands, for f32 and one op. A unit sets
 * KILN_UNIT, brings its own values, real.h, the ops it uses, the folds of its stages and kiln_value, and takes the rest
 * of this text. The geometry has no meaning here. */
#ifndef KILN_UNIT
#include "rows_example.h"
#endif

/* Elements that are folded before the next are: few, so that a sum of many loses no more than a sum of few. */
#define KILN_CHUNK (64 * KILN_SPREAD)

/* Of input k: its row, the element that it has for the whole row, and the one of a column. */
#define KILN_BEGIN(k)                                                                                \
    const KILN_TYPE(k) *const p##k = KILN_LAYOUT##k == KILN_LAYOUT_FULL ? x##k + line * cols : x##k; \
    const KILN_TYPE(k) c##k = KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN                                   \
                                  ? x##k[KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? line : 0]            \
                                  : (KILN_TYPE(k))0;                                                 \
    (void)p##k;                                                                                      \
    (void)c##k;
#define KILN_CONSTANT(k) KILN_VALUE(k, c##k)
#define KILN_ELEMENT(k)  KILN_VALUE(k, KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN ? c##k : p##k[at])

/* Of output k: its element is stored. */
#define KILN_PUT_ELEMENT(k)                     \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL) \
        out##k[line * cols + at] = e##k;        \
    (void)e##k;
#define KILN_IS_FULL(k)         || KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL
#define KILN_SCALAR_ARGUMENT(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + 2 + k];

#define KILN_TAKE(s, j) \
    kiln_take##s(&f, (unsigned)(j), &row, KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR), (long long)at)

/* One walk over the row, a chunk at a time. KILN_SPREAD folds at once let a compiler use vectors. */
#define KILN_STAGE(s)                                                                             \
    {                                                                                             \
        kiln_folds##s f, all;                                                                     \
        for (unsigned j = 0; j < KILN_SPREAD; j++)                                                \
            kiln_clear##s(&all, j);                                                               \
        for (unsigned long long start = 0; start < cols; start += KILN_CHUNK) {                   \
            const unsigned long long end = cols - start < KILN_CHUNK ? cols : start + KILN_CHUNK; \
            unsigned long long begin = start;                                                     \
            for (unsigned j = 0; j < KILN_SPREAD; j++)                                            \
                kiln_clear##s(&f, j);                                                             \
            for (; end - begin >= KILN_SPREAD; begin += KILN_SPREAD)                              \
                for (unsigned j = 0; j < KILN_SPREAD; j++) {                                      \
                    const unsigned long long at = begin + j;                                      \
                    KILN_TAKE(s, j);                                                              \
                }                                                                                 \
            for (unsigned long long at = begin; at < end; at++)                                   \
                KILN_TAKE(s, at - begin);                                                         \
            for (unsigned j = 0; j < KILN_SPREAD; j++)                                            \
                kiln_join##s(&all, j, &f, j);                                                     \
        }                                                                                         \
        for (unsigned d = KILN_SPREAD / 2; d > 0; d /= 2)                                         \
            for (unsigned j = 0; j < d; j++)                                                      \
                kiln_join##s(&all, j, &all, j + d);                                               \
        kiln_finish##s(&all, 0, &row, cols);                                                      \
    }

/* One walk over the row in the order of the scans, a chunk at a time: the folds of a chunk follow those of all chunks
 * before it, so that a sum of many loses no more than a sum of few. */
#define KILN_SCAN                                                                                                      \
    {                                                                                                                  \
        kiln_folds_scan all, chunk, states[2];                                                                         \
        const kiln_folds_scan *const before = &states[0], *const after = &states[1];                                   \
        kiln_clear_scan(&all, 0);                                                                                      \
        for (unsigned long long start = 0; start < cols; start += KILN_SPREAD * 8) {                                   \
            const unsigned long long end = cols - start < KILN_SPREAD * 8 ? cols : start + KILN_SPREAD * 8;            \
            kiln_clear_scan(&chunk, 0);                                                                                \
            states[1] = all;                                                                                           \
            for (unsigned long long i = start; i < end; i++) {                                                         \
                const unsigned long long at = KILN_REVERSE ? cols - 1 - i : i;                                         \
                states[0] = states[1];                                                                                 \
                kiln_take_scan(&chunk, 0, &row, KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR), (long long)at); \
                states[1] = all;                                                                                       \
                kiln_join_scan(&states[1], 0, &chunk, 0);                                                              \
                KILN_ALL_OUT(KILN_OUT_ELEMENT)                                                                         \
                KILN_ALL_OUT(KILN_PUT_ELEMENT)                                                                         \
            }                                                                                                          \
            all = states[1];                                                                                           \
        }                                                                                                              \
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
        KILN_SCAN
#else
/* No element depends on another. A compiler that is not told so tests for overlap, and runs one by one in place. */
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__)
#pragma GCC ivdep
#endif
        for (unsigned long long at = 0; at < (0 KILN_ALL_OUT(KILN_IS_FULL) ? cols : 0); at++) {
            KILN_ALL_OUT(KILN_OUT_ELEMENT)
            KILN_ALL_OUT(KILN_PUT_ELEMENT)
        }
#endif
    }
}
