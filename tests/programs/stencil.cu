#include <cuda_runtime.h>

#define TX 32
#define TY 8

// One Jacobi step of the heat equation; the border stays.
__global__ void heat_step(const float* __restrict__ u, float* __restrict__ next, int nx, int ny, float r)
{
    __shared__ float tile[TY + 2][TX + 2];
    int x = blockIdx.x * TX + threadIdx.x, y = blockIdx.y * TY + threadIdx.y;
    int i = y * nx + x, tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    bool inside = x < nx && y < ny;

    if (inside) {
        tile[ty][tx] = u[i];
        if (threadIdx.x == 0 && x > 0) tile[ty][0] = u[i - 1];
        if (threadIdx.x == TX - 1 && x < nx - 1) tile[ty][TX + 1] = u[i + 1];
        if (threadIdx.y == 0 && y > 0) tile[0][tx] = u[i - nx];
        if (threadIdx.y == TY - 1 && y < ny - 1) tile[TY + 1][tx] = u[i + nx];
    }
    __syncthreads();
    if (!inside) return;
    if (x == 0 || y == 0 || x == nx - 1 || y == ny - 1) {
        next[i] = tile[ty][tx];
        return;
    }
    float sum = tile[ty][tx - 1] + tile[ty][tx + 1] + tile[ty - 1][tx] + tile[ty + 1][tx];
    next[i] = tile[ty][tx] + r * (sum - 4.0f * tile[ty][tx]);
}
