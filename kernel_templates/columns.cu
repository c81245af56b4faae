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
//! param    vector 1,2,4,8,16 = min(16 / max(bytes, out_bytes), max(1, min(8, pow2(256 / (fold_bytes * walks))))) -- elements per memory access
//! param    across 1,2,4,8,16,32 = 131072 * vector / max(n_hint / cols_hint, 1) > 512 ? 4 : 8 -- threads of a block along the last dimension
//! param    block  32,64,128,256,512,1024 = max(32, min(min(scans ? min(2048 / vector, 1024) : 512, pow2(cols_hint * across / 4)), pow2(524288 / (vector * fold_bytes * ((walks - scans) * across + scans * 32)) + 1))) -- threads per block
//! param    cluster 1,2,4,8,16 = sm < 90 ? 1 : min(16, pow2(max(1, (min(131072 * vector / max(n_hint / cols_hint, 1), cols_hint / 4) * across + block - 1) / block))) -- blocks that share the axis
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
template <typename F> KILN_FN void kiln_gather(F *f, F (*parts)[KILN_TILE])
{
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

/* Of input k: the elements that it has for whole columns; those of the thread's columns at a place of the axis; and an
 * element of either. */
#define KILN_COLUMNS(k)                                                            \
    KILN_TYPE(k) c##k[KILN_VECTOR];                                                \
    for (unsigned j = 0; j < KILN_VECTOR; j++)                                     \
        c##k[j] = KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? x##k[line + side(j)]      \
                  : KILN_LAYOUT##k == KILN_LAYOUT_ONE  ? x##k[0]                   \
                                                       : (KILN_TYPE(k))0;
#define KILN_WORD(k)                                                                                       \
    kiln_lanes<KILN_TYPE(k)> w##k;                                                                         \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL && words)                                                       \
        w##k.word = *(const typename kiln_lanes<KILN_TYPE(k)>::word_t *)(x##k + begin + at * inner + side(0)); \
    else if (KILN_LAYOUT##k == KILN_LAYOUT_FULL)                                                           \
        _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) w##k.lane[j] =                        \
            x##k[begin + at * inner + side(j)];                                                            \
    else if (KILN_LAYOUT##k == KILN_LAYOUT_ROW)                                                            \
        w##k.lane[0] = x##k[at];
#undef KILN_ELEMENT
#define KILN_ELEMENT(k)                                              \
    KILN_VALUE(k, KILN_LAYOUT##k == KILN_LAYOUT_FULL  ? w##k.lane[j] \
                  : KILN_LAYOUT##k == KILN_LAYOUT_ROW ? w##k.lane[0] \
                                                      : c##k[j])
#define KILN_OF_COLUMN(k) KILN_VALUE(k, c##k[j])

/* Of output k: a word, its element j, how it is stored, and an element for a column. */
#define KILN_OUT_WORDS(k) KILN_IF_FULL(KILN_OUT_LAYOUT##k, kiln_lanes<KILN_RESULT(k)> r##k;)
#define KILN_OUT_ELEMENTS(k) \
    KILN_IF_FULL(KILN_OUT_LAYOUT##k, r##k.lane[j] = KILN_STORE(k, KILN_RESULT_AT(k, KILN_ELEMENT, at, &row[j]));)
#define KILN_PUT_WORDS(k)                                                                                            \
    KILN_IF_FULL(                                                                                                    \
        KILN_OUT_LAYOUT##k,                                                                                          \
        if (words) {                                                                                                 \
            if (used(0))                                                                                             \
                *(typename kiln_lanes<KILN_RESULT(k)>::word_t *)(out##k + begin + at * inner + side(0)) = r##k.word; \
        } else _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) if (used(j))                             \
            out##k[begin + at * inner + side(j)] = r##k.lane[j];)
#define KILN_PUT_OF_COLUMN(k)                                                                  \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_COLUMN) {                                            \
        KILN_NOT_SCANNED                                                                       \
        out##k[line + side(j)] = KILN_STORE(k, KILN_RESULT_AT(k, KILN_OF_COLUMN, 0, &row[j])); \
    }

#define KILN_COLUMN_STAGE(s)                                                                                       \
    {                                                                                                              \
        __shared__ kiln_folds##s parts[KILN_WARPS + 2][KILN_TILE];                                                 \
        kiln_folds##s f[KILN_VECTOR];                                                                              \
        _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) kiln_clear(&f[j], 0);                         \
        _Pragma("unroll 4") for (unsigned long long at = first; at < cols; at += KILN_CLUSTER * KILN_DOWN)         \
        {                                                                                                          \
            KILN_ALL(KILN_WORD)                                                                                    \
            _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++)                                           \
                kiln_take(&f[j], 0, &row[j], KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR), (long long)at); \
        }                                                                                                          \
        kiln_gather(f, parts);                                                                                     \
        _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) kiln_finish(&f[j], 0, &row[j], cols);         \
    }

