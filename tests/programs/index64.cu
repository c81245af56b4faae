#include <cinttypes>
#include <cstddef>

// A strided gather over offsets that 32 bits do not hold.
__global__ void gather64(const unsigned char* base, const int64_t* offsets, unsigned char* out, int64_t n, int64_t bias) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        std::ptrdiff_t where = offsets[i] - bias;
        out[i] = base[where];
    }
}
