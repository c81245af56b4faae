//! template cluster
//! about    as rows, for rows that are longer or begin at any element: a row lies in the shared memory of a cluster of blocks, and is read once
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     rows, cols
//! arg      out... out otype[rows, cols] inplace reduced
//! arg      x... in itype[rows, cols] broadcast
//! arg      rows uint64 = rows
//! arg      cols uint64 = cols
//! arg      s... f64
//! param    cluster 1,2,4,8,16 = sm < 90 ? 1 : min(pow2((cols_hint * bytes * max(full, 1) + 106495) / 106496), 16) -- blocks that share a row
//! param    vector 1,2,4,8,16 = 16 / max(bytes, out_bytes)               -- elements per memory access
//! param    elems  16..262144 step 16 = min((cols_hint / cluster + 2 * vector + 15) / 16, (shared_limit - 6144) / (16 * bytes * max(full, 1))) * 16 -- elements of a row that a block keeps
//! param    rounds 0..64 = cluster >= 8 && operations <= 64 && n_hint / cols_hint * cluster >= cores * 8 ? 8 : 0 -- 0: a cluster for each row; else as many clusters as fill a GPU so often, each for rows in turn
//! param    block  32,64,128,256,512,1024 = elems * bytes * max(full, 1) <= 16384 ? 256 : cluster == 1 && bytes <= 2 && fold_stages == 1 && elems > 20480 || rounds > 0 && inputs > full && fold_stages == 1 && (full == 1 || bytes > 2) && elems * bytes * max(full, 1) > 75000 && (cols_hint / (cluster * vector) + 1023) / 1024 * 10240 <= cols_hint / (cluster * vector) * 11 ? 1024 : 512 -- threads per block
//! param    cache  plain,stream = plain                                  -- cache hint of stores
//! require  cluster == 1 || sm >= 90                                     -- clusters of blocks need sm_90
//! require  vector * max(bytes, out_bytes) <= 16                         -- vector must not exceed 16 bytes per access
//! tune     cluster 1..16*2        if sm >= 90
//! tune     block  128..1024*2     if sm > 0
//! tune     rounds 0,2,8,32        if sm > 0
//! tune     cache  plain,stream    if sm > 0
//! bound    vector * max(bytes, out_bytes) == 16                          -- accesses of less are slow
//! bound    elems * cluster >= cols_hint && elems * cluster <= 2 * (cols_hint + 16 * cluster) -- a row fits the memory of its blocks, and fills half of it
//! shared   elems * bytes * max(full, 1)
//! picks    sm > 0
//! grid     (rounds == 0 ? rows : min(rows, max(cores * rounds / cluster, 1))) * cluster
//! entry    kiln_spread align vector * max(bytes, out_bytes) if (cols / vector + (cluster - 1)) / cluster <= elems / vector
//! entry    kiln_walk align 1

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, rows.h, the ops it
 * uses, the folds of its stages and kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_CLUSTER       1
#define KILN_BLOCK         256
#define KILN_VECTOR        4
#define KILN_ELEMS         8192
#define KILN_ROUNDS        8
#define KILN_CACHE_PLAIN   0
#define KILN_CACHE_STREAM  1
#define KILN_CACHE         KILN_CACHE_PLAIN
#include "rows_example.h"
#endif

#define KILN_WARPS    (KILN_BLOCK / 32)
#define KILN_PARTS    (KILN_WARPS + 1)
#define KILN_HAS_ENDS true
KILN_FOLD_STAGES(KILN_JOIN_LANES)

/* Joins the folds of all threads of the row, in each: those of a warp, of a block, of the cluster. The order depends on
 * the numbers of threads and blocks alone. `parts` has one for each warp, and then one for the block. */
template <typename F> KILN_FN void kiln_gather(F *f, F *parts)
{
    const unsigned t = threadIdx.x % 32;
    kiln_join_lanes<32>(f);
    if (t == 0)
        parts[threadIdx.x / 32] = *f;
    __syncthreads();
    *f = parts[t % KILN_WARPS];
    kiln_join_lanes<KILN_WARPS>(f);
    if (KILN_CLUSTER > 1) {
        if (threadIdx.x == 0)
            parts[KILN_WARPS] = *f;
        kiln_meet();
        kiln_fetch_folds(f, parts + KILN_WARPS, t % KILN_CLUSTER);
        kiln_join_lanes<KILN_CLUSTER>(f);
    }
}

