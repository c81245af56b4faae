#include <cuda_bf16.h>
#include <math.h>

typedef __nv_bfloat16 bf16;

__global__ void gelu_bf16(const bf16* in, bf16* out, int n) {
    const float kAlpha = M_SQRT1_2;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = __bfloat162float(in[i]);
        out[i] = __float2bfloat16(x * 0.5f * (1.0f + erff(x * kAlpha)));
    }
}
