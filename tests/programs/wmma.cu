#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// C = A * B on tensor cores, a warp for each tile of 16 x 16; all sizes are multiples of 16.
__global__ void gemm_wmma(const half *a, const half *b, float *c, int m, int n, int k)
{
    int tile_row = blockIdx.y * 16, tile_col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(fa, a + tile_row * k + i, k);
        wmma::load_matrix_sync(fb, b + i * n + tile_col, n);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(c + tile_row * n + tile_col, acc, n, wmma::mem_row_major);
}