#define KILN_IS_FIRST (rank == 0 && threadIdx.x == 0)

/* ---- A row in shared memory */

/* The words of a row that a block keeps: neighbours. A thread of it has every KILN_BLOCK-th of these, which no other
 * thread reads. The first block has the ends of the row, too, one a thread. */
typedef struct kiln_slice {
    kiln_span span;
    unsigned long long first; /* word */
    unsigned count, ends;
} kiln_slice;

KILN_FN kiln_slice kiln_find_slice(unsigned long long line, unsigned long long cols, unsigned rank)
{
    kiln_slice slice;
    slice.span = kiln_find_span(line, cols);
    const unsigned long long words = slice.span.words, share = (words + (KILN_CLUSTER - 1)) / KILN_CLUSTER;
    slice.first = rank * share < words ? rank * share : words;
    slice.count = (unsigned)(slice.first + share < words ? share : words - slice.first);
    slice.ends = rank == 0 ? slice.span.ends : 0;
    return slice;
}

/* Starts to copy a word, 16 bytes in the background. */
template <typename W> KILN_FN void kiln_copy_word(W *to, const W *from)
{
#if __CUDA_ARCH__ >= 800
    if (sizeof(W) == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                     "l"(__cvta_generic_to_global(from))
                     : "memory");
        return;
    }
#endif
    *to = *from;
}

KILN_FN void kiln_await_words()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

#define KILN_ROOM ((unsigned long long)KILN_ELEMS * KILN_WIDEST)

/* Of input k: where the block keeps its words, how they come there, and how a thread gets one of them, and its end. */
#define KILN_KEPT(k) \
    kiln_lanes<KILN_TYPE(k)> *const b##k = (kiln_lanes<KILN_TYPE(k)> *)(shared + KILN_PLACE##k * KILN_ROOM);
