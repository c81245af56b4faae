#include <cuda_runtime.h>

__constant__ float coeffs[8];
__constant__ int degree;

__global__ void eval_poly(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float acc = coeffs[degree];
        for (int k = degree - 1; k >= 0; --k)
            acc = fmaf(acc, x[i], coeffs[k]);
        y[i] = acc;
    }
}
