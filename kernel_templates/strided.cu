//! template strided
//! about    out[i, j, ...], ... = op(x[i, j, ...], ...) for arrays of any strides in up to 8 dimensions, which kiln_apply brings: layout=3d(unit,any) says how the outputs and the inputs lie along the innermost one
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     n
//! arg      out... out otype[n] inplace
//! arg      x... in itype[n]
//! arg      view strides
//! arg      n    uint64 = n
//! arg      s... f64
//! param    block  32..1024 step 32 = sm == 0 ? 1024 : 128      -- threads per block
//! param    elems  1..64 = sm == 0 ? 64 : max(min(16 / min(bytes, out_bytes), 64 / max(bytes, out_bytes)), vector) -- elements per thread
//! param    vector 1,2,4,8,16 = gcd(elems, 16 / max(bytes, out_bytes)) -- elements per memory access
//! param    cache  plain,stream = plain                          -- cache hint of stores, and of loads of contiguous rows
//! require  elems % vector == 0                                  -- elems must be a multiple of vector
//! require  vector * max(bytes, out_bytes) <= (sm >= 100 ? 32 : 16) -- vector must not exceed 16 bytes per access (32 from sm_100 on)
//! tune     block  64..1024*2      if sm > 0
//! tune     elems  1..32*2         if sm > 0
//! tune     elems  4..64*2         if sm == 0                    -- one chunk of cpu work is block * elems
//! tune     vector 1,2,4,8,16      if sm > 0
//! tune     cache  plain,stream    if sm > 0
//! bound    sm == 0 || elems * max(bytes, out_bytes) <= 64       -- more than 64 bytes per thread cost registers and gain nothing
//! tile     block * elems
//! grid     (n + (tile - 1)) / tile
//! entry    kiln_vector align vector * max(bytes, out_bytes) if cols % vector == 0 && span < 2147483648
//! entry    kiln_scalar align 1 if span < 2147483648
//! entry    kiln_wide align 1

/* The elements are one sequence, the innermost dimension fastest, which the blocks share as in elementwise. A thread
 * finds the indices of each of its words by divisions, which are products of 32 bits where no array reaches further
 * than that. Where the extent of the innermost dimension is a multiple of a word, a word lies in a row. Arrays that are
 * contiguous along that dimension are then read and written by words. An array with one element for all of it is read
 * once a word, and others are read element by element. */

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and
 * kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32    1
#define KILN_INPUTS       1
#define KILN_OUTPUTS      1
#define KILN_LAYOUT_UNIT  4
#define KILN_LAYOUT_SAME  5
#define KILN_LAYOUT_ANY   6
#define KILN_OUT_LAYOUT0  KILN_LAYOUT_UNIT
#define KILN_LAYOUT0      KILN_LAYOUT_ANY
#define KILN_DIMS         2
#define KILN_BLOCK        128
#define KILN_ELEMS        4
#define KILN_TILE         (KILN_BLOCK * KILN_ELEMS)
#define KILN_VECTOR       4
#define KILN_CACHE_PLAIN  0
#define KILN_CACHE_STREAM 1
#define KILN_CACHE        KILN_CACHE_PLAIN
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

#define KILN_ACCESSES (KILN_ELEMS / KILN_VECTOR)

/* The offsets of one element in all arrays. I is int where 32 bits suffice, else long long. */
template <typename I> struct kiln_place {
    I at[KILN_OUTPUTS + KILN_INPUTS];
};

/* i / extent, for i below 2^31. */
KILN_FN int kiln_divide(const kiln_view &view, unsigned d, int i)
{
    return (int)((__umulhi((unsigned)i, view.magic[d]) + (unsigned)i) >> view.shift[d]);
}

KILN_FN long long kiln_divide(const kiln_view &view, unsigned d, long long i)
{
    return i / (long long)view.extent[d];
}

template <typename I> KILN_FN kiln_place<I> kiln_find(const kiln_view &view, I i)
{
    kiln_place<I> place = {};
#pragma unroll
    for (unsigned d = 0; d < KILN_DIMS; d++) {
        const I next = d + 1 < KILN_DIMS ? kiln_divide(view, d, i) : 0;
        const I index = d + 1 < KILN_DIMS ? i - next * (I)view.extent[d] : i;
#pragma unroll
        for (unsigned k = 0; k < KILN_OUTPUTS + KILN_INPUTS; k++)
            place.at[k] += index * (I)view.stride[k][d];
        i = next;
    }
    return place;
}

/* The element at place j of a word, whose first is at `at`. */
template <int layout> KILN_FN int kiln_step(const kiln_view &view, unsigned k, int at, unsigned j)
{
    return layout == KILN_LAYOUT_UNIT   ? at + (int)j
           : layout == KILN_LAYOUT_SAME ? at
                                        : at + (int)j * (int)view.stride[k][0];
}

