//! template crossed
//! about    out[i, j, ...], ... = op(x[i, j, ...], ...) as strided, where layout=2d(unit,cross) says which inputs are contiguous along the second dimension: a transposed input passes through shared memory
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     n
//! arg      out... out otype[n] inplace
//! arg      x... in itype[n]
//! arg      view strides
//! arg      s... f64
//! param    lines  4,8,16,32 = 8                                 -- threads along the second dimension, beside 32 along the first
//! param    vector 1,2,4 = sm == 0 ? 1 : max(1, 4 / max(bytes, out_bytes)) -- elements per memory access, along both dimensions
//! require  vector == 1 || vector * max(bytes, out_bytes) <= 4   -- vector must not exceed 4 bytes per access
//! require  crossing * vector * vector * max(bytes, out_bytes) <= 46 -- tiles of 1056 elements of each crossing input must fit 48 KiB of shared memory
//! tune     lines  4,8,16,32   if sm > 0
//! block    32, lines
//! grid     ((cols + (32 * vector - 1)) / (32 * vector)) * ((rows + (32 * vector - 1)) / (32 * vector)) * (n / max(1, cols * rows))
//! entry    kiln_vector align vector * max(bytes, out_bytes) if cols % vector == 0 && rows % vector == 0
//! entry    kiln_scalar align 1

/* A block computes a square of 32 x 32 patches along the first two dimensions, and a patch is one of KILN_VECTOR x
 * KILN_VECTOR elements. A thread starts all its reads before it needs the first. An input that crosses is read by words
 * along the second dimension and passes through shared memory; everything else is read and written by words along the
 * first. So neighbours read and write neighbours both times, and whole lines of memory for types of 8 and 16 bits too.
 * A row of 33 words puts a column into as many banks. */

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and
 * kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32    1
#define KILN_INPUTS       1
#define KILN_OUTPUTS      1
#define KILN_LAYOUT_UNIT  4
#define KILN_LAYOUT_SAME  5
#define KILN_LAYOUT_CROSS 7
#define KILN_OUT_LAYOUT0  KILN_LAYOUT_UNIT
#define KILN_LAYOUT0      KILN_LAYOUT_CROSS
#define KILN_DIMS         2
#define KILN_LINES        8
#define KILN_VECTOR       1
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

#define KILN_EDGE    32
#define KILN_PATCHES (KILN_EDGE / KILN_LINES) /* of a thread, in one pass */

/* Words of `lanes` elements. The entry for single elements computes the same square in more passes, each with its own
 * part of shared memory. */
template <int lanes> struct kiln_pass {
    enum { along = KILN_VECTOR / lanes, count = along * along, edge = KILN_EDGE * lanes };
};

/* The shared memory of an input, of a single word where it does not cross: column c of a pass is in place c / lanes of
 * part c % lanes, so that the words that neighbours take lie in different banks. */
template <int layout, typename T, int lanes> struct kiln_square {
    enum { crosses = layout == KILN_LAYOUT_CROSS, passes = crosses ? kiln_pass<lanes>::count : 1 };
    typename kiln_lanes<T, lanes>::word_t cell[passes][crosses ? lanes : 1][crosses ? KILN_EDGE : 1]
                                              [crosses ? KILN_EDGE + 1 : 1];
};

/* The patches of an input that a thread holds: a word for each row of a patch, or for each column where it crosses. */
template <typename T, int lanes> struct kiln_patches {
    kiln_lanes<T, lanes> word[KILN_PATCHES][lanes];
};

/* Where a pass is: its first column and row, the columns and rows that there are, the number of its plane, and the
 * offset of that in each array. */
struct kiln_spot {
    long long col, row, cols, rows, plane, base[KILN_OUTPUTS + KILN_INPUTS];
};

/* The offset of an element in array k. */
KILN_FN long long kiln_at(const kiln_view &view, const kiln_spot &spot, unsigned k, long long col, long long row)
{
    return spot.base[k] + col * view.stride[k][0] + (KILN_DIMS > 1 ? row * view.stride[k][KILN_DIMS > 1] : 0);
}

/* The first column and row of patch m of this thread, as outputs have it, and as inputs have it that cross. */
template <int layout, int lanes> KILN_FN long long kiln_col(const kiln_spot &spot, unsigned m)
{
    return spot.col + lanes * (layout == KILN_LAYOUT_CROSS ? m * KILN_LINES + threadIdx.y : threadIdx.x);
}

