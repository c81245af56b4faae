#include <cuda_runtime.h>
#include <math_constants.h>

// Rotary position embedding, in place: x is [tokens][heads][dim], pairs (i, i + dim / 2).
extern "C" __global__ void rope(float *x, const int *positions, int heads, int dim, float base)
{
    int token = blockIdx.x, half = dim / 2;
    float *row = x + (long long)token * heads * dim;
    for (int k = threadIdx.x; k < heads * half; k += blockDim.x) {
        int head = k / half, i = k % half;
        float s, c, angle = positions[token] * powf(base, -2.0f * i / dim);
        sincosf(angle, &s, &c);
        float *a = row + head * dim + i, *b = a + half;
        float x0 = *a, x1 = *b;
        *a = x0 * c - x1 * s;
        *b = x1 * c + x0 * s;
    }
}