/* Takes what a word of an input needs: of one element for all, lane 0 alone. */
template <int layout, typename T>
KILN_FN void kiln_take(kiln_lanes<T> &lanes, const T *array, const kiln_view &view, unsigned k, int at)
{
    if (layout == KILN_LAYOUT_UNIT)
        lanes.word = kiln_fetch(array + at, 0);
    else
#pragma unroll
        for (unsigned j = 0; j < (layout == KILN_LAYOUT_SAME ? 1 : KILN_VECTOR); j++)
            lanes.lane[j] = array[kiln_step<layout>(view, k, at, j)];
}

template <int layout, typename T>
KILN_FN void kiln_give(T *array, const kiln_lanes<T> &lanes, const kiln_view &view, unsigned k, int at)
{
    if (layout == KILN_LAYOUT_UNIT)
        kiln_put(array + at, 0, lanes.word);
    else
#pragma unroll
        for (unsigned j = 0; j < KILN_VECTOR; j++)
            array[kiln_step<layout>(view, k, at, j)] = lanes.lane[j];
}

/* Of input k: the words that a thread holds, how it gets them, element j of word m, and the element at a place. */
#define KILN_WORDS(k)   kiln_lanes<KILN_TYPE(k)> w##k[KILN_ACCESSES];
#define KILN_FETCH(k)   kiln_take<KILN_LAYOUT##k>(w##k[m], x##k, view, KILN_OUTPUTS + k, place[m].at[KILN_OUTPUTS + k]);
#define KILN_LANE(k)    KILN_VALUE(k, w##k[m].lane[KILN_LAYOUT##k == KILN_LAYOUT_SAME ? 0 : j])
#define KILN_ELEMENT(k) KILN_VALUE(k, x##k[place.at[KILN_OUTPUTS + k]])

/* Of output k, likewise: a word, its element j, and the element at a place, which is calculated before any is stored. */
#define KILN_OUT_WORD(k) kiln_lanes<KILN_RESULT(k)> r##k;
#define KILN_OUT_LANE(k)       \
    r##k.lane[j] = KILN_STORE( \
        k, kiln_value##k(KILN_EACH(KILN_LANE) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(start + i + j)));
#define KILN_PUT(k) kiln_give<KILN_OUT_LAYOUT##k>(out##k, r##k, view, k, place[m].at[k]);
#define KILN_OUT_ELEMENT(k)     \
    const KILN_RESULT(k) e##k = \
        KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(start + i)));
#define KILN_PUT_ELEMENT(k) out##k[place.at[k]] = e##k;

/* The parameters of all entries, which lie in constant memory. No pointer is restrict: an output may be an input. */
#define KILN_PARAMETERS                                                                            \
    KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER), const __grid_constant__ kiln_view view, \
        unsigned long long n KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)

/* One tile per block, of whole words. Thread t has words t, t + KILN_BLOCK, ... of the tile. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_vector(KILN_PARAMETERS)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    const unsigned count = n - start < KILN_TILE ? (unsigned)(n - start) : KILN_TILE;
    kiln_place<int> place[KILN_ACCESSES];
    KILN_ALL(KILN_WORDS)

#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = (m * KILN_BLOCK + threadIdx.x) * KILN_VECTOR;
        if (i < count) {
            place[m] = kiln_find(view, (int)(start + i));
            KILN_ALL(KILN_FETCH)
        }
    }
#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = (m * KILN_BLOCK + threadIdx.x) * KILN_VECTOR;
        if (i < count) {
            KILN_ALL_OUT(KILN_OUT_WORD)
#pragma unroll
            for (unsigned j = 0; j < KILN_VECTOR; j++) {
                KILN_ALL_OUT(KILN_OUT_LANE)
            }
            KILN_ALL_OUT(KILN_PUT)
        }
    }
}

/* The same tile one element at a time, for rows that words do not divide. */
template <typename I> KILN_FN kiln_place<I> kiln_find_element(const kiln_view &view, unsigned long long i)
{
    return kiln_find(view, (I)i);
}

#define KILN_ELEMENTS(I)                                                              \
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;      \
    const unsigned count = n - start < KILN_TILE ? (unsigned)(n - start) : KILN_TILE; \
    _Pragma("unroll 1") for (unsigned i = threadIdx.x; i < count; i += KILN_BLOCK)    \
    {                                                                                 \
        const kiln_place<I> place = kiln_find_element<I>(view, start + i);            \
        KILN_ALL_OUT(KILN_OUT_ELEMENT)                                                \
        KILN_ALL_OUT(KILN_PUT_ELEMENT)                                                \
    }

extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_scalar(KILN_PARAMETERS)
{
    KILN_ELEMENTS(int)
}

/* For arrays that reach further than 32 bits count. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_wide(KILN_PARAMETERS)
{
    KILN_ELEMENTS(long long)
}
