#include <cstdio>
#include <cuda_runtime.h>

__global__ void report(const float* x, int* lines, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < 0) {
        if (x[i] < -0.999f) printf("  from the GPU: x[%d] = %.4f\n", i, x[i]);
        lines[i] = 1;
    } else if (i < n) {
        lines[i] = 0;
    }
}
