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
//! let      kept    = cols_hint * max(full, 1)                          -- elements of a column, of all inputs
//! let      folds   = fold_bytes * walks                                -- bytes of the folds of all walks
//! let      halves  = sm > 0 && folds <= 256 && bytes == 4 && full_out > 0 && fold_stages > 1 && !scans -- whether words of 8 bytes are faster: several folds beside the values of the results
//! let      keeps   = halves && kept <= (sm < 90 ? 1024 : 8192)           -- whether threads keep a column
//! param    vector 1,2,4,8,16 = min(16 / max(bytes, out_bytes), halves ? 2 : max(1, min(8, pow2(256 / folds)))) -- elements per memory access
//! let      beside  = lines * bytes >= (full_out > 0 && !halves ? 16384 : 65536) ? 256 : lines * bytes >= 1024 ? 128 : 64 -- bytes of a place of the axis that a block reads
//! param    across 1,2,4,8,16,32 = keeps ? (lines < 512 ? 4 : 16) : min(32, beside / (vector * bytes)) -- threads of a block along the last dimension
//! let      tiles   = max(lines / (across * vector), 1)                 -- of the columns, each of one cluster
//! let      half    = scans || fold_bytes > 16 && !halves               -- whether 512 threads take the registers of a multiprocessor
//! let      threads = pow2(cores * 3 / 4) * (half || tiles <= 16 ? 512 : 1024) -- that fill a GPU, and no more than clusters of a few tiles can
//! let      down    = min(max(threads / tiles, full_out > 0 ? (half ? 512 : 1024) : 256), cols_hint * across / 4) -- threads of a tile: few tiles at once find their elements in the L2 cache again
//! param    block  32,64,128,256,512,1024 = max(32, min(min(pow2(cols_hint * across / 4), keeps || half ? 512 : 1024), min(keeps ? (kept > 1024 ? 256 : 512) : max(256, pow2(down / 2 + 1)), pow2(524288 / (vector * fold_bytes * ((walks - scans) * across + scans * 32)) + 1)))) -- threads per block
//! let      room    = max(256 / (vector * max(bytes, 4) * max(full, 1)), 1) -- places of the axis whose elements fit a thread's registers
//! param    cluster 1,2,4,8,16 = sm < 90 ? 1 : min(16, keeps ? pow2((cols_hint * across + block * room - 1) / (block * room)) : min(8192 / block, pow2(down / block / 2 + 1))) -- blocks that share the axis
//! let      own     = (cols_hint * across + cluster * block - 1) / (cluster * block) -- places of the axis for each thread
//! param    elems  0..64 = keeps && own <= room ? own : 0               -- places of the axis that a thread keeps; 0: it walks over the axis once for each stage
//! require  cluster == 1 || sm >= 90                                     -- clusters of blocks need sm_90
//! require  vector * max(bytes, out_bytes) <= 16                         -- vector must not exceed 16 bytes per access
//! require  ((block / 32 + 2) * (walks - scans) + (block / across + 1) * scans) * across * vector * fold_bytes <= 49152 -- folds must fit the shared memory
//! tune     cluster 1..16*2        if sm >= 90
//! tune     across 4..32*2         if sm > 0
//! tune     block  64..1024*2      if sm > 0
//! tune     elems  0,1,2,4,8,16,32 if sm > 0
//! bound    elems <= room                                                -- more do not fit a thread's registers
//! bound    elems == 0 || elems * cluster * block >= cols_hint * across && elems * cluster * block < 2 * cols_hint * across -- an axis that is kept fits its threads, and fills half of them
//! joint    sm > 0 && elems == 0
//! grid     outer * ((inner + (across * vector - 1)) / (across * vector)) * cluster
//! entry    kiln_vector align vector * max(bytes, out_bytes) if inner % vector == 0 && (elems == 0 || cols > 0 && cols <= elems * cluster * (block / across))
//! entry    kiln_scalar align 1

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, rows.h, the ops it
 * uses, the folds of its stages and kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_CLUSTER       1
#define KILN_ACROSS        16
#define KILN_BLOCK         256
#define KILN_VECTOR        4
#define KILN_ELEMS         8
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

/* Of input k: the elements that it has for whole columns; those of the thread's columns at the places of the axis that
 * it keeps, or whose loads start together; those of one place; and an element of either. */
#define KILN_COLUMNS(k)                                                            \
    KILN_TYPE(k) c##k[KILN_VECTOR];                                                \
    for (unsigned j = 0; j < KILN_VECTOR; j++)                                     \
        c##k[j] = KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? x##k[line + side(j)]      \
                  : KILN_LAYOUT##k == KILN_LAYOUT_ONE  ? x##k[0]                   \
                                                       : (KILN_TYPE(k))0;
#define KILN_HELD(k)         \
    kiln_lanes<KILN_TYPE(k)> \
        h##k[KILN_LAYOUT##k == KILN_LAYOUT_FULL || (KILN_LAYOUT##k == KILN_LAYOUT_ROW && !kept) ? held : 1];
