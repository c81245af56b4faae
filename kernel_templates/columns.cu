//! template columns
//! about    as rows, for an axis that is followed by other dimensions: the op reduces or scans the second of three dimensions of contiguous arrays. Inputs may have the axis alone, all but the axis, or one element: layout=(full,row,column,one)
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     outer, cols, inner
//! arg      out... out otype[outer, cols, inner] inplace reduced scanned
//! arg      x... in itype[outer, cols, inner] broadcast
//! arg      outer uint64 = outer
//! arg      cols uint64 = cols
//! arg      inner uint64 = inner
//! arg      s... f64
//! let      lines   = max(n_hint / cols_hint, 1)                        -- columns of all slabs
//! param    vector 1,2,4,8,16 = min(16 / max(bytes, out_bytes), max(1, min(8, pow2(96 / (fold_bytes * walks))))) -- elements per memory access
//! let      beside  = lines * bytes >= (full_out > 0 ? 16384 : 65536) ? 256 : lines * bytes >= 1024 ? 128 : 64 -- bytes of a place of the axis that a block reads
//! param    across 1,2,4,8,16,32 = min(32, beside / (vector * bytes))   -- threads of a block along the last dimension
//! let      tiles   = max(lines / (across * vector), 1)                 -- of the columns, each of one cluster
//! let      half    = scans || fold_bytes > 16                          -- whether 512 threads take the registers of a multiprocessor
//! let      threads = pow2(cores * 3 / 4) * (half || tiles <= 16 ? 512 : 1024) -- that fill a GPU, and no more than clusters of a few tiles can
//! let      down    = min(max(threads / tiles, full_out > 0 ? (half ? 512 : 1024) : 256), cols_hint * across / 4) -- threads of a tile: few tiles at once find their elements in the L2 cache again
//! param    block  32,64,128,256,512,1024 = max(32, min(min(pow2(cols_hint * across / 4), half ? 512 : 1024), min(max(256, pow2(down / 2 + 1)), pow2(524288 / (vector * fold_bytes * ((walks - scans) * across + scans * 32)) + 1)))) -- threads per block
//! param    cluster 1,2,4,8,16 = sm < 90 ? 1 : min(16, min(8192 / block, pow2(down / block / 2 + 1))) -- blocks that share the axis
//! require  cluster == 1 || sm >= 90                                     -- clusters of blocks need sm_90
//! require  vector * max(bytes, out_bytes) <= 16                         -- vector must not exceed 16 bytes per access
//! require  ((block / 32 + 2) * (walks - scans) + (block / across + 1) * scans) * across * vector * fold_bytes <= 49152 -- folds must fit the shared memory
//! tune     cluster 1..16*2        if sm >= 90
//! tune     across 4..32*2         if sm > 0
//! tune     block  64..1024*2      if sm > 0
//! joint    sm > 0
//! grid     outer * ((inner + (across * vector - 1)) / (across * vector)) * cluster
//! entry    kiln_vector align vector * max(bytes, out_bytes) if inner % vector == 0
//! entry    kiln_scalar align 1

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, rows.h, the ops it
 * uses, the folds of its stages and kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_CLUSTER       1
#define KILN_ACROSS        16
#define KILN_BLOCK         256
#define KILN_VECTOR        4
#include "rows_example.h"
#endif

#define KILN_WARPS (KILN_BLOCK / 32)
#define KILN_DOWN  (KILN_BLOCK / KILN_ACROSS) /* threads along the axis */
#define KILN_TILE  (KILN_ACROSS * KILN_VECTOR)
KILN_FOLD_STAGES(KILN_JOIN_LANES)

/* Joins the folds of all threads, and of all blocks of the cluster, that have the same columns, in each of them. The
 * order depends on the numbers of threads and blocks alone. `parts` has a row for each warp, one for the block, and one
 * for the cluster. All threads call it. */
template <typename F> KILN_FN void kiln_gather(F *f)
{
    __shared__ F parts[KILN_WARPS + 2][KILN_TILE];
    const unsigned own = threadIdx.x % KILN_ACROSS * KILN_VECTOR;
#pragma unroll
    for (unsigned j = 0; j < KILN_VECTOR; j++) {
        kiln_join_lanes<32, KILN_ACROSS>(&f[j]);
        if (threadIdx.x % 32 < KILN_ACROSS)
            parts[threadIdx.x / 32][own + j] = f[j];
    }
    __syncthreads();
    for (unsigned c = threadIdx.x; c < KILN_TILE; c += KILN_BLOCK) {
        F all = parts[0][c];
#pragma unroll
        for (unsigned i = 1; i < KILN_WARPS; i++)
            kiln_join(&all, 0, &parts[i][c], 0);
        parts[KILN_WARPS][c] = all;
    }
    if (KILN_CLUSTER > 1) {
        kiln_meet();
        for (unsigned c = threadIdx.x; c < KILN_TILE; c += KILN_BLOCK) {
            F of[KILN_CLUSTER];
#pragma unroll
            for (unsigned i = 0; i < KILN_CLUSTER; i++)
                kiln_fetch_folds(&of[i], &parts[KILN_WARPS][c], i);
#pragma unroll
            for (unsigned i = 1; i < KILN_CLUSTER; i++)
                kiln_join(&of[0], 0, &of[i], 0);
            parts[KILN_WARPS + 1][c] = of[0];
        }
    }
    __syncthreads();
#pragma unroll
    for (unsigned j = 0; j < KILN_VECTOR; j++)
        f[j] = parts[KILN_CLUSTER > 1 ? KILN_WARPS + 1 : KILN_WARPS][own + j];
}

