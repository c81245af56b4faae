#include <cuda_runtime.h>
#include <math.h>
#include <float.h>

#define WARP_SIZE 32

__device__ __forceinline__ float warp_reduce_max(float val) {
    #pragma unroll
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
        val = fmaxf(val, __shfl_down_sync(0xffffffff, val, offset));
    return val;
}

__device__ __forceinline__ float warp_reduce_sum(float val) {
    #pragma unroll
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
        val += __shfl_down_sync(0xffffffff, val, offset);
    return val;
}

// one block for each row
__global__ void softmax_kernel(const float* input, float* output, int cols) {
    __shared__ float shared[WARP_SIZE];
    const float* row = input + blockIdx.x * cols;
    float* out = output + blockIdx.x * cols;
    int lane = threadIdx.x % WARP_SIZE;
    int wid = threadIdx.x / WARP_SIZE;
    int warps = blockDim.x / WARP_SIZE;

    float max_val = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        max_val = fmaxf(max_val, row[i]);
    max_val = warp_reduce_max(max_val);
    if (lane == 0) shared[wid] = max_val;
    __syncthreads();
    max_val = (threadIdx.x < warps) ? shared[lane] : -FLT_MAX;
    if (wid == 0) max_val = warp_reduce_max(max_val);
    if (threadIdx.x == 0) shared[0] = max_val;
    __syncthreads();
    max_val = shared[0];
    __syncthreads();

    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float e = expf(row[i] - max_val);
        out[i] = e;
        sum += e;
    }
    sum = warp_reduce_sum(sum);
    if (lane == 0) shared[wid] = sum;
    __syncthreads();
    sum = (threadIdx.x < warps) ? shared[lane] : 0.0f;
    if (wid == 0) sum = warp_reduce_sum(sum);
    if (threadIdx.x == 0) shared[0] = sum;
    __syncthreads();
    sum = shared[0];

    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[i] /= sum;
}
