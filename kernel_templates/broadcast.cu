//! template broadcast
//! about    out[i, j], ... = op(x[i, j], y[i, j], ...) for contiguous arrays of rows and columns, of which inputs may have one row, one column or one element for all: layout=(full,row,column,one)
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     rows, cols
//! arg      out... out otype[rows, cols] inplace
//! arg      x... in itype[rows, cols] broadcast
//! arg      rows uint64 = rows
//! arg      cols uint64 = cols
//! arg      inverse uint32 = cols < 2 || cols >= tile ? 0 : 4294967295 / cols + 1
//! arg      s... f64
//! param    block  32..1024 step 32 = sm == 0 ? 1024 : 128      -- threads per block
//! param    elems  1..64 = sm == 0 ? 64 : max(min((operations > 15 && bytes > 1 && n_hint * bytes > 4194304 ? 32 : 16) / min(bytes, out_bytes), 64 / max(bytes, out_bytes)), vector) -- elements per thread
//! param    vector 1,2,4,8,16 = gcd(elems, 16 / max(bytes, out_bytes)) -- elements per memory access
//! param    cache  plain,stream = plain                          -- cache hint of stores, and of loads of full arrays
//! require  elems % vector == 0                                  -- elems must be a multiple of vector
//! require  vector * max(bytes, out_bytes) <= (sm >= 100 ? 32 : 16) -- vector must not exceed 16 bytes per access (32 from sm_100 on)
//! require  sm == 0 || block * elems <= 32768                    -- a block must not take more than 32768 elements
//! tune     block  64..1024*2      if sm > 0
//! tune     elems  1..32*2         if sm > 0
//! tune     elems  4..64*2         if sm == 0                    -- one chunk of cpu work is block * elems
//! tune     vector 1,2,4,8,16      if sm > 0
//! tune     cache  plain,stream    if sm > 0
//! bound    sm == 0 || elems * max(bytes, out_bytes) <= 64       -- more than 64 bytes per thread cost registers and gain nothing
//! tile     block * elems
//! grid     (rows * cols + (tile - 1)) / tile
//! entry    kiln_vector align vector * max(bytes, out_bytes) if cols % vector == 0
//! entry    kiln_scalar align 1

/* The elements of all rows are one sequence, which the blocks share as in elementwise. A thread needs the row and the
 * column of each of its words. The block's first one costs a division. From there on a word is at most one row further,
 * or, of shorter rows, a product with 2^32 / cols tells how many: it is exact for fewer than 2^16 columns on fewer than
 * 2^16 elements, and a tile has at most 2^15 elements. */

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and
 * kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32     1
#define KILN_INPUTS        1
#define KILN_LAYOUT_FULL   0
#define KILN_LAYOUT_ROW    1
#define KILN_LAYOUT_COLUMN 2
#define KILN_LAYOUT_ONE    3
#define KILN_LAYOUT0       KILN_LAYOUT_ROW
#define KILN_BLOCK         128
#define KILN_ELEMS         4
#define KILN_TILE          (KILN_BLOCK * KILN_ELEMS)
#define KILN_VECTOR        4
#define KILN_CACHE_PLAIN   0
#define KILN_CACHE_STREAM  1
#define KILN_CACHE         KILN_CACHE_PLAIN
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

#define KILN_ACCESSES (KILN_ELEMS / KILN_VECTOR)

/* Where an element is, and where the tile begins. */
struct kiln_place {
    unsigned long long row, col;
};

struct kiln_tile {
    unsigned long long start;
    unsigned count;
    kiln_place first;
};

KILN_FN kiln_tile kiln_find_tile(unsigned long long rows, unsigned long long cols)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE, left = rows * cols - start;
    const bool narrow = (start | cols) >> 32 == 0; /* a division of 32 bits is much faster */
    kiln_tile tile;
    tile.start = start;
    tile.count = left < KILN_TILE ? (unsigned)left : KILN_TILE;
    tile.first.row = narrow ? (unsigned)start / (unsigned)cols : start / cols;
    tile.first.col = start - tile.first.row * cols;
    return tile;
}

/* The place of element t of the tile. */
KILN_FN kiln_place kiln_find(kiln_place first, unsigned long long cols, unsigned inverse, unsigned t)
{
    kiln_place place;
    unsigned long long col = first.col + t;
    unsigned long long further = cols >= KILN_TILE ? col >= cols : cols == 1 ? col : __umulhi((unsigned)col, inverse);
    place.row = first.row + further;
    place.col = col - further * cols;
    return place;
}