/* Places of the axis whose loads start together, of 64 bytes. Each costs registers, and so threads. */
constexpr unsigned kiln_loads = 64 / (KILN_VECTOR * KILN_WIDEST * (kiln_full > 0 ? kiln_full : 1));
constexpr unsigned kiln_ahead = kiln_loads < 2 ? 2 : kiln_loads > 8 ? 8 : kiln_loads;

/* Of input k: the elements that it has for whole columns; how those of a thread's columns are loaded at a place of the
 * axis; and an element of either. */
#define KILN_COLUMNS(k)                                                            \
    KILN_TYPE(k) c##k[KILN_VECTOR];                                                \
    for (unsigned j = 0; j < KILN_VECTOR; j++)                                     \
        c##k[j] = KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? x##k[line + side(j)]      \
                  : KILN_LAYOUT##k == KILN_LAYOUT_ONE  ? x##k[0]                   \
                                                       : (KILN_TYPE(k))0;
#undef KILN_FETCH
#define KILN_FETCH(k)                                                                                      \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL) {                                                              \
        const KILN_TYPE(k) *const place = x##k + begin + at * inner;                                       \
        if (words)                                                                                         \
            h##k[m].word = *(const typename kiln_lanes<KILN_TYPE(k)>::word_t *)(place + side(0));          \
        else                                                                                               \
            _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) h##k[m].lane[j] = place[side(j)]; \
    } else if (KILN_LAYOUT##k == KILN_LAYOUT_ROW)                                                          \
        h##k[m].lane[0] = x##k[at];
#undef KILN_ELEMENT
#define KILN_ELEMENT(k)                                              \
    KILN_VALUE(k, KILN_LAYOUT##k == KILN_LAYOUT_FULL  ? w##k.lane[j] \
                  : KILN_LAYOUT##k == KILN_LAYOUT_ROW ? w##k.lane[0] \
                                                      : c##k[j])
#define KILN_OF_COLUMN(k) KILN_VALUE(k, c##k[j])

/* Of output k: a word, its element j, how it is stored, and an element for a column. The index is of words: from one of
 * elements a compiler does not know that a word is aligned, and stores it in parts. */
#define KILN_OUT_WORDS(k) KILN_IF_FULL(KILN_OUT_LAYOUT##k, kiln_lanes<KILN_RESULT(k)> r##k;)
#define KILN_OUT_ELEMENTS(k) \
    KILN_IF_FULL(KILN_OUT_LAYOUT##k, r##k.lane[j] = KILN_STORE(k, KILN_RESULT_AT(k, KILN_ELEMENT, at, &row[j]));)
#define KILN_PUT_WORDS(k)                                                                    \
    KILN_IF_FULL(                                                                            \
        KILN_OUT_LAYOUT##k,                                                                  \
        {                                                                                    \
            const unsigned long long place = begin + at * inner;                             \
            typedef typename kiln_lanes<KILN_RESULT(k)>::word_t word_t;                      \
            if (words) {                                                                     \
                if (used(0))                                                                 \
                    ((word_t *)out##k)[(place + side(0)) / KILN_VECTOR] = r##k.word;         \
            } else _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) if (used(j)) \
                out##k[place + side(j)] = r##k.lane[j];                                      \
        })
#define KILN_PUT_OF_COLUMN(k)                                                                  \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_COLUMN) {                                            \
        KILN_NOT_SCANNED                                                                       \
        out##k[line + side(j)] = KILN_STORE(k, KILN_RESULT_AT(k, KILN_OF_COLUMN, 0, &row[j])); \
    }

/* Of input k: the elements at the places whose loads have started before, and those of one place. */
#define KILN_TAKEN_OVER(k)                                                        \
    kiln_lanes<KILN_TYPE(k)> g##k[KILN_LAYOUT##k <= KILN_LAYOUT_ROW ? ahead : 1]; \
    if (KILN_LAYOUT##k <= KILN_LAYOUT_ROW)                                        \
        _Pragma("unroll") for (unsigned m = 0; m < ahead; m++) g##k[m] = h##k[m];
#undef KILN_NEXT
#define KILN_NEXT(k) const kiln_lanes<KILN_TYPE(k)> w##k = g##k[KILN_LAYOUT##k <= KILN_LAYOUT_ROW ? m : 0];

/* A statement for each place of the axis that a thread takes in a walk: for kiln_ahead places at a time while the next
 * ones are loaded, and then for single ones. The test before the loads matters: without it a compiler moves them behind
 * the statements, to where they are needed. */
#define KILN_LOAD_PLACES(n, step)                                  \
    _Pragma("unroll") for (unsigned m = 0; m < ahead; m++)         \
    {                                                              \
        const unsigned long long at = KILN_IN_ORDER(n + m * step); \
        KILN_ALL(KILN_FETCH)                                       \
    }
#define KILN_USE_PLACES(n, step, ...)                              \
    _Pragma("unroll") for (unsigned m = 0; m < ahead; m++)         \
    {                                                              \
        const unsigned long long at = KILN_IN_ORDER(n + m * step); \
        KILN_ALL(KILN_NEXT)                                        \
        __VA_ARGS__                                                \
    }
#define KILN_EACH_PLACE(from, to, step, ...)                  \
    {                                                         \
        unsigned long long n = from;                          \
        if (n + (kiln_ahead - 1) * step < to) {               \
            constexpr unsigned ahead = kiln_ahead;            \
            KILN_ALL(KILN_AHEAD)                              \
            KILN_LOAD_PLACES(n, step)                         \
            for (bool more = true; more; n += ahead * step) { \
                KILN_ALL(KILN_TAKEN_OVER)                     \
                more = n + (2 * ahead - 1) * step < to;       \
                if (more) {                                   \
                    KILN_LOAD_PLACES(n + ahead * step, step)  \
                }                                             \
                KILN_USE_PLACES(n, step, __VA_ARGS__)         \
            }                                                 \
        }                                                     \
        _Pragma("unroll 1") for (; n < to; n += step)         \
        {                                                     \
            constexpr unsigned ahead = 1;                     \
            KILN_ALL(KILN_AHEAD)                              \
            KILN_LOAD_PLACES(n, step)                         \
            KILN_ALL(KILN_TAKEN_OVER)                         \
            KILN_USE_PLACES(n, step, __VA_ARGS__)             \
        }                                                     \
    }
#define KILN_TAKE_PLACES(f)                                                                        \
    _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) kiln_clear(&f[j], 0);             \
    KILN_EACH_PLACE(from, to, step, _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) { \
        KILN_TAKE_OF(f[j], &row[j], KILN_ELEMENT)                                                  \
    })
#define KILN_COLUMN_STAGE(s)                                                                               \
    {                                                                                                      \
        kiln_folds##s f[KILN_VECTOR];                                                                      \
        KILN_TAKE_PLACES(f)                                                                                \
        kiln_gather(f);                                                                                    \
        _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) kiln_finish(&f[j], 0, &row[j], cols); \
    }

