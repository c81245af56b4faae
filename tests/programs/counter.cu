__device__ unsigned int counter;
__device__ float threshold = 0.25f;

__global__ void count_above(const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > threshold)
        atomicAdd(&counter, 1);
}
