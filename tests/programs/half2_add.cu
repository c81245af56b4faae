#include <cuda_runtime.h>
#include <cuda_fp16.h>

__global__ void add_half2(const half* a, const half* b, half* c, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 1 < n) {
        half2 va = *reinterpret_cast<const half2*>(a + i);
        half2 vb = *reinterpret_cast<const half2*>(b + i);
        *reinterpret_cast<half2*>(c + i) = __hadd2(va, vb);
    } else if (i < n) {
        c[i] = __hadd(a[i], b[i]);
    }
}