#define KILN_LOAD(k)                                                                                                  \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL) {                                                                         \
        if (words)                                                                                                    \
            h##k[m].word = *(const typename kiln_lanes<KILN_TYPE(k)>::word_t *)(x##k + begin + at * inner + side(0)); \
        else                                                                                                          \
            _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) h##k[m].lane[j] =                            \
                x##k[begin + at * inner + side(j)];                                                                   \
    } else if (KILN_LAYOUT##k == KILN_LAYOUT_ROW && !kept)                                                            \
        h##k[m].lane[0] = x##k[at];
#define KILN_WORD(k)                            \
    kiln_lanes<KILN_TYPE(k)> w##k;              \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL)     \
        w##k.word = h##k[m].word;               \
    else if (KILN_LAYOUT##k == KILN_LAYOUT_ROW) \
        w##k.lane[0] = kept ? x##k[at] : h##k[m].lane[0];
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

/* A statement for each place of the axis that a thread takes: places i, i + step, ... below `to`. Where the thread keeps
 * them, all are in registers, and in place of one behind the axis it takes place 0 and then forgets it: without branches
 * a compiler keeps the values that stages and outputs share. Where it walks, the loads of `held` places start together:
 * a compiler does not move them there where branches or stores stand between. */
#define KILN_PLACES(n) _Pragma("unroll") for (unsigned long long m = 0, i = n; m < held; m++, i += step)
#define KILN_LOAD_PLACES(n, order)                                         \
    KILN_PLACES(n)                                                         \
    {                                                                      \
        const unsigned long long at = order(i < to ? i : kept ? 0 : n);    \
        KILN_ALL(KILN_LOAD)                                                \
    }
#define KILN_EACH_PLACE(order, ...)                                       \
    for (unsigned long long n = from; kept || n < to; n += held * step) { \
        if (!kept) {                                                      \
            KILN_LOAD_PLACES(n, order)                                    \
        }                                                                 \
        KILN_PLACES(n)                                                    \
        {                                                                 \
            const bool real = i < to;                                     \
            const unsigned long long at = order(real ? i : 0);            \
            if (kept || real) {                                           \
                KILN_ALL(KILN_WORD)                                       \
                __VA_ARGS__                                               \
            }                                                             \
        }                                                                 \
        if (kept)                                                         \
            break;                                                        \
    }

#define KILN_TAKE_PLACE(f)                     \
    {                                          \
        const auto last = f;                   \
        KILN_TAKE_OF(f, &row[j], KILN_ELEMENT) \
        if (!real)                             \
            f = last;                          \
    }
#define KILN_TAKE_PLACES(f)                                                            \
    _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) kiln_clear(&f[j], 0); \
    KILN_EACH_PLACE(KILN_IN_ORDER, _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) KILN_TAKE_PLACE(f[j]))
#define KILN_COLUMN_STAGE(s)                                                                             \
    {                                                                                                    \
        kiln_folds##s f[KILN_VECTOR];                                                                    \
        KILN_TAKE_PLACES(f)                                                                              \
        kiln_gather(f);                                                                                  \
        _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) kiln_finish(&f[j], 0, &row[j], cols); \
    }

/* The place of the axis that a thread takes as its i-th, in the walks of stages and in that of results. The latter goes
 * backwards: the L2 cache still has the end of the axis. */
#if !defined(KILN_SCANS)
#define KILN_IN_ORDER(i)  (i)
#define KILN_OUT_ORDER(i) (kept ? (i) : cols - 1 - (i))
#define KILN_SCAN_PLACE
#else
#define KILN_IN_ORDER(i)  (KILN_REVERSE ? cols - 1 - (i) : (i))
#define KILN_OUT_ORDER(i) KILN_IN_ORDER(i)
#define KILN_SCAN_PLACE                                                             \
    const kiln_folds_scan last = f[j], *const before = &last, *const after = &f[j]; \
    KILN_TAKE_PLACE(f[j])

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

#define KILN_STORE_PLACE                                         \
    KILN_ALL_OUT(KILN_OUT_WORDS)                                 \
    _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) \
    {                                                            \
        KILN_SCAN_PLACE                                          \
        KILN_ALL_OUT(KILN_OUT_ELEMENTS)                          \
    }                                                            \
    if (real) {                                                  \
        KILN_ALL_OUT(KILN_PUT_WORDS)                             \
    }

/* Loads that start together: each costs registers, and so threads. */
constexpr unsigned kiln_ahead = (0 KILN_ALL(KILN_IS_WHOLE)) > 1 ? 2 : 4;

/* A block has KILN_TILE columns, and a thread KILN_VECTOR of them: a word, or one of every KILN_ACROSS, which
 * neighbouring threads read together. Of the axis a thread has every KILN_DOWN-th place of its block's share, or, of a
 * scan, a part. It keeps the elements in registers, or reads them for each stage and the results. Threads without a
 * column of their own read another one and store nothing. */
template <bool words, bool kept> KILN_FN void kiln_reduce(KILN_PARAMETERS)
{
    constexpr unsigned held = kept ? KILN_ELEMS : kiln_ahead;
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
    KILN_ALL(KILN_HELD)

    if (kept) {
        KILN_LOAD_PLACES(from, KILN_IN_ORDER)
    }
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
    KILN_EACH_PLACE(KILN_OUT_ORDER, KILN_STORE_PLACE)
    kiln_meet(); /* another block may still read this one's folds */
}

extern "C" __global__ void __launch_bounds__(KILN_BLOCK) KILN_TOGETHER kiln_vector(KILN_PARAMETERS)
{
    kiln_reduce<true, (KILN_ELEMS > 0)>(KILN_NAMES(outer, cols, inner));
}

/* The same with one element to an access, for arrays that are not aligned to words, for an extent that words do not
 * divide, and for an axis that threads do not keep. It walks: elements that are kept one by one take a second to
 * compile. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) KILN_TOGETHER kiln_scalar(KILN_PARAMETERS)
{
    kiln_reduce<false, false>(KILN_NAMES(outer, cols, inner));
}
