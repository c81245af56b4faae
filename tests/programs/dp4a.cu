#include <cuda_runtime.h>
#include <cstdint>

// Quantises rows of floats to int8, four in a word, with a scale for each row.
__global__ void quantize(const float4* __restrict__ x, int* __restrict__ q, float* __restrict__ scales, int words)
{
    __shared__ float largest;
    const float4 *row = x + blockIdx.x * words;
    float m = 0.0f;
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        float4 v = row[i];
        m = fmaxf(m, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    if (threadIdx.x == 0) largest = 0.0f;
    __syncthreads();
    atomicMax(reinterpret_cast<int*>(&largest), __float_as_int(m)); // the floats are not negative
    __syncthreads();
    const float scale = largest / 127.0f;
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        float4 v = row[i];
        char4 c = make_char4(static_cast<signed char>(__float2int_rn(v.x / scale)),
                             static_cast<signed char>(__float2int_rn(v.y / scale)),
                             static_cast<signed char>(__float2int_rn(v.z / scale)),
                             static_cast<signed char>(__float2int_rn(v.w / scale)));
        q[blockIdx.x * words + i] = *reinterpret_cast<int*>(&c);
    }
}

// Dot products of each row with row 0.
__global__ void dot_rows(const int* __restrict__ q, int* __restrict__ out, int rows, int words)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int sum = 0;
    for (int i = 0; i < words; i++)
        sum = __dp4a(q[i], q[row * words + i], sum);
    out[row] = sum;
}
