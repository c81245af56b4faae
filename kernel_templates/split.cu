//! template split
//! about    as rows, for few rows that are long: blocks share a row. A launch runs the kernel once for each stage, then for the results, and then for those that have one value for a row
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     rows, cols
//! arg      out... out otype[rows, cols] inplace reduced scanned
//! arg      x... in itype[rows, cols] broadcast
//! arg      rows uint64 = rows
//! arg      cols uint64 = cols
//! arg      partials scratch rows * split * fold_bytes * (sm == 0 ? 16 * fold_stages : walks)
//! arg      phase phase
//! arg      s... f64
//! param    split  1..4096 = sm == 0 ? max(1, min(cols_hint * bytes / 65536, 64)) : max(1, min(min(cores * 16 / max(n_hint / cols_hint, 1), cols_hint * bytes / 16384), 4096)) -- blocks that share a row
//! param    block  32,64,128,256,512,1024 = 256                          -- threads per block
//! param    vector 1,2,4,8,16 = 16 / max(bytes, out_bytes)               -- elements per memory access
//! param    elems  1..128 = max(min(64 / bytes / max(full, 1) / vector, 8), 1) * vector -- elements of a thread between two exchanges, where the op scans
//! param    form   walk,ends = scans && cols_hint % vector != 0 ? ends : walk -- whether scans go along rows of whole words, or also along ends
//! param    cache  plain,stream = plain                                  -- cache hint of stores
//! require  elems % vector == 0                                          -- elems must be a multiple of vector
//! require  vector * max(bytes, out_bytes) <= 16                         -- vector must not exceed 16 bytes per access
//! require  sm == 0 || (max(elems / vector, 8) * block / 32 + 1) * 4 * fold_bytes <= 45056 || !scans -- folds must fit the shared memory
//! tune     split  64..4096*2      if sm > 0
//! tune     block  128..1024*2     if sm > 0
//! tune     cache  plain,stream    if sm > 0
//! bound    sm == 0 || vector * max(bytes, out_bytes) == 16               -- accesses of less are slow
//! bound    sm == 0 || (scans ? elems >= 2 * vector && elems <= 8 * vector : elems == vector) -- elems is for scans
//! bound    sm == 0 || form == (scans && cols_hint % vector != 0 ? 1 : 0) -- ends are for scans of rows of other lengths
//! phases   (sm == 0 ? fold_stages : walks) + (full_out > 0) + (column_out > 0)
//! joint    sm > 0
//! picks    sm > 0
//! grid     rows * split
//! entry    kiln_vector align vector * max(bytes, out_bytes) if !scans || form == 1 || cols % vector == 0
//! entry    kiln_scalar align 1

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, rows.h, the ops it
 * uses, the folds of its stages and kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_SPLIT         64
#define KILN_BLOCK         256
#define KILN_VECTOR        4
#define KILN_ELEMS         16
#define KILN_FORM_WALK     0
#define KILN_FORM_ENDS     1
#define KILN_FORM          KILN_FORM_WALK
#define KILN_CACHE_PLAIN   0
#define KILN_CACHE_STREAM  1
#define KILN_CACHE         KILN_CACHE_PLAIN
#include "rows_example.h"
#endif

#define KILN_WARPS (KILN_BLOCK / 32)
KILN_FOLD_STAGES(KILN_JOIN_LANES)

/* Joins the folds of all threads of the block, in each. The order depends on the number of threads alone. */
template <typename F> KILN_FN void kiln_gather(F *f, F *parts)
{
    kiln_join_lanes<32>(f);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = *f;
    __syncthreads();
    *f = parts[threadIdx.x % KILN_WARPS];
    kiln_join_lanes<KILN_WARPS>(f);
}

/* The folds that the blocks of a row leave in a phase for the next ones. */
template <typename F>
KILN_FN F *kiln_folds_of(void *partials, unsigned long long phase, unsigned long long rows, unsigned long long line)
{
    return (F *)((char *)partials + (phase * rows + line) * (KILN_SPLIT * KILN_FOLD_BYTES));
}

