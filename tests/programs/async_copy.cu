#include <cuda_pipeline.h>

// Sums of tiles that are copied to shared memory while the tile before is added up.
template <int TILE>
__global__ void tile_sums(const float4 *in, float *out, int tiles)
{
    __shared__ float4 stage[2][TILE];
    float sum = 0.0f;
    const float4 *from = in + (size_t)blockIdx.x * tiles * TILE;

    __pipeline_memcpy_async(&stage[0][threadIdx.x], &from[threadIdx.x], sizeof(float4));
    __pipeline_commit();
    for (int t = 0; t < tiles; t++) {
        if (t + 1 < tiles)
            __pipeline_memcpy_async(&stage[(t + 1) % 2][threadIdx.x], &from[(t + 1) * TILE + threadIdx.x], sizeof(float4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        float4 v = stage[t % 2][threadIdx.x];
        sum += v.x + v.y + v.z + v.w;
    }
    out[blockIdx.x * TILE + threadIdx.x] = sum;
}