template <int layout, int lanes> KILN_FN long long kiln_row(const kiln_spot &spot, unsigned m)
{
    return spot.row + lanes * (layout == KILN_LAYOUT_CROSS ? threadIdx.x : m * KILN_LINES + threadIdx.y);
}

/* Starts the reads of all patches. */
template <int layout, typename T, int lanes>
KILN_FN void kiln_take(kiln_patches<T, lanes> &held, const T *array, const kiln_view &view, const kiln_spot &spot,
                       unsigned k)
{
    typedef typename kiln_lanes<T, lanes>::word_t word_t;
#pragma unroll
    for (unsigned m = 0; m < KILN_PATCHES; m++) {
        const long long col = kiln_col<layout, lanes>(spot, m), row = kiln_row<layout, lanes>(spot, m);
        if (col >= spot.cols || row >= spot.rows)
            continue;
#pragma unroll
        for (unsigned i = 0; i < lanes; i++) {
            if (layout == KILN_LAYOUT_CROSS)
                held.word[m][i].word = *(const word_t *)(array + kiln_at(view, spot, k, col + i, row));
            else if (layout == KILN_LAYOUT_UNIT)
                held.word[m][i].word = *(const word_t *)(array + kiln_at(view, spot, k, col, row + i));
            else
#pragma unroll
                for (unsigned j = 0; j < (layout == KILN_LAYOUT_SAME ? 1 : lanes); j++)
                    held.word[m][i].lane[j] = array[kiln_at(view, spot, k, col + j, row + i)];
        }
    }
}

/* Puts the patches of an input that crosses into shared memory, and takes those that this thread calculates with. */
template <int layout, typename T, int lanes>
KILN_FN void kiln_lay(kiln_square<layout, T, lanes> &square, const kiln_patches<T, lanes> &held, unsigned pass)
{
    if (layout == KILN_LAYOUT_CROSS)
#pragma unroll
        for (unsigned m = 0; m < KILN_PATCHES; m++)
#pragma unroll
            for (unsigned i = 0; i < lanes; i++)
                square.cell[pass][i][m * KILN_LINES + threadIdx.y][threadIdx.x] = held.word[m][i].word;
}

template <int layout, typename T, int lanes>
KILN_FN void kiln_lift(kiln_patches<T, lanes> &held, const kiln_square<layout, T, lanes> &square, unsigned pass,
                       unsigned m)
{
    if (layout == KILN_LAYOUT_CROSS)
#pragma unroll
        for (unsigned i = 0; i < lanes; i++)
            held.word[m][i].word = square.cell[pass][i][threadIdx.x][m * KILN_LINES + threadIdx.y];
}

/* The element of row i and column j of patch m. */
template <int layout, typename T, int lanes>
KILN_FN T kiln_pick(const kiln_patches<T, lanes> &held, unsigned m, unsigned i, unsigned j)
{
    return layout == KILN_LAYOUT_CROSS  ? held.word[m][j].lane[i]
           : layout == KILN_LAYOUT_SAME ? held.word[m][i].lane[0]
                                        : held.word[m][i].lane[j];
}

template <int layout, typename T, int lanes>
KILN_FN void kiln_give(T *array, const kiln_lanes<T, lanes> &row, const kiln_view &view, const kiln_spot &spot,
                       unsigned k, long long at_col, long long at_row)
{
    typedef typename kiln_lanes<T, lanes>::word_t word_t;
    if (layout == KILN_LAYOUT_UNIT)
        *(word_t *)(array + kiln_at(view, spot, k, at_col, at_row)) = row.word;
    else
#pragma unroll
        for (unsigned j = 0; j < lanes; j++)
            array[kiln_at(view, spot, k, at_col + j, at_row)] = row.lane[j];
}

/* Of input k: its shared memory, its patches, the ways between them, and an element. */
#define KILN_SQUARE(k)  __shared__ kiln_square<KILN_LAYOUT##k, KILN_TYPE(k), lanes> t##k;
#define KILN_PATCH(k)   kiln_patches<KILN_TYPE(k), lanes> h##k;
#define KILN_TAKE(k)    kiln_take<KILN_LAYOUT##k>(h##k, x##k, view, spot, KILN_OUTPUTS + k);
#define KILN_LAY(k)     kiln_lay(t##k, h##k, pass);
#define KILN_LIFT(k)    kiln_lift(h##k, t##k, pass, m);
#define KILN_ELEMENT(k) KILN_VALUE(k, kiln_pick<KILN_LAYOUT##k>(h##k, m, i, j))