/* The words of a block, of so many that the row has. */
typedef struct kiln_part {
    unsigned long long first, end;
} kiln_part;

KILN_FN kiln_part kiln_find_part(unsigned long long count, unsigned number)
{
    const unsigned long long share = (count + (KILN_SPLIT - 1)) / KILN_SPLIT;
    kiln_part part;
    part.first = number * share < count ? number * share : count;
    part.end = count - part.first < share ? count : part.first + share;
    return part;
}

/* Values of the row that an earlier phase has folded: all threads of its blocks join the folds in one order. */
#define KILN_KNOW(s)                                                                            \
    if (phase > s) {                                                                            \
        __shared__ kiln_folds##s parts[KILN_WARPS];                                             \
        const kiln_folds##s *const from = kiln_folds_of<kiln_folds##s>(partials, s, rows, line); \
        kiln_folds##s f;                                                                        \
        kiln_clear(&f, 0);                                                                      \
        for (unsigned i = threadIdx.x; i < KILN_SPLIT; i += KILN_BLOCK)                         \
            kiln_join(&f, 0, &from[i], 0);                                                      \
        kiln_gather(&f, parts);                                                                 \
        kiln_finish(&f, 0, &row, cols);                                                         \
    }

/* A stage, in its phase: the folds of this part of the row. */
#define KILN_FOLD(s)                                                          \
    if (phase == s) {                                                         \
        __shared__ kiln_folds##s parts[KILN_WARPS];                           \
        kiln_folds##s f, of_ends;                                             \
        kiln_clear(&f, 0);                                                    \
        kiln_clear(&of_ends, 0);                                              \
        KILN_ELEMENTS(f)                                                      \
        KILN_ENDS(KILN_TAKE(of_ends, KILN_END))                               \
        kiln_join(&f, 0, &of_ends, 0);                                        \
        KILN_PICKS##s(KILN_PICK)                                              \
        kiln_gather(&f, parts);                                               \
        if (threadIdx.x == 0)                                                 \
            kiln_folds_of<kiln_folds##s>(partials, s, rows, line)[part] = f; \
    }

#if defined(KILN_SCANS)

/* The folds of the parts before this one, in their order: each thread joins neighbours, and then the threads do. */
KILN_FN void kiln_know_scan(kiln_folds_scan *out, const kiln_folds_scan *from, unsigned part)
{
    __shared__ kiln_folds_scan parts[KILN_WARPS + 1];
    constexpr unsigned each = (KILN_SPLIT + KILN_BLOCK - 1) / KILN_BLOCK;
    kiln_folds_scan f[1];
    kiln_clear(&f[0], 0);
    kiln_clear(out, 0);
    for (unsigned i = threadIdx.x * each; i < (threadIdx.x + 1) * each && i < part; i++)
        kiln_join(&f[0], 0, &from[i], 0);
    kiln_scan_folds<KILN_BLOCK>(f, out, parts);
}

#define KILN_RAGGED(width) (width > 1 && KILN_FORM == KILN_FORM_ENDS)

/* Folds this part of the row in the phase of the scans, and stores its results in the next. */
#define KILN_SCAN_PART(width)                                                                                \
    if (phase >= KILN_SCAN_PHASE) {                                                                          \
        const kiln_part piece = kiln_find_part(kiln_find_touched<width>(line, cols).words, part);            \
        kiln_folds_scan carry, *const folds =                                                                \
                                   kiln_folds_of<kiln_folds_scan>(partials, KILN_SCAN_PHASE, rows, line);    \
        kiln_clear(&carry, 0);                                                                               \
        if (phase == KILN_SCAN_PHASE) {                                                                      \
            kiln_scan_words<KILN_BLOCK, width, KILN_RAGGED(width), false>(KILN_NAMES(rows, cols), line, row, \
                                                                          &carry, piece.first, piece.end);   \
            if (threadIdx.x == 0)                                                                            \
                folds[part] = carry;                                                                         \
        } else if (phase == KILN_RESULTS_PHASE) {                                                            \
            kiln_know_scan(&carry, folds, part);                                                             \
            kiln_scan_words<KILN_BLOCK, width, KILN_RAGGED(width), true>(KILN_NAMES(rows, cols), line, row,  \
                                                                         &carry, piece.first, piece.end);    \
        }                                                                                                    \
    }
