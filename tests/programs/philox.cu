#include <stdint.h>

// Philox4x32-10: counter-based random numbers.
struct Philox {
    uint4 counter;
    uint2 key;
    __device__ static uint4 round(uint4 c, uint2 k)
    {
        uint32_t hi0 = __umulhi(0xD2511F53u, c.x), lo0 = 0xD2511F53u * c.x;
        uint32_t hi1 = __umulhi(0xCD9E8D57u, c.z), lo1 = 0xCD9E8D57u * c.z;
        return make_uint4(hi1 ^ c.y ^ k.x, lo1, hi0 ^ c.w ^ k.y, lo0);
    }
    __device__ uint4 operator()() const
    {
        uint4 c = counter;
        uint2 k = key;
#pragma unroll
        for (int i = 0; i < 10; i++) {
            c = round(c, k);
            k.x += 0x9E3779B9u;
            k.y += 0xBB67AE85u;
        }
        return c;
    }
};

__global__ void philox_fill(uint4 *out, uint32_t n, uint64_t seed)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        Philox generator{ make_uint4(i, 0, 0, 0), make_uint2((uint32_t)seed, (uint32_t)(seed >> 32)) };
        out[i] = generator();
    }
}
