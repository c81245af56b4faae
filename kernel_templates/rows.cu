//! template rows
//! about    out, ... = op(x, y, ...) for contiguous arrays of rows and columns, where the op reduces the columns: softmax(x), sum(x * y), or scans them: cumsum(x). An output that has one value for each row has one column; inputs may have one row, one column or one element for all: layout=(full,row,column,one)
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     rows, cols
//! arg      out... out otype[rows, cols] inplace reduced scanned
//! arg      x... in itype[rows, cols] broadcast
//! arg      rows uint64 = rows
//! arg      cols uint64 = cols
//! arg      s... f64
//! param    lanes  1,2,4,8,16,32,64,128,256,512,1024 = sm == 0 ? 32 : min(pow2(max(full_out == 0 && bytes <= 2 && cols_hint * bytes > 4096 ? (cols_hint * bytes * max(full, 1) + 127) / 128 : cols_hint * bytes * max(full, 1) / (cols_hint * bytes <= 256 ? 32 : scans && cols_hint * bytes % 16 != 0 ? 128 : 64), 1)), scans ? 256 : full_out == 0 && walks == 1 && fold_stages > 1 && cols_hint * bytes > 16384 ? min(max(128, pow2(cores * 3072 / max(n_hint / cols_hint, 1))), 1024) : full_out > 0 && cols_hint * bytes * max(live, 1) > 131072 ? 512 : 1024) -- threads per row
//! param    block  32..1024 step 32 = sm == 0 ? 1024 : max(lanes, 128)   -- threads per block
//! param    vector 1,2,4,8,16 = 16 / max(bytes, out_bytes)               -- elements per memory access
//! param    elems  1..128 = min((cols_hint + (lanes * vector - 1)) / (lanes * vector), max(scans ? min(64 / bytes / max(full, 1) / vector, 8) : 128 / bytes / max(live, 1) / vector, 1)) * vector -- elements of a row that a thread keeps, at a time
//! param    form   kept,ends,walk = cols_hint > lanes * elems && !scans ? walk : cols_hint % vector != 0 ? ends : scans ? walk : kept -- how a row is read: once, into registers, of whole words or also with ends; or once for each stage. Scans go along whole words, walk, or also along ends
//! param    cache  plain,stream = sm > 0 && form == 0 && full_out > 0 && inputs > full && bytes == 4 && lanes * elems > 16384 ? stream : plain -- cache hint of loads and stores: rows that fill a multiprocessor leave the cache to inputs that rows share
//! require  elems % vector == 0                                          -- elems must be a multiple of vector
//! require  block % lanes == 0                                           -- block must be a multiple of lanes
//! require  vector * max(bytes, out_bytes) <= (sm >= 100 ? 32 : 16)      -- vector must not exceed 16 bytes per access (32 from sm_100 on)
//! require  sm == 0 || !scans || block / lanes * (lanes > 32 ? max(elems / vector, min(elems, 8)) * lanes / 32 + 1 : 1) * 2 * fold_bytes <= 45056 -- folds must fit the shared memory
//! require  form != 0 || !scans                                         -- an op that scans takes form=walk or form=ends
//! tune     lanes  4..1024*2       if sm > 0
//! tune     block  64..1024*2      if sm > 0
//! tune     elems  1..128*2        if sm > 0
//! tune     vector 1,2,4,8,16      if sm > 0
//! tune     cache  plain,stream    if sm > 0
//! tune     form   kept,ends,walk  if sm > 0
//! bound    sm == 0 || elems * bytes <= 128                              -- more than 128 bytes per thread do not fit its registers
//! bound    sm == 0 || form == 2 || scans || lanes * elems >= cols_hint && lanes * elems < 2 * (cols_hint + vector) -- a row that is kept fits its threads, and fills most of them
//! bound    sm == 0 || scans || form == (cols_hint % vector == 0 ? 0 : 1) || form == 2 && elems == vector && cols_hint * bytes > 16384 -- a row is kept, or walked over where it is long
//! bound    sm == 0 || form != 2 || scans || lanes >= 64                 -- a long row has two warps or more
//! bound    sm == 0 || !scans || form == (cols_hint % vector == 0 ? 2 : 1) && lanes * vector <= cols_hint + vector && elems <= 8 * vector && lanes * 512 >= min(cols_hint * bytes, 65536) -- scans have a word for each thread
//! bound    sm == 0 || vector * max(bytes, out_bytes) >= 16 || vector >= cols_hint -- accesses of less are slow
//! bound    sm == 0 || block <= max(128, 4 * lanes)                      -- a block of many rows waits for the last
//! joint    sm > 0 && (form == 2 || scans)
//! picks    sm > 0
//! grid     sm == 0 ? (rows + max(65536 / max(cols, 1), 1) - 1) / max(65536 / max(cols, 1), 1) : (rows + (block / lanes - 1)) / (block / lanes)
//! entry    kiln_vector align vector * max(bytes, out_bytes) if scans ? form == 1 || cols % vector == 0 : form == 2 || cols > 0 && cols <= lanes * elems && (form == 1 || cols % vector == 0)
//! entry    kiln_scalar align 1

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses, the
 * folds of its stages and kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_LANES         32
