//! template rows
//! about    out, ... = op(x, y, ...) for contiguous arrays of rows and columns, where the op reduces the columns: softmax(x), sum(x * y). An output that has one value for each row has one column; inputs may have one row, one column or one element for all: layout=(full,row,column,one)
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     rows, cols
//! arg      out... out otype[rows, cols] inplace reduced
//! arg      x... in itype[rows, cols] broadcast
//! arg      rows uint64 = rows
//! arg      cols uint64 = cols
//! arg      s... f64
//! param    lanes  1,2,4,8,16,32,64,128,256,512,1024 = sm == 0 ? 32 : min(pow2((cols_hint * bytes + 31) / 32), 1024) -- threads per row
//! param    block  32..1024 step 32 = sm == 0 ? 1024 : max(lanes, 128)   -- threads per block
//! param    vector 1,2,4,8,16 = 16 / max(bytes, out_bytes)               -- elements per memory access
//! param    elems  1..128 = min((cols_hint + (lanes * vector - 1)) / (lanes * vector), max(128 / bytes / vector, 1)) * vector -- elements of a row that a thread keeps
//! param    cache  plain,stream = plain                                  -- cache hint of loads and stores
//! require  elems % vector == 0                                          -- elems must be a multiple of vector
//! require  block % lanes == 0                                           -- block must be a multiple of lanes
//! require  vector * max(bytes, out_bytes) <= (sm >= 100 ? 32 : 16)      -- vector must not exceed 16 bytes per access (32 from sm_100 on)
//! tune     lanes  4..1024*2       if sm > 0
//! tune     block  64..1024*2      if sm > 0
//! tune     elems  1..128*2        if sm > 0
//! tune     vector 1,2,4,8,16      if sm > 0
//! tune     cache  plain,stream    if sm > 0
//! bound    sm == 0 || elems * bytes <= 128                              -- more than 128 bytes per thread do not fit its registers
//! grid     sm == 0 ? (rows + max(65536 / max(cols, 1), 1) - 1) / max(65536 / max(cols, 1), 1) : (rows + (block / lanes - 1)) / (block / lanes)
//! entry    kiln_kept align vector * max(bytes, out_bytes) if cols % vector == 0 && cols > 0 && cols <= lanes * elems
//! entry    kiln_walk align 1

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses, the
 * folds of its stages and kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32     1
#define KILN_INPUTS        1
#define KILN_LAYOUT_FULL   0
#define KILN_LAYOUT_ROW    1
#define KILN_LAYOUT_COLUMN 2
#define KILN_LAYOUT_ONE    3
#define KILN_LAYOUT0       KILN_LAYOUT_FULL
#define KILN_OUT_LAYOUT0   KILN_LAYOUT_FULL
#define KILN_LANES         32
#define KILN_BLOCK         128
#define KILN_VECTOR        4
#define KILN_ELEMS         8
#define KILN_CACHE_PLAIN   0
#define KILN_CACHE_STREAM  1
#define KILN_CACHE         KILN_CACHE_PLAIN
#include "real.h"
#define kiln_value0 kiln_value

/* x - max(x) */
#define KILN_STAGES(M) M(0)
#define KILN_FOLDS0(M) M(a0)
typedef struct kiln_row {
    float r0;
} kiln_row;
typedef struct kiln_folds0 {
    float a0[KILN_SPREAD];
} kiln_folds0;
KILN_FN void kiln_clear(kiln_folds0 *f, unsigned j)
{
    f->a0[j] = -KILN_INFINITY;
}
KILN_FN void kiln_take(kiln_folds0 *f, unsigned j, const kiln_row *row, kiln_real x, long long position)
{
    f->a0[j] = kiln_max(f->a0[j], x);
}
KILN_FN void kiln_join(kiln_folds0 *f, unsigned j, const kiln_folds0 *g, unsigned i)
{
    f->a0[j] = kiln_max(f->a0[j], g->a0[i]);
}
KILN_FN void kiln_finish(const kiln_folds0 *f, kiln_row *row, unsigned long long n)
{
    row->r0 = f->a0[0];
}
KILN_FN kiln_real kiln_value(kiln_real x, const kiln_row *row)
{
    return kiln_sub(x, row->r0);
}
#endif

/* The text, for an output that has all columns: KILN_IF_FULL(KILN_OUT_LAYOUT0, text). */
#define KILN_IF_FULL(layout, ...)        KILN_IF_FULL_OF(layout, __VA_ARGS__)
#define KILN_IF_FULL_OF(layout, ...)     KILN_IF_FULL_##layout(__VA_ARGS__)
#define KILN_IF_FULL_0(...)              __VA_ARGS__
#define KILN_IF_FULL_2(...)

