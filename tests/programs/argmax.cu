#include <cstdint>

// The largest value and its first index, packed so that one 64-bit atomic settles both.
__device__ unsigned long long pack(float value, uint32_t index)
{
    uint32_t bits = __float_as_uint(value);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (unsigned long long)bits << 32 | ~index;
}

__global__ void argmax(const float *x, uint32_t n, unsigned long long *best)
{
    unsigned long long mine = 0;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        mine = max(mine, pack(x[i], i));
    for (int mask = 16; mask > 0; mask >>= 1)
        mine = max(mine, __shfl_xor_sync(0xffffffff, mine, mask));
    if (threadIdx.x % 32 == 0)
        atomicMax(best, mine);
}
