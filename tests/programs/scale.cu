#include <cuda_runtime.h>

template <typename T, int VEC>
__global__ void scale(T* data, T factor, size_t n) {
    size_t base = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * VEC;
#pragma unroll
    for (int v = 0; v < VEC; ++v)
        if (base + v < n)
            data[base + v] *= factor;
}
