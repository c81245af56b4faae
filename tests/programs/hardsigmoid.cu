#include <cuda.h>
#include <cuda_runtime.h>

__global__ void hardsigmoid_kernel(const float* x, float* y, int64_t size) {
    const int64_t idx = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= size) return;
    y[idx] = fminf(fmaxf(x[idx] + 3.0f, 0.0f), 6.0f) / 6.0f;
}
