// Exclusive prefix sums of each block, and the block's total (Blelloch, two elements for each thread).
#define LOG_BANKS 5
#define PADDED(i) ((i) + ((i) >> LOG_BANKS))

__global__ void scan_blocks(const unsigned int *in, unsigned int *out, unsigned int *totals, int n)
{
    extern __shared__ unsigned int temp[];
    int tid = threadIdx.x, span = 2 * blockDim.x, base = blockIdx.x * span;
    temp[PADDED(tid)] = base + tid < n ? in[base + tid] : 0;
    temp[PADDED(tid + blockDim.x)] = base + tid + blockDim.x < n ? in[base + tid + blockDim.x] : 0;

    int offset = 1;
    for (int d = span >> 1; d > 0; d >>= 1, offset <<= 1) {
        __syncthreads();
        if (tid < d)
            temp[PADDED(offset * (2 * tid + 2) - 1)] += temp[PADDED(offset * (2 * tid + 1) - 1)];
    }
    if (tid == 0) {
        totals[blockIdx.x] = temp[PADDED(span - 1)];
        temp[PADDED(span - 1)] = 0;
    }
    for (int d = 1; d < span; d <<= 1) {
        offset >>= 1;
        __syncthreads();
        if (tid < d) {
            int a = PADDED(offset * (2 * tid + 1) - 1), b = PADDED(offset * (2 * tid + 2) - 1);
            unsigned int t = temp[a];
            temp[a] = temp[b];
            temp[b] += t;
        }
    }
    __syncthreads();
    if (base + tid < n) out[base + tid] = temp[PADDED(tid)];
    if (base + tid + blockDim.x < n) out[base + tid + blockDim.x] = temp[PADDED(tid + blockDim.x)];
}
