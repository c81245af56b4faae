typedef unsigned char uint8_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t; // as on Linux
#define NAN 0xffffffffu

template <class T> __device__ T min(T a, T b, T c) { return min(a, min(b, c)); }

// FNV-1a of each record; NAN for an empty one.
extern "C" __global__ void hash_records(const uint8_t* bytes, const uint32_t* ends, uint64_t* out, uint32_t n, uint32_t limit) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint32_t begin = i ? ends[i - 1] : 0, end = min(ends[i], begin + limit, ends[n - 1]);
    uint64_t hash = 14695981039346656037ul;
    for (uint32_t k = begin; k < end; k++) hash = (hash ^ bytes[k]) * 1099511628211ul;
    out[i] = begin == end ? NAN : hash;
}
