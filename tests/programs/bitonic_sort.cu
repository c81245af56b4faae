// Sorts each run of 2 * blockDim.x keys, which must be a power of two.
extern __shared__ int keys[];

extern "C" __global__ void bitonic_sort(int *data)
{
    const int tid = threadIdx.x, span = 2 * blockDim.x;
    int *run = data + (size_t)blockIdx.x * span;

    keys[tid] = run[tid];
    keys[tid + blockDim.x] = run[tid + blockDim.x];

    for (int size = 2; size <= span; size <<= 1) {
        for (int stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            int low = 2 * tid - (tid & (stride - 1));
            bool up = (low & size) == 0;
            int a = keys[low], b = keys[low + stride];
            if ((a > b) == up) {
                keys[low] = b;
                keys[low + stride] = a;
            }
        }
    }
    __syncthreads();
    run[tid] = keys[tid];
    run[tid + blockDim.x] = keys[tid + blockDim.x];
}
