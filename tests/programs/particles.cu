#include <cuda_runtime.h>

struct Params {
    float dt;
    float3 gravity;
    int count;
    bool bounce;
    double floor;
};

__global__ void integrate(float3* pos, float3* vel, const Params p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.count) return;
    float3 v = vel[i], x = pos[i];
    v.x += p.dt * p.gravity.x; v.y += p.dt * p.gravity.y; v.z += p.dt * p.gravity.z;
    x.x += p.dt * v.x; x.y += p.dt * v.y; x.z += p.dt * v.z;
    if (p.bounce && x.z < p.floor) { x.z = (float)p.floor; v.z = -v.z; }
    pos[i] = x;
    vel[i] = v;
}
