#include <cub/cub.cuh>

template <typename T, int BLOCK_THREADS>
__global__ void block_sum(const T* in, T* out, int n) {
    typedef cub::BlockReduce<T, BLOCK_THREADS> BlockReduce;
    __shared__ typename BlockReduce::TempStorage temp_storage;

    T thread_sum = 0;
    for (int i = blockIdx.x * BLOCK_THREADS + threadIdx.x; i < n; i += gridDim.x * BLOCK_THREADS)
        thread_sum += in[i];
    T aggregate = BlockReduce(temp_storage).Sum(thread_sum);
    if (threadIdx.x == 0)
        out[blockIdx.x] = aggregate;
}
