#include <cuda_fp16.h>

// out = x / rms(x) * weight, a block for each row, two halves at a time.
template <int THREADS>
__global__ void rmsnorm_half(const half2* __restrict__ x, const half2* __restrict__ weight, half2* __restrict__ out,
                             int pairs, float eps)
{
    __shared__ float partial[THREADS / 32];
    __shared__ float scale;
    const half2 *row = x + (size_t)blockIdx.x * pairs;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < pairs; i += THREADS) {
        float2 v = __half22float2(row[i]);
        sum = fmaf(v.x, v.x, fmaf(v.y, v.y, sum));
    }
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < THREADS / 32; w++) sum += partial[w];
        scale = rsqrtf(sum / (2 * pairs) + eps);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < pairs; i += THREADS) {
        float2 v = __half22float2(row[i]), w = __half22float2(weight[i]);
        out[(size_t)blockIdx.x * pairs + i] = __floats2half2_rn(v.x * scale * w.x, v.y * scale * w.y);
    }
}