#define KILN_BLOCK         128
#define KILN_VECTOR        4
#define KILN_ELEMS         8
#define KILN_FORM_KEPT     0
#define KILN_FORM_ENDS     1
#define KILN_FORM_WALK     2
#define KILN_FORM          KILN_FORM_ENDS
#define KILN_CACHE_PLAIN   0
#define KILN_CACHE_STREAM  1
#define KILN_CACHE         KILN_CACHE_PLAIN
#include "rows_example.h"
#endif

KILN_FOLD_STAGES(KILN_JOIN_LANES)

#define KILN_ACCESSES (KILN_ELEMS / KILN_VECTOR)
#define KILN_PARTS    (KILN_BLOCK / 32)
#define KILN_HAS_ENDS (KILN_FORM != KILN_FORM_KEPT)
#define KILN_ROWS     (KILN_BLOCK / KILN_LANES)             /* of a block */
#define KILN_WARPS    (KILN_LANES > 32 ? KILN_LANES / 32 : 1) /* of a row */

/* Joins the folds of all threads of a row, in each: neighbours first, then warps by way of shared memory. The order
 * depends on the number of threads alone. All threads of the block call it. */
template <typename F> KILN_FN void kiln_gather(F *f, F *parts)
{
    kiln_join_lanes<(KILN_LANES < 32 ? KILN_LANES : 32)>(f);
    if (KILN_LANES > 32) {
        const unsigned warp = threadIdx.x / 32, t = threadIdx.x % 32;
        if (t == 0)
            parts[warp] = *f;
        __syncthreads();
        *f = parts[warp / KILN_WARPS * KILN_WARPS + t % KILN_WARPS];
        kiln_join_lanes<KILN_WARPS>(f);
    }
}

/* The row of a thread, and how its entry begins: rows behind the last one have no elements. */
#define KILN_BEGIN_ROW                                                                                             \
    const unsigned lane = threadIdx.x % KILN_LANES;                                                                \
    const unsigned long long line = (unsigned long long)blockIdx.x * KILN_ROWS + threadIdx.x / KILN_LANES;         \
    const bool used = line < rows;                                                                                 \
    kiln_row row;                                                                                                  \
    KILN_ALL(KILN_BEGIN)                                                                                           \
    KILN_ALL_OUT(KILN_BEGIN_OUT)
#define KILN_IS_FIRST (used && lane == 0)
#define KILN_PUT_COLUMNS                \
    if (KILN_IS_FIRST) {                \
        KILN_ALL_OUT(KILN_PUT_COLUMN)   \
    }

#if KILN_FORM != KILN_FORM_WALK && !defined(KILN_SCANS)