/* Takes what a word of an input needs: of a column or an element, lane 0 alone. */
template <int layout, typename T>
KILN_FN void kiln_take(kiln_lanes<T> &lanes, const T *array, unsigned long long start, unsigned word, kiln_place place)
{
    if (layout == KILN_LAYOUT_FULL)
        lanes.word = kiln_fetch(array + start, word);
    else if (layout == KILN_LAYOUT_ROW)
        lanes.word = *(const typename kiln_lanes<T>::word_t *)(array + place.col);
    else
        lanes.lane[0] = array[layout == KILN_LAYOUT_COLUMN ? place.row : 0];
}

template <int layout, typename T> KILN_FN T kiln_pick(const T *array, unsigned long long index, kiln_place place)
{
    return array[layout == KILN_LAYOUT_FULL     ? index
                 : layout == KILN_LAYOUT_ROW    ? place.col
                 : layout == KILN_LAYOUT_COLUMN ? place.row
                                                : 0];
}

/* Of input k: the words that a thread holds, how it gets them, element j of word m, and the element at a place. */
#define KILN_WORDS(k)   kiln_lanes<KILN_TYPE(k)> w##k[KILN_ACCESSES];
#define KILN_FETCH(k)   kiln_take<KILN_LAYOUT##k>(w##k[m], x##k, tile.start, i, place);
#define KILN_LANE(k)    KILN_VALUE(k, w##k[m].lane[KILN_LAYOUT##k < KILN_LAYOUT_COLUMN ? j : 0])
#define KILN_ELEMENT(k) KILN_VALUE(k, kiln_pick<KILN_LAYOUT##k>(x##k, tile.start + i, place))

/* Of output k, likewise: a word, its element j, and the element at a place, which is calculated before any is stored. */
#define KILN_OUT_WORD(k) kiln_lanes<KILN_RESULT(k)> r##k;
#define KILN_OUT_LANE(k)                                                                          \
    r##k.lane[j] = KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_LANE) KILN_ALL_SCALARS(KILN_SCALAR) \
                                                   KILN_POSITION(tile.start + i * KILN_VECTOR + j)));
#define KILN_PUT(k) kiln_put(out##k + tile.start, i, r##k.word);
#define KILN_OUT_ELEMENT(k)                 \
    const KILN_RESULT(k) e##k = KILN_STORE( \
        k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(tile.start + i)));
#define KILN_PUT_ELEMENT(k) out##k[tile.start + i] = e##k;

/* The parameters of both entries. No pointer is restrict: an output may be one of the inputs. */
#define KILN_PARAMETERS                                                                                      \
    KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER), unsigned long long rows, unsigned long long cols, \
        unsigned inverse KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)

/* As in elementwise. Words divide rows, so that one lies in a row, and the last tile ends with one. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_vector(KILN_PARAMETERS)
{
    const kiln_tile tile = kiln_find_tile(rows, cols);
    const unsigned words = tile.count / KILN_VECTOR;
    KILN_ALL(KILN_WORDS)

#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = m * KILN_BLOCK + threadIdx.x;
        if (i < words) {
            const kiln_place place = kiln_find(tile.first, cols, inverse, i * KILN_VECTOR);
            KILN_ALL(KILN_FETCH)
        }
    }
#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = m * KILN_BLOCK + threadIdx.x;
        if (i < words) {
            KILN_ALL_OUT(KILN_OUT_WORD)
#pragma unroll
            for (unsigned j = 0; j < KILN_VECTOR; j++) {
                KILN_ALL_OUT(KILN_OUT_LANE)
            }
            KILN_ALL_OUT(KILN_PUT)
        }
    }
}

/* The same one element at a time, for arrays that are not aligned to words, and rows that words do not divide. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_scalar(KILN_PARAMETERS)
{
    const kiln_tile tile = kiln_find_tile(rows, cols);
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < tile.count; i += KILN_BLOCK) {
        const kiln_place place = kiln_find(tile.first, cols, inverse, i);
        KILN_ALL_OUT(KILN_OUT_ELEMENT)
        KILN_ALL_OUT(KILN_PUT_ELEMENT)
    }
}
