#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

__device__ std::uint32_t spread(std::uint32_t x) {
    x = (x | x << 8) & 0x00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f;
    x = (x | x << 2) & 0x33333333;
    return (x | x << 1) & 0x55555555;
}

// Morton codes of points in the unit square, with the depth at which neighbours part.
extern "C" __global__ void morton(const float* xy, std::uint32_t* codes, int* depths, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    auto code = [&](int k) {
        std::pair<float, float> p(xy[2 * k] * 65535, xy[2 * k + 1] * 65535);
        return spread(std::uint32_t(p.first)) | spread(std::uint32_t(p.second)) << 1;
    };
    codes[i] = code(i);
    depths[i] = std::countl_zero(codes[i] ^ code(i + 1 < n ? i + 1 : 0)) - std::popcount(std::rotl(codes[i], 3));
    if (std::bit_cast<std::uint32_t>(xy[2 * i]) == 0) depths[i] = std::numeric_limits<int>::max();
}