/* ---- A row in registers */

/* The ends that a thread keeps, one by one. */
#define KILN_ENDS_KEPT (KILN_FORM == KILN_FORM_ENDS ? (KILN_ENDS_MOST + KILN_LANES - 1) / KILN_LANES : 0)

/* Of input k: the words and ends of its row that a thread keeps, and one of each. The words of an input that has one
 * row for all are loaded wherever they are needed, from a cache. */
#define KILN_KEPT(k)                                                                            \
    kiln_lanes<KILN_TYPE(k)> h##k[KILN_LAYOUT##k == KILN_LAYOUT_FULL ? KILN_ACCESSES : 1];      \
    KILN_TYPE(k) g##k[KILN_ENDS_KEPT + 1];
#define KILN_KEEP(k)                        \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL) \
        h##k[m].word = kiln_fetch(p##k + begin, i < words ? i : 0);
#define KILN_KEEP_END(k)                   \
    if (KILN_LAYOUT##k <= KILN_LAYOUT_ROW) \
        g##k[e] = p##k[n < span.ends ? at : 0];
#define KILN_WORD(k)                                                                                       \
    kiln_lanes<KILN_TYPE(k)> w##k;                                                                         \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL)                                                                \
        w##k.word = h##k[m].word;                                                                          \
    else if (KILN_LAYOUT##k == KILN_LAYOUT_ROW && words > 0)                                               \
        kiln_fetch_shared(w##k, p##k + begin + (i < words ? i : 0) * KILN_VECTOR,                      \
                          KILN_FORM == KILN_FORM_KEPT || span.head == 0);
#define KILN_END(k) KILN_VALUE(k, KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN ? c##k : g##k[e])

/* In place of a word behind the row the first one is taken, and then forgotten: without branches a compiler keeps the
 * values that stages and outputs share. */
#define KILN_ELEMENTS(f)                                             \
    _Pragma("unroll") for (unsigned m = 0; m < KILN_ACCESSES; m++)   \
    {                                                                \
        const unsigned i = m * KILN_LANES + lane;                    \
        const auto before = f;                                       \
        KILN_ALL(KILN_WORD)                                          \
        KILN_TAKE_WORD(f)                                            \
        if (i >= words)                                              \
            f = before;                                              \
    }
#define KILN_ENDS(...)                                                                                     \
    _Pragma("unroll") for (unsigned e = 0, n = lane; e < KILN_ENDS_KEPT; e++, n += KILN_LANES) if (n < span.ends) \
    {                                                                                                      \
        const unsigned at = (unsigned)kiln_find_end(span, n);                                              \
        __VA_ARGS__;                                                                                       \
    }

/* Thread t of a row keeps its words t, t + KILN_LANES, ..., and likewise its ends. All loads start before the first is
 * needed. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_vector(KILN_PARAMETERS)
{
    KILN_BEGIN_ROW
    kiln_span span = { 0, 0, cols / KILN_VECTOR };
    if (KILN_FORM == KILN_FORM_ENDS)
        span = kiln_find_span(used ? line : 0, cols);
    const unsigned begin = span.head, words = used ? (unsigned)span.words : 0;
    KILN_ALL(KILN_KEPT)

    span.ends = used ? span.ends : 0;
#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = m * KILN_LANES + lane;
        if (KILN_FORM == KILN_FORM_KEPT || words > 0) {
            KILN_ALL(KILN_KEEP)
        }
        (void)i;
    }
#pragma unroll
    for (unsigned e = 0, n = lane; e < KILN_ENDS_KEPT; e++, n += KILN_LANES) {
        const unsigned at = (unsigned)kiln_find_end(span, n);
        KILN_ALL(KILN_KEEP_END)
        (void)at;
    }
    KILN_FOLD_STAGES(KILN_STAGE)
    KILN_PUT_COLUMNS
#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = m * KILN_LANES + lane;
        KILN_ALL(KILN_WORD)
        KILN_ALL_OUT(KILN_OUT_WORD)
#pragma unroll
        for (unsigned j = 0; j < KILN_VECTOR; j++) {
            const unsigned at = begin + i * KILN_VECTOR + j;
            KILN_ALL_OUT(KILN_OUT_LANE)
            (void)at;
        }
        if (i < words) {
            KILN_ALL_OUT(KILN_PUT)
        }
    }
    KILN_ENDS(KILN_ALL_OUT(KILN_PUT_END))
}

#else

/* ---- A row of any length */

/* Words of a thread whose loads start together. Each costs registers, and so threads: where no row is stored, many
 * threads are better than many loads of each. */
constexpr unsigned kiln_ahead = !(0 KILN_ALL_OUT(KILN_IS_FULL)) ? 1 : kiln_full > 2 ? 2 : 4;
constexpr unsigned kiln_unrolled = 4 / kiln_ahead;

#define KILN_END(k) KILN_AT(k)
#define KILN_ELEMENTS(f)            \
    _Pragma("unroll kiln_unrolled") \
    KILN_EACH_WORD(kiln_ahead, (unsigned long long)lane, words, KILN_LANES, KILN_TAKE_WORD(f))
#define KILN_ENDS(...)                                        \
    for (unsigned n = lane; n < span.ends; n += KILN_LANES) { \
        const unsigned long long at = kiln_find_end(span, n); \
        __VA_ARGS__;                                          \
    }

/* Thread t of a row walks over its words t, t + KILN_LANES, ..., once for each stage and once for the outputs. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_vector(KILN_PARAMETERS)
{
    KILN_BEGIN_ROW
    kiln_span span = { 0, 0, 0 };
    if (used)
        span = kiln_find_span(line, cols);
    const unsigned long long begin = span.head, words = span.words;

    KILN_FOLD_STAGES(KILN_STAGE)
#if defined(KILN_SCANS)
    kiln_folds_scan carry;
    kiln_clear(&carry, 0);
    kiln_scan_words<KILN_LANES, KILN_VECTOR, KILN_FORM == KILN_FORM_ENDS, true>(
        KILN_NAMES(rows, cols), line, row, &carry, 0, kiln_most_touched<KILN_VECTOR>(cols));
    KILN_PUT_COLUMNS /* which may be inputs that other threads have not read before */
#else
    KILN_PUT_COLUMNS
    KILN_EACH_WORD(KILN_INPUTS > 1 ? 2 : 4, (unsigned long long)lane, words, KILN_LANES, KILN_STORE_WORD)
    KILN_ENDS(KILN_ALL_OUT(KILN_PUT_END))
#endif
}

#endif

/* ---- A row at any address */

#undef KILN_ELEMENT
#undef KILN_ELEMENTS
#undef KILN_ENDS
#define KILN_ELEMENT(k) KILN_AT(k)
#define KILN_ELEMENTS(f)                                             \
    for (unsigned long long at = lane; at < end; at += KILN_LANES) { \
        KILN_TAKE(f, KILN_ELEMENT)                                   \
    }
#define KILN_ENDS(...)

/* The same one element at a time, for arrays that are not aligned to words, and rows of other lengths. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_scalar(KILN_PARAMETERS)
{
    KILN_BEGIN_ROW
    const unsigned long long end = used ? cols : 0;

    KILN_FOLD_STAGES(KILN_STAGE)
#if defined(KILN_SCANS)
    kiln_folds_scan carry;
    kiln_clear(&carry, 0);
    kiln_scan_words<KILN_LANES, 1, false, true>(KILN_NAMES(rows, cols), line, row, &carry, 0, cols);
    KILN_PUT_COLUMNS
#else
    KILN_PUT_COLUMNS
    for (unsigned long long at = lane; at < end; at += KILN_LANES) {
        KILN_ALL_OUT(KILN_OUT_ELEMENT)
        KILN_ALL_OUT(KILN_PUT_ELEMENT)
    }
#endif
}