#define KILN_KEEP(k)                                                                            \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL && KILN_IS_EARLY(k) == early)                        \
        kiln_copy_word(&b##k[i].word, (const typename kiln_lanes<KILN_TYPE(k)>::word_t *)(x##k + from) + i);
#define KILN_BEGIN_ENDS(k)                                                            \
    const KILN_TYPE(k) g##k = KILN_LAYOUT##k <= KILN_LAYOUT_ROW && is_end ? p##k[end] \
                                                                          : (KILN_TYPE(k))0;
#undef KILN_FETCH
#define KILN_FETCH(k)                                                                                    \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL)                                                              \
        h##k[m].word = b##k[i].word;                                                                     \
    else if (KILN_LAYOUT##k == KILN_LAYOUT_ROW)                                                          \
        kiln_fetch_shared(h##k[m], p##k + begin + (unsigned long long)i * KILN_VECTOR, span.head == 0);
#define KILN_END(k)     KILN_VALUE(k, KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN ? c##k : g##k)

/* Words whose results a thread calculates together: in a cluster two blocks share a multiprocessor, and threads of a
 * small one have registers for two words. */
#define KILN_WORDS_AHEAD (KILN_CLUSTER > 1 && KILN_BLOCK <= 512 ? 2 : 1)

#define KILN_ELEMENTS(f) KILN_EACH_WORD(1, threadIdx.x, slice.count, KILN_BLOCK, KILN_TAKE_WORD(f))
#define KILN_ENDS(...)                      \
    if (is_end) {                           \
        const unsigned long long at = end;  \
        __VA_ARGS__;                        \
    }

/* Words that are copied in the background come while the row before is stored. */
#define KILN_IS_EARLY(k) (__CUDA_ARCH__ >= 800 && sizeof(kiln_lanes<KILN_TYPE(k)>) == 16)

#undef KILN_STAGE
#define KILN_TURNS (KILN_ROUNDS > 0 ? 2 : 1)
#define KILN_STAGE(s)                                           \
    {                                                           \
        __shared__ kiln_folds##s parts[KILN_TURNS][KILN_PARTS]; \
        KILN_WALK_STAGE(s, parts[KILN_ROUNDS > 0 ? turn : 0])   \
    }

/* A cluster takes one row, or every step-th. Behind each word that a thread stores, the thread starts to load the word
 * of the next row in its place. The folds of a row have other places than those of the row before, which another block
 * may still read. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) KILN_TOGETHER kiln_spread(KILN_PARAMETERS)
{
    extern __shared__ __align__(16) unsigned char shared[];
    const unsigned rank = blockIdx.x % KILN_CLUSTER, step = gridDim.x / KILN_CLUSTER;
    const bool used = true;
    unsigned turn = 0;
    unsigned long long line = blockIdx.x / KILN_CLUSTER;
    kiln_slice slice = kiln_find_slice(line, cols, rank);
    KILN_ALL(KILN_KEPT)

    for (unsigned i = threadIdx.x; i < slice.count; i += KILN_BLOCK) {
        const bool early = true;
        const unsigned long long from = line * cols + slice.span.head + slice.first * KILN_VECTOR;
        KILN_ALL(KILN_KEEP)
    }
    for (; line < rows; line += step, turn ^= 1) {
        const kiln_span span = slice.span;
        const unsigned long long begin = span.head + slice.first * KILN_VECTOR,
                                 end = kiln_find_end(span, threadIdx.x);
        const bool is_end = threadIdx.x < slice.ends;
        kiln_row row;
        KILN_ALL(KILN_BEGIN)
        KILN_ALL_OUT(KILN_BEGIN_OUT)
        for (unsigned i = threadIdx.x; i < slice.count; i += KILN_BLOCK) {
            const bool early = false;
            const unsigned long long from = line * cols + begin;
            KILN_ALL(KILN_KEEP)
        }
        KILN_ALL(KILN_BEGIN_ENDS)
        kiln_await_words();
        KILN_FOLD_STAGES(KILN_STAGE)
        if (KILN_IS_FIRST) {
            KILN_ALL_OUT(KILN_PUT_COLUMN)
        }
        kiln_slice next = kiln_find_slice(line + step, cols, rank);
        next.count = KILN_ROUNDS > 0 && line + step < rows ? next.count : 0;
        const bool early = true;
        const unsigned long long from = (line + step) * cols + next.span.head + next.first * KILN_VECTOR;
        unsigned done = threadIdx.x;
        KILN_EACH_WORD(
            KILN_WORDS_AHEAD, threadIdx.x, slice.count, KILN_BLOCK, KILN_STORE_WORD;
            done = i + KILN_BLOCK;
            if (i < next.count) { KILN_ALL(KILN_KEEP) })
        for (unsigned i = done; i < next.count; i += KILN_BLOCK) {
            KILN_ALL(KILN_KEEP)
        }
        KILN_ENDS(KILN_ALL_OUT(KILN_PUT_END))
        if (KILN_ROUNDS == 0)
            break;
        slice = next;
    }
    kiln_meet(); /* another block may still read this one's folds */
}

/* ---- A row that is longer than this memory */

#undef KILN_ELEMENT
#undef KILN_ELEMENTS
#undef KILN_ENDS
#define KILN_ELEMENT(k) KILN_AT(k)
#define KILN_ELEMENTS(f)                                                              \
    for (unsigned long long at = begin; at < cols; at += KILN_CLUSTER * KILN_BLOCK) { \
        KILN_TAKE(f, KILN_ELEMENT)                                                    \
    }
#define KILN_ENDS(...)

/* The threads of all blocks walk over the row together, once for each stage and once for the outputs. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) KILN_TOGETHER kiln_walk(KILN_PARAMETERS)
{
    const unsigned rank = blockIdx.x % KILN_CLUSTER, begin = rank * KILN_BLOCK + threadIdx.x;
    const bool used = true;
    unsigned turn = 0;
    for (unsigned long long line = blockIdx.x / KILN_CLUSTER; line < rows; line += gridDim.x / KILN_CLUSTER, turn ^= 1) {
        kiln_row row;
        KILN_ALL(KILN_BEGIN)
        KILN_ALL_OUT(KILN_BEGIN_OUT)

        KILN_FOLD_STAGES(KILN_STAGE)
        if (KILN_IS_FIRST) {
            KILN_ALL_OUT(KILN_PUT_COLUMN)
        }
        for (unsigned long long at = begin; at < cols; at += KILN_CLUSTER * KILN_BLOCK) {
            KILN_ALL_OUT(KILN_OUT_ELEMENT)
            KILN_ALL_OUT(KILN_PUT_ELEMENT)
        }
    }
    kiln_meet();
}