#define KILN_ACCESSES (KILN_ELEMS / KILN_VECTOR)
#define KILN_ROWS     (KILN_BLOCK / KILN_LANES)             /* of a block */
#define KILN_WARPS    (KILN_LANES > 32 ? KILN_LANES / 32 : 1) /* of a row */

/* ---- Folds of the threads of a row */

/* Joins the folds of two threads, in both. */
#define KILN_RECEIVE(a) g.a[0] = __shfl_xor_sync(0xffffffffu, f->a[0], distance);
#define KILN_EXCHANGE(s)                                            \
    KILN_FN void kiln_exchange(kiln_folds##s *f, unsigned distance) \
    {                                                               \
        kiln_folds##s g;                                            \
        KILN_FOLDS##s(KILN_RECEIVE);                                \
        kiln_join(f, 0, &g, 0);                                     \
    }
KILN_STAGES(KILN_EXCHANGE)

/* Joins the folds of all threads of a row, in each: neighbours first, then warps by way of shared memory. The order
 * depends on the number of threads alone. All threads of the block call it. */
template <typename F> KILN_FN void kiln_gather(F *f, F *parts)
{
#pragma unroll
    for (unsigned distance = 1; distance < KILN_LANES && distance < 32; distance *= 2)
        kiln_exchange(f, distance);
    if (KILN_LANES > 32) {
        const unsigned warp = threadIdx.x / 32, t = threadIdx.x % 32;
        if (t == 0)
            parts[warp] = *f;
        __syncthreads();
        *f = parts[warp / KILN_WARPS * KILN_WARPS + t % KILN_WARPS];
#pragma unroll
        for (unsigned distance = 1; distance < KILN_WARPS; distance *= 2)
            kiln_exchange(f, distance);
    }
}

/* One walk over the row: KILN_ELEMENTS of the entry calls the statement for each element that a thread has. */
#define KILN_STAGE(s)                                                                                             \
    {                                                                                                             \
        __shared__ kiln_folds##s parts[KILN_BLOCK / 32];                                                          \
        kiln_folds##s f;                                                                                          \
        kiln_clear(&f, 0);                                                                                        \
        KILN_ELEMENTS(kiln_take(&f, 0, &row, KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR), (long long)at)); \
        kiln_gather(&f, parts);                                                                                   \
        kiln_finish(&f, &row, cols);                                                                              \
    }

/* ---- Arrays */

/* The parameters of both entries. No pointer is restrict: an output may be one of the inputs. */
#define KILN_PARAMETERS                                                                                     \
    KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER), unsigned long long rows, unsigned long long cols \
                                                               KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)

/* Of input k: its row, or the element that it has for the whole row. */
#define KILN_BEGIN(k)                                                                                        \
    const KILN_TYPE(k) *const p##k = KILN_LAYOUT##k == KILN_LAYOUT_FULL && used ? x##k + line * cols : x##k; \
    const KILN_TYPE(k) c##k =                                                                                \
        KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN && used ? x##k[KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? line : 0] \
                                                     : (KILN_TYPE(k))0;
#define KILN_CONSTANT(k) KILN_VALUE(k, c##k)

/* Of output k: its row, and its element where it has one for the row. */
#define KILN_BEGIN_OUT(k) \
    KILN_RESULT(k) *const q##k = KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL && used ? out##k + line * cols : out##k;
#define KILN_PUT_COLUMN(k)                                                                                       \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_COLUMN)                                                                \
        out##k[line] = KILN_STORE(                                                                               \
            k, kiln_value##k(KILN_EACH(KILN_CONSTANT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(0), &row));

/* ---- A row in registers */

/* Of input k: the words of its row that a thread keeps. Those of an input that has one row for all are loaded again
 * wherever they are needed, from a cache. */
#define KILN_WORDS(k) kiln_lanes<KILN_TYPE(k)> w##k[KILN_ACCESSES];
#define KILN_KEEP(k)                        \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL) \
        w##k[m].word = kiln_fetch(p##k, i < words ? i : 0);