#else
#define KILN_SCAN_PART(width)
#endif

/* How an entry begins. Each block of a row has a part of its words. */
#define KILN_BEGIN_ROW                                                   \
    const unsigned part = blockIdx.x % KILN_SPLIT;                       \
    const unsigned long long line = blockIdx.x / KILN_SPLIT;             \
    const bool used = true;                                              \
    kiln_row row;                                                        \
    KILN_ALL(KILN_BEGIN)                                                 \
    KILN_ALL_OUT(KILN_BEGIN_OUT)
#define KILN_IS_FIRST (part == 0 && threadIdx.x == 0)
#define KILN_PUT_COLUMNS                                \
    if (phase == KILN_COLUMNS_PHASE && KILN_IS_FIRST) { \
        KILN_ALL_OUT(KILN_PUT_COLUMN)                   \
    }
#define KILN_PARAMETERS_OF_PHASE                                                                             \
    KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER), unsigned long long rows, unsigned long long cols, \
        void *partials, unsigned phase KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)

/* The first part has the ends of the row, too. */
#define KILN_END(k) KILN_AT(k)
#define KILN_ELEMENTS(f) \
    _Pragma("unroll 4") KILN_EACH_WORD(1, first + threadIdx.x, end, KILN_BLOCK, KILN_TAKE_WORD(f))
#define KILN_ENDS(...)                                                            \
    for (unsigned n = threadIdx.x; part == 0 && n < span.ends; n += KILN_BLOCK) { \
        const unsigned long long at = kiln_find_end(span, n);                     \
        __VA_ARGS__;                                                              \
    }

extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_vector(KILN_PARAMETERS_OF_PHASE)
{
    KILN_BEGIN_ROW
    const kiln_span span = kiln_find_span(line, cols);
    const unsigned long long begin = span.head;
    const kiln_part own = kiln_find_part(span.words, part);
    const unsigned long long first = own.first, end = own.end;

    KILN_FOLD_STAGES(KILN_KNOW)
    KILN_FOLD_STAGES(KILN_FOLD)
    KILN_PUT_COLUMNS
    KILN_SCAN_PART(KILN_VECTOR)
#if !defined(KILN_SCANS)
    if (phase != KILN_RESULTS_PHASE)
        return;
    KILN_EACH_WORD(1, first + threadIdx.x, end, KILN_BLOCK, KILN_STORE_WORD)
    KILN_ENDS(KILN_ALL_OUT(KILN_PUT_END))
#endif
}

#undef KILN_ELEMENT
#undef KILN_ELEMENTS
#undef KILN_ENDS
#define KILN_ELEMENT(k) KILN_AT(k)
#define KILN_ELEMENTS(f)                                                            \
    for (unsigned long long at = first + threadIdx.x; at < end; at += KILN_BLOCK) { \
        KILN_TAKE(f, KILN_ELEMENT)                                                  \
    }
#define KILN_ENDS(...)

/* The same one element at a time, for arrays that are not aligned to words, and scans of rows of other lengths. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_scalar(KILN_PARAMETERS_OF_PHASE)
{
    KILN_BEGIN_ROW
    const kiln_part own = kiln_find_part(cols, part);
    const unsigned long long first = own.first, end = own.end;

    KILN_FOLD_STAGES(KILN_KNOW)
    KILN_FOLD_STAGES(KILN_FOLD)
    KILN_PUT_COLUMNS
    KILN_SCAN_PART(1)
#if !defined(KILN_SCANS)
    if (phase != KILN_RESULTS_PHASE)
        return;
    for (unsigned long long at = first + threadIdx.x; at < end; at += KILN_BLOCK) {
        KILN_ALL_OUT(KILN_OUT_ELEMENT)
        KILN_ALL_OUT(KILN_PUT_ELEMENT)
    }
#endif
}
