#include <cub/warp/warp_scan.cuh>

__global__ void warp_inclusive_scan(const int *in, int *out)
{
    using WarpScan = cub::WarpScan<int>;
    __shared__ typename WarpScan::TempStorage temp[4];

    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = in[i];
    WarpScan(temp[threadIdx.x / 32]).InclusiveSum(value, value);
    out[i] = value;
}