#define KILN_FETCH(k)                      \
    if (KILN_LAYOUT##k == KILN_LAYOUT_ROW) \
        w##k[m].word = *((const typename kiln_lanes<KILN_TYPE(k)>::word_t *)p##k + (i < words ? i : 0));
#define KILN_ELEMENT(k) KILN_VALUE(k, KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN ? c##k : w##k[m].lane[j])

/* Of output k: a word, its element j, and how it is stored. */
#define KILN_OUT_WORD(k) KILN_IF_FULL(KILN_OUT_LAYOUT##k, kiln_lanes<KILN_RESULT(k)> r##k;)
#define KILN_RESULT_OF(k) \
    kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(at), &row)
#define KILN_OUT_LANE(k) KILN_IF_FULL(KILN_OUT_LAYOUT##k, r##k.lane[j] = KILN_STORE(k, KILN_RESULT_OF(k));)
#define KILN_PUT(k) KILN_IF_FULL(KILN_OUT_LAYOUT##k, kiln_put(q##k, i, r##k.word);)

/* In place of a word behind the row the first one is taken, and then forgotten: without branches a compiler keeps the
 * values that stages and outputs share. */
#define KILN_ELEMENTS(...)                                           \
    _Pragma("unroll") for (unsigned m = 0; m < KILN_ACCESSES; m++)   \
    {                                                                \
        const unsigned i = m * KILN_LANES + lane;                    \
        const auto before = f;                                       \
        KILN_ALL(KILN_FETCH)                                         \
        _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++) \
        {                                                            \
            const unsigned at = i * KILN_VECTOR + j;                 \
            __VA_ARGS__;                                             \
        }                                                            \
        if (i >= words)                                              \
            f = before;                                              \
    }

/* Thread t of a row keeps its words t, t + KILN_LANES, ... All loads start before the first is needed. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_kept(KILN_PARAMETERS)
{
    const unsigned lane = threadIdx.x % KILN_LANES;
    const unsigned long long line = (unsigned long long)blockIdx.x * KILN_ROWS + threadIdx.x / KILN_LANES;
    const bool used = line < rows;
    const unsigned words = used ? (unsigned)cols / KILN_VECTOR : 0;
    kiln_row row;
    KILN_ALL(KILN_BEGIN)
    KILN_ALL_OUT(KILN_BEGIN_OUT)
    KILN_ALL(KILN_WORDS)

#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = m * KILN_LANES + lane;
        KILN_ALL(KILN_KEEP)
        (void)i;
    }
    KILN_STAGES(KILN_STAGE)
    if (used && lane == 0) {
        KILN_ALL_OUT(KILN_PUT_COLUMN)
    }
#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = m * KILN_LANES + lane;
        KILN_ALL(KILN_FETCH)
        KILN_ALL_OUT(KILN_OUT_WORD)
#pragma unroll
        for (unsigned j = 0; j < KILN_VECTOR; j++) {
            const unsigned at = i * KILN_VECTOR + j;
            KILN_ALL_OUT(KILN_OUT_LANE)
            (void)at;
        }
        if (i < words) {
            KILN_ALL_OUT(KILN_PUT)
        }
    }
}

/* ---- A row of any length and alignment */

#undef KILN_ELEMENT
#undef KILN_ELEMENTS
#define KILN_ELEMENT(k) KILN_VALUE(k, KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN ? c##k : p##k[at])
#define KILN_ELEMENTS(...)                                      \
    for (unsigned long long at = lane; at < end; at += KILN_LANES) \
        __VA_ARGS__;
#define KILN_OUT_ELEMENT(k)     \
    const KILN_RESULT(k) e##k = \
        KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL ? KILN_STORE(k, KILN_RESULT_OF(k)) : (KILN_RESULT(k))0;
#define KILN_PUT_ELEMENT(k)                     \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL) \
        q##k[at] = e##k;

/* Thread t of a row walks over its elements t, t + KILN_LANES, ..., once for each stage and once for the outputs. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_walk(KILN_PARAMETERS)
{
    const unsigned lane = threadIdx.x % KILN_LANES;
    const unsigned long long line = (unsigned long long)blockIdx.x * KILN_ROWS + threadIdx.x / KILN_LANES;
    const bool used = line < rows;
    const unsigned long long end = used ? cols : 0;
    kiln_row row;
    KILN_ALL(KILN_BEGIN)
    KILN_ALL_OUT(KILN_BEGIN_OUT)

    KILN_STAGES(KILN_STAGE)
    if (used && lane == 0) {
        KILN_ALL_OUT(KILN_PUT_COLUMN)
    }
    for (unsigned long long at = lane; at < end; at += KILN_LANES) {
        KILN_ALL_OUT(KILN_OUT_ELEMENT)
        KILN_ALL_OUT(KILN_PUT_ELEMENT)
    }
}
