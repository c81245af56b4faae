#include "wild/vec.h"
#include <wild/config.h>

__global__ void lengths(const wild::Vec* v, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = WILD_SCALE * wild::length(v[i]);
}
