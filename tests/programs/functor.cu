#include <algorithm>

struct Square { __device__ float operator()(float x) const { return x * x; } };
struct ClampTo { __device__ float operator()(float x) const { return std::min(std::max(x, -0.5f), 0.5f); } };

template <class F> __device__ void for_each(float* x, int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        f(x[i]);
}

template <class Op> __global__ void transform(float* x, int n, float shift) {
    Op op;
    for_each(x, n, [=](float& v) { v = op(v) + shift; });
}