#if !defined(KILN_SCANS)
#define KILN_IN_ORDER(i) (i)
#define KILN_SCAN_PLACE
#else
#define KILN_IN_ORDER(i) (KILN_REVERSE ? cols - 1 - (i) : (i))
#define KILN_SCAN_PLACE                                                             \
    const kiln_folds_scan last = f[j], *const before = &last, *const after = &f[j]; \
    KILN_TAKE_OF(f[j], &row[j], KILN_ELEMENT)

/* Of the columns of a thread the folds of its part of the axis: in their place those of all parts before it, in the
 * order of the threads along the axis and of the blocks of the cluster. `parts` has a row for each thread along the
 * axis, and one for all of them. All threads call it. */
KILN_FN void kiln_scan_parts(kiln_folds_scan *f)
{
    __shared__ kiln_folds_scan parts[KILN_DOWN + 1][KILN_TILE];
    const unsigned own = threadIdx.x % KILN_ACROSS * KILN_VECTOR, down = threadIdx.x / KILN_ACROSS;
#pragma unroll
    for (unsigned j = 0; j < KILN_VECTOR; j++)
        parts[down][own + j] = f[j];
    __syncthreads();
    for (unsigned c = threadIdx.x; c < KILN_TILE; c += KILN_BLOCK) {
        kiln_folds_scan all;
        kiln_clear(&all, 0);
        for (unsigned i = 0; i < KILN_DOWN; i++) {
            const kiln_folds_scan part = parts[i][c];
            parts[i][c] = all;
            kiln_join(&all, 0, &part, 0);
        }
        parts[KILN_DOWN][c] = all;
    }
    if (KILN_CLUSTER > 1)
        kiln_meet();
    else
        __syncthreads();
#pragma unroll
    for (unsigned j = 0; j < KILN_VECTOR; j++) {
        kiln_clear(&f[j], 0);
        for (unsigned i = 0; i < blockIdx.x % KILN_CLUSTER; i++) {
            kiln_folds_scan of;
            kiln_fetch_folds(&of, &parts[KILN_DOWN][own + j], i);
            kiln_join(&f[j], 0, &of, 0);
        }
        kiln_join(&f[j], 0, &parts[down][own + j], 0);
    }
}