#if defined(KILN_SCANS)

/* Of the columns of a thread the folds of its part of the axis: in their place those of all parts before it, in the
 * order of the threads along the axis and of the blocks of the cluster. `parts` has a row for each thread along the
 * axis, and one for all of them. All threads call it. */
KILN_FN void kiln_scan_parts(kiln_folds_scan *f, kiln_folds_scan (*parts)[KILN_TILE])
{
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

#define KILN_TAKE_SCAN(f) kiln_take(&f, 0, &row[j], KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR), (long long)at)
#define KILN_IN_ORDER(i)  (KILN_REVERSE ? cols - 1 - (i) : (i))

/* The results: a thread has a part of the axis of its own, which it walks over once for its folds, unless the part is
 * the whole axis, and once from the folds before it on. */
#define KILN_SCAN                                                                                                     \
    {                                                                                                                 \
        __shared__ kiln_folds_scan parts[KILN_DOWN + 1][KILN_TILE];                                                   \
        kiln_folds_scan f[KILN_VECTOR];                                                                               \
        const unsigned long long part = (cols + (KILN_CLUSTER * KILN_DOWN - 1)) / (KILN_CLUSTER * KILN_DOWN),         \
                                 begins = first * part < cols ? first * part : cols,                                  \
                                 ends = cols - begins < part ? cols : begins + part;                                  \
        _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) kiln_clear(&f[j], 0);                            \
        if (KILN_CLUSTER * KILN_DOWN > 1) {                                                                           \
            _Pragma("unroll 4") for (unsigned long long i = begins; i < ends; i++)                                    \
            {                                                                                                         \
                const unsigned long long at = KILN_IN_ORDER(i);                                                       \
                KILN_ALL(KILN_WORD)                                                                                   \
                _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) KILN_TAKE_SCAN(f[j]);                    \
            }                                                                                                         \
            kiln_scan_parts(f, parts);                                                                                \
        }                                                                                                             \
        _Pragma("unroll 4") for (unsigned long long i = begins; i < ends; i++)                                        \
        {                                                                                                             \
            const unsigned long long at = KILN_IN_ORDER(i);                                                           \
            KILN_ALL(KILN_WORD)                                                                                       \
            KILN_ALL_OUT(KILN_OUT_WORDS)                                                                              \
            _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++)                                              \
            {                                                                                                         \
                const kiln_folds_scan last = f[j], *const before = &last, *const after = &f[j];                       \
                KILN_TAKE_SCAN(f[j]);                                                                                 \
                KILN_ALL_OUT(KILN_OUT_ELEMENTS)                                                                       \
            }                                                                                                         \
            KILN_ALL_OUT(KILN_PUT_WORDS)                                                                              \
        }                                                                                                             \
    }

#endif

#undef KILN_PARAMETERS
#define KILN_PARAMETERS                                                                                      \
    KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER), unsigned long long outer, unsigned long long cols, \
        unsigned long long inner KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)

/* A block has KILN_TILE columns, and a thread KILN_VECTOR of them: a word, or one of every KILN_ACROSS, which
 * neighbouring threads read together. Of the axis a thread has every KILN_DOWN-th place of its block's share. Threads
 * without a column of their own read another one and store nothing. */
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
    kiln_row row[KILN_VECTOR];
    KILN_ALL(KILN_COLUMNS)

    KILN_FOLD_STAGES(KILN_COLUMN_STAGE)
#if defined(KILN_SCANS)
    KILN_SCAN
#endif
    if (first == 0) /* which may be inputs that other threads have not read before the stages or scans */
        for (unsigned j = 0; j < KILN_VECTOR; j++)
            if (used(j)) {
                KILN_ALL_OUT(KILN_PUT_OF_COLUMN)
            }
#if !defined(KILN_SCANS)
#pragma unroll 2
    for (unsigned long long at = first; at < cols; at += KILN_CLUSTER * KILN_DOWN) {
        KILN_ALL(KILN_WORD)
        KILN_ALL_OUT(KILN_OUT_WORDS)
#pragma unroll
        for (unsigned j = 0; j < KILN_VECTOR; j++) {
            KILN_ALL_OUT(KILN_OUT_ELEMENTS)
        }
        KILN_ALL_OUT(KILN_PUT_WORDS)
    }
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