/* Of output k: a row of a patch, and its element j. */
#define KILN_NUMBER     ((spot.plane * spot.rows + row + i) * spot.cols + col + j)
#define KILN_OUT_ROW(k) kiln_lanes<KILN_RESULT(k), lanes> r##k;
#define KILN_OUT_ELEMENT(k)    \
    r##k.lane[j] = KILN_STORE( \
        k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(KILN_NUMBER)));
#define KILN_GIVE(k) kiln_give<KILN_OUT_LAYOUT##k>(out##k, r##k, view, spot, k, col, row + i);

/* The parameters of both entries, but for the strides, and their names. No pointer is restrict: an output may be an
 * input. */
#define KILN_ARRAYS         KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER)
#define KILN_OUT_NAME(k)    out##k
#define KILN_IN_NAME(k)     x##k
#define KILN_SCALAR_NAME(k) , s##k
#define KILN_PARAMETERS     KILN_ARRAYS, const __grid_constant__ kiln_view view KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)
#define KILN_NAMES          KILN_EACH_OUT(KILN_OUT_NAME), KILN_EACH(KILN_IN_NAME), view KILN_ALL_SCALARS(KILN_SCALAR_NAME)

/* The square of a block: `spot` without its offsets. */
KILN_FN kiln_spot kiln_find(const kiln_view &view)
{
    const unsigned side = KILN_EDGE * KILN_VECTOR;
    kiln_spot spot = {};
    spot.cols = (long long)view.extent[0];
    spot.rows = KILN_DIMS > 1 ? (long long)view.extent[KILN_DIMS > 1] : 1;
    const unsigned wide = (unsigned)((spot.cols + side - 1) / side), high = (unsigned)((spot.rows + side - 1) / side);
    spot.col = (long long)(blockIdx.x % wide) * side;
    spot.row = (long long)(blockIdx.x / wide % high) * side;
    unsigned rest = blockIdx.x / wide / high;
    spot.plane = rest;
#pragma unroll
    for (unsigned d = 2; d < KILN_DIMS; d++) {
        const unsigned index = rest % (unsigned)view.extent[d];
#pragma unroll
        for (unsigned k = 0; k < KILN_OUTPUTS + KILN_INPUTS; k++)
            spot.base[k] += index * view.stride[k][d];
        rest /= (unsigned)view.extent[d];
    }
    return spot;
}

template <int lanes>
KILN_FN void kiln_compute(KILN_ARRAYS, const kiln_view &view KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER))
{
    typedef kiln_pass<lanes> passes;
    const kiln_spot first = kiln_find(view);
    KILN_ALL(KILN_SQUARE)
#pragma unroll 1
    for (unsigned pass = 0; pass < passes::count; pass++) {
        kiln_spot spot = first;
        spot.col += pass % passes::along * passes::edge;
        spot.row += pass / passes::along * passes::edge;
        KILN_ALL(KILN_PATCH)
        KILN_ALL(KILN_TAKE)
        KILN_ALL(KILN_LAY)
        __syncthreads();
#pragma unroll
        for (unsigned m = 0; m < KILN_PATCHES; m++) {
            const long long col = kiln_col<KILN_LAYOUT_UNIT, lanes>(spot, m);
            const long long row = kiln_row<KILN_LAYOUT_UNIT, lanes>(spot, m);
            if (col >= spot.cols || row >= spot.rows)
                continue;
            KILN_ALL(KILN_LIFT)
#pragma unroll
            for (unsigned i = 0; i < lanes; i++) {
                KILN_ALL_OUT(KILN_OUT_ROW)
#pragma unroll
                for (unsigned j = 0; j < lanes; j++) {
                    KILN_ALL_OUT(KILN_OUT_ELEMENT)
                }
                KILN_ALL_OUT(KILN_GIVE)
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(KILN_EDGE *KILN_LINES) kiln_vector(KILN_PARAMETERS)
{
    kiln_compute<KILN_VECTOR>(KILN_NAMES);
}

/* For arrays in which words do not lie. */
extern "C" __global__ void __launch_bounds__(KILN_EDGE *KILN_LINES) kiln_scalar(KILN_PARAMETERS)
{
    kiln_compute<1>(KILN_NAMES);
}
