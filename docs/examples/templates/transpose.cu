//! template  transpose
//! about     out = the transpose of a matrix of rows x cols elements, moved in squares through shared memory
//! size      rows, cols
//! param     tile   8,16,32 = 32                -- edge of the square that a block moves
//! param     height 1,2,4,8,16,32 = 8           -- rows of threads in a block
//! require   height <= tile                     -- a block must not have more rows of threads than its square has rows
//! tune      height 4,8,16
//! arg       out   out dtype[cols, rows]
//! arg       x     in  dtype[rows, cols]
//! arg       rows  uint64 = rows
//! arg       cols  uint64 = cols
//! grid      (cols + tile - 1) / tile, min((rows + tile - 1) / tile, 65535)
//! block     tile, height
//! shared    tile * (tile + 1) * bytes          -- the odd width spreads a column over the banks
//! entry     transpose align bytes

/* Compiles as it stands, with these values. */
#ifndef KILN_UNIT
#define KILN_BYTES  4
#define KILN_TILE   32
#define KILN_HEIGHT 8
#endif

/* A transpose needs only the size of an element. The unit defines KILN_BYTES. */
#if KILN_BYTES == 8
typedef unsigned long long element;
#elif KILN_BYTES == 4
typedef unsigned int element;
#else
typedef unsigned short element;
#endif

extern __shared__ unsigned char shared_bytes[];

/* A grid has at most 65535 blocks in its second direction, so a block may have several squares. */
extern "C" __global__ void __launch_bounds__(KILN_TILE *KILN_HEIGHT)
    transpose(element *out, const element *x, unsigned long long rows, unsigned long long cols)
{
    element(*square)[KILN_TILE + 1] = (element(*)[KILN_TILE + 1]) shared_bytes;
    const unsigned long long left = (unsigned long long)blockIdx.x * KILN_TILE;

    for (unsigned long long top = (unsigned long long)blockIdx.y * KILN_TILE; top < rows;
         top += (unsigned long long)gridDim.y * KILN_TILE) {
        for (unsigned i = threadIdx.y; i < KILN_TILE; i += KILN_HEIGHT)
            if (top + i < rows && left + threadIdx.x < cols)
                square[i][threadIdx.x] = x[(top + i) * cols + left + threadIdx.x];
        __syncthreads();
        for (unsigned i = threadIdx.y; i < KILN_TILE; i += KILN_HEIGHT)
            if (left + i < cols && top + threadIdx.x < rows)
                out[(left + i) * rows + top + threadIdx.x] = square[threadIdx.x][i];
        __syncthreads();
    }
}
