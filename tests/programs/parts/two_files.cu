__device__ unsigned seen;
__device__ unsigned bins[16];
__constant__ unsigned factor = 2654435761u;

__device__ unsigned bin_of(int value)
{
    return (unsigned)value * factor >> 28;
}

template <int N> __global__ void reset_bins(unsigned value)
{
    if (threadIdx.x < N)
        bins[threadIdx.x] = value;
    if (threadIdx.x == 0)
        seen = 0;
}
