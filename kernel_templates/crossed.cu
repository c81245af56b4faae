//! template crossed
//! about    out[i, j, ...], ... = op(x[i, j, ...], ...) as strided, where layout=2d(unit,cross) says which inputs are contiguous along the second dimension: a transposed input passes through shared memory
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     n
//! arg      out... out otype[n] inplace
//! arg      x... in itype[n]
//! arg      view strides
//! arg      s... f64
//! param    lines 8,16,32 = 8                                    -- rows of a tile that a block reads or writes at once
//! block    32, lines
//! grid     ((cols + 31) / 32) * ((rows + 31) / 32) * (n / max(1, cols * rows))
//! entry    kiln_crossed align 1

/* A block computes a tile of 32 x 32 elements along the first two dimensions. Its threads read an input that crosses
 * along the second dimension and keep it in shared memory, then everything else along the first. So neighbours read and
 * write neighbours both times. A row of 33 elements puts a column into as many banks. */

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and
 * kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32    1
#define KILN_INPUTS       1
#define KILN_OUTPUTS      1
#define KILN_LAYOUT_CROSS 7
#define KILN_LAYOUT0      KILN_LAYOUT_CROSS
#define KILN_DIMS         2
#define KILN_LINES        8
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

#define KILN_EDGE 32

/* A tile of an input, of a single element where it does not cross. */
template <int layout, typename T> struct kiln_square {
    enum { rows = layout == KILN_LAYOUT_CROSS ? KILN_EDGE : 1, cols = layout == KILN_LAYOUT_CROSS ? KILN_EDGE + 1 : 1 };
    T cell[rows][cols];
};

/* The offset of an element in array k, from that of the tile's dimensions beyond the second. */
KILN_FN long long kiln_at(const kiln_view &view, unsigned k, long long base, long long col, long long row)
{
    return base + col * view.stride[k][0] + (KILN_DIMS > 1 ? row * view.stride[k][KILN_DIMS > 1] : 0);
}

/* Reads the tile of an input that crosses, along the second dimension. */
template <int layout, typename T>
KILN_FN void kiln_read(kiln_square<layout, T> &square, const T *array, const kiln_view &view, unsigned k,
                       long long base, long long col, long long row, long long cols, long long rows)
{
    if (layout == KILN_LAYOUT_CROSS)
        for (unsigned j = threadIdx.y; j < KILN_EDGE; j += KILN_LINES)
            if (col + j < cols && row + threadIdx.x < rows)
                square.cell[j][threadIdx.x] = array[kiln_at(view, k, base, col + j, row + threadIdx.x)];
}

/* The element at column threadIdx.x and row j of the tile. */
template <int layout, typename T>
KILN_FN T kiln_pick(const kiln_square<layout, T> &square, const T *array, const kiln_view &view, unsigned k,
                    long long base, long long col, long long row, unsigned j)
{
    if (layout == KILN_LAYOUT_CROSS)
        return square.cell[threadIdx.x][j];
    return array[kiln_at(view, k, base, col + threadIdx.x, row + j)];
}

/* Of input k: its tile, how it is read, and an element. */
#define KILN_SQUARE(k) __shared__ kiln_square<KILN_LAYOUT##k, KILN_TYPE(k)> t##k;
#define KILN_READ(k)   kiln_read(t##k, x##k, view, KILN_OUTPUTS + k, base[KILN_OUTPUTS + k], col, row, cols, rows);
#define KILN_ELEMENT(k) \
    KILN_VALUE(k, kiln_pick(t##k, x##k, view, KILN_OUTPUTS + k, base[KILN_OUTPUTS + k], col, row, j))

/* Of output k: the element, which is calculated before any is stored. */
#define KILN_OUT_ELEMENT(k) \
    const KILN_RESULT(k) e##k = KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR)));
#define KILN_PUT_ELEMENT(k) out##k[kiln_at(view, k, base[k], col + threadIdx.x, row + j)] = e##k;

/* No pointer is restrict: an output may be an input. */
extern "C" __global__ void __launch_bounds__(KILN_EDGE *KILN_LINES)
    kiln_crossed(KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER),
                 const __grid_constant__ kiln_view view KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER))
{
    const long long cols = (long long)view.extent[0], rows = KILN_DIMS > 1 ? (long long)view.extent[KILN_DIMS > 1] : 1;
    const unsigned wide = (unsigned)((cols + KILN_EDGE - 1) / KILN_EDGE);
    const unsigned high = (unsigned)((rows + KILN_EDGE - 1) / KILN_EDGE);
    const long long col = (long long)(blockIdx.x % wide) * KILN_EDGE;
    const long long row = (long long)(blockIdx.x / wide % high) * KILN_EDGE;
    unsigned rest = blockIdx.x / wide / high;
    long long base[KILN_OUTPUTS + KILN_INPUTS] = {};
    KILN_ALL(KILN_SQUARE)

#pragma unroll
    for (unsigned d = 2; d < KILN_DIMS; d++) {
        const unsigned index = rest % (unsigned)view.extent[d];
#pragma unroll
        for (unsigned k = 0; k < KILN_OUTPUTS + KILN_INPUTS; k++)
            base[k] += index * view.stride[k][d];
        rest /= (unsigned)view.extent[d];
    }
    KILN_ALL(KILN_READ)
    __syncthreads();
    for (unsigned j = threadIdx.y; j < KILN_EDGE; j += KILN_LINES)
        if (col + threadIdx.x < cols && row + j < rows) {
            KILN_ALL_OUT(KILN_OUT_ELEMENT)
            KILN_ALL_OUT(KILN_PUT_ELEMENT)
        }
}