#endif

#undef KILN_PARAMETERS
#define KILN_PARAMETERS                                                                                      \
    KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER), unsigned long long outer, unsigned long long cols, \
        unsigned long long inner KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)

/* The statement of the last walk: the results at a place. */
#define KILN_STORE_PLACE                                         \
    KILN_ALL_OUT(KILN_OUT_WORDS)                                 \
    _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) \
    {                                                            \
        KILN_SCAN_PLACE                                          \
        KILN_ALL_OUT(KILN_OUT_ELEMENTS)                          \
    }                                                            \
    KILN_ALL_OUT(KILN_PUT_WORDS)

/* A block has KILN_TILE columns, and a thread KILN_VECTOR of them: a word, or one of every KILN_ACROSS, which
 * neighbouring threads read together. Of the axis a thread has every KILN_DOWN-th place of its block's share, or, of a
 * scan, a part. It walks over them once for each stage, and once for the results. Threads without a column of their own
 * read another one and store nothing. */
template <bool words> KILN_FN void kiln_reduce(KILN_PARAMETERS)
{
    const unsigned rank = blockIdx.x % KILN_CLUSTER, across = threadIdx.x % KILN_ACROSS;
    const unsigned long long tiles = (inner + (KILN_TILE - 1)) / KILN_TILE, tile = blockIdx.x / KILN_CLUSTER,
                             slab = tile / tiles, left = (tile - slab * tiles) * KILN_TILE,
                             first = rank * KILN_DOWN + threadIdx.x / KILN_ACROSS;
    const unsigned long long line = slab * inner + left, begin = slab * cols * inner + left;
    const unsigned width = inner - left < KILN_TILE ? (unsigned)(inner - left) : KILN_TILE;
    const auto column = [=](unsigned j) { return words ? across * KILN_VECTOR + j : across + j * KILN_ACROSS; };
    const auto used = [=](unsigned j) { return column(j) < width; };
    const auto side = [=](unsigned j) { return used(j) ? column(j) : words ? j : 0; };
#if defined(KILN_SCANS)
    const unsigned long long part = (cols + (KILN_CLUSTER * KILN_DOWN - 1)) / (KILN_CLUSTER * KILN_DOWN),
                             from = first * part < cols ? first * part : cols,
                             to = cols - from < part ? cols : from + part, step = 1;
#else
    const unsigned long long from = first, to = cols, step = KILN_CLUSTER * KILN_DOWN;
#endif
    kiln_row row[KILN_VECTOR];
    KILN_ALL(KILN_COLUMNS)

    KILN_FOLD_STAGES(KILN_COLUMN_STAGE)
#if defined(KILN_SCANS)
    kiln_folds_scan f[KILN_VECTOR];
    if (KILN_CLUSTER * KILN_DOWN > 1) {
        KILN_TAKE_PLACES(f)
        kiln_scan_parts(f);
    } else
        for (unsigned j = 0; j < KILN_VECTOR; j++)
            kiln_clear(&f[j], 0);
#endif
    if (first == 0) /* which may be inputs that other threads have not read before the stages or scans */
        for (unsigned j = 0; j < KILN_VECTOR; j++)
            if (used(j)) {
                KILN_ALL_OUT(KILN_PUT_OF_COLUMN)
            }
#if defined(KILN_SCANS)
    KILN_EACH_PLACE(from, to, step, KILN_STORE_PLACE)
#else
    /* From the end of the axis, which the L2 cache still has, to its beginning: below 0 numbers exceed all places. */
    KILN_EACH_PLACE(cols - 1 - first, cols, -step, KILN_STORE_PLACE)
#endif
    kiln_meet(); /* another block may still read this one's folds */
}

extern "C" __global__ void __launch_bounds__(KILN_BLOCK) KILN_TOGETHER kiln_vector(KILN_PARAMETERS)
{
    kiln_reduce<true>(KILN_NAMES(outer, cols, inner));
}

/* The same with one element to an access, for arrays that are not aligned to words, and for an extent that words do not
 * divide. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) KILN_TOGETHER kiln_scalar(KILN_PARAMETERS)
{
    kiln_reduce<false>(KILN_NAMES(outer, cols, inner));
}
