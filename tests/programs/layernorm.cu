#include <cuda_runtime.h>
#include <cmath>

__global__ void layernorm_forward(const float* __restrict__ x, const float* __restrict__ gamma,
                                  const float* __restrict__ beta, float* __restrict__ y,
                                  int hidden, float eps) {
    extern __shared__ float smem[];  // the row, then one partial sum for each thread
    float* row = smem;
    float* partial = smem + hidden;
    const float* xi = x + (size_t)blockIdx.x * hidden;

    float sum = 0.f;
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
        row[i] = xi[i];
        sum += xi[i];
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
        __syncthreads();
    }
    const float mean = partial[0] / hidden;
    __syncthreads();

    float sq = 0.f;
    for (int i = threadIdx.x; i < hidden; i += blockDim.x)
        sq += std::pow(row[i] - mean, 2.0f);
    partial[threadIdx.x] = sq;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
        __syncthreads();
    }
    const float rstd = 1.0f / std::sqrt(partial[0] / hidden + eps);

    for (int i = threadIdx.x; i < hidden; i += blockDim.x)
        y[(size_t)blockIdx.x * hidden + i] = (row[i] - mean) * rstd * gamma[i] + beta[i];
}
