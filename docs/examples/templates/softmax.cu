//! template  softmax
//! about     out[r, c] = exp(x[r, c] - m) / s of each row r, m the greatest of its elements and s the sum of these exp
//! dtype     f32
//! size      rows, cols
//! arg       out  out dtype[rows, cols]
//! arg       x    in  dtype[rows, cols]
//! arg       cols uint64 = cols
//! param     block 32,64,128,256,512,1024 = 256 -- threads per block, which has one row
//! tune      block 64..1024*2
//! grid      rows
//! shared    block * bytes
//! tolerance relative 1e-5 absolute 1e-37
//! entry     softmax align bytes

#include <math.h>

/* Compiles as it stands, with these values. */
#ifndef KILN_UNIT
#define KILN_BLOCK 256
#endif

extern __shared__ float shared_values[];

/* Combines a value of each thread. All threads get the result. A sum has another order for each size of a block. */
template <class Combine> static __device__ float combine(float value, Combine with)
{
    __syncthreads(); /* the results of the time before have been read */
    shared_values[threadIdx.x] = value;
    for (unsigned half = KILN_BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared_values[threadIdx.x] = with(shared_values[threadIdx.x], shared_values[threadIdx.x + half]);
    }
    __syncthreads();
    return shared_values[0];
}

extern "C" __global__ void __launch_bounds__(KILN_BLOCK) softmax(float *out, const float *x, unsigned long long cols)
{
    const float *row = x + blockIdx.x * cols;
    float greatest = -INFINITY, sum = 0;
    for (unsigned long long i = threadIdx.x; i < cols; i += KILN_BLOCK)
        greatest = fmaxf(greatest, row[i]);
    greatest = combine(greatest, [](float a, float b) { return fmaxf(a, b); });
    for (unsigned long long i = threadIdx.x; i < cols; i += KILN_BLOCK)
        sum += expf(row[i] - greatest);
    sum = combine(sum, [](float a, float b) { return a + b; });
    for (unsigned long long i = threadIdx.x; i < cols; i += KILN_BLOCK)
        out[blockIdx.x * cols + i] = expf(row[i] - greatest) / sum;
}
