#include <cuda_runtime.h>
#include <stdint.h>

// float4 loads and stores, then the tail that does not fill one
extern "C" __global__ void add_vec4(const float* __restrict__ a, const float* __restrict__ b,
                                    float* __restrict__ c, uint32_t n) {
    const uint32_t tid = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t n4 = n / 4;
    if (tid < n4) {
        float4 va = reinterpret_cast<const float4*>(a)[tid];
        float4 vb = reinterpret_cast<const float4*>(b)[tid];
        reinterpret_cast<float4*>(c)[tid] = make_float4(va.x + vb.x, va.y + vb.y, va.z + vb.z, va.w + vb.w);
    }
    if (tid < n % 4) {
        c[n4 * 4 + tid] = a[n4 * 4 + tid] + b[n4 * 4 + tid];
    }
}
