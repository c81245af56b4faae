#include <cstdint>
#define NUM_BINS 256

__global__ void histogram_smem_atomics(const std::uint8_t *in, std::size_t n, unsigned int *out)
{
    __shared__ unsigned int smem[NUM_BINS];
    for (int i = threadIdx.x; i < NUM_BINS; i += blockDim.x) smem[i] = 0;
    __syncthreads();

    std::size_t stride = std::size_t(blockDim.x) * gridDim.x;
    for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        atomicAdd(&smem[in[i]], 1u);
    __syncthreads();

    for (int i = threadIdx.x; i < NUM_BINS; i += blockDim.x)
        if (smem[i]) atomicAdd(&out[i], smem[i]);
}
