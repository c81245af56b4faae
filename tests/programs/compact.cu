#include <stdint.h>

// Keeps the positive elements of each warp's 32, in order, and tells how many there are.
__global__ void compact_warp(const int32_t* in, int32_t* out, uint32_t* counts) {
    const unsigned lane = threadIdx.x & 31;
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const int32_t v = in[i];
    const unsigned mask = __ballot_sync(0xFFFFFFFFu, v > 0);
    if (v > 0)
        out[i - lane + __popc(mask & ((1u << lane) - 1))] = v;
    if (lane == 0)
        counts[i / 32] = __popc(mask);
}
