#include <cinttypes>
#include <cstdio>

__global__ void check_sums(const std::uint64_t* sums, const std::uint64_t* expected, int* bad, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    bad[i] = sums[i] != expected[i];
    if (bad[i])
        printf("  from the GPU: sum %" PRId32 " is %" PRIu64 " (0x%" PRIx64 "), expected %" PRIu64 "\n", i, sums[i], sums[i],
               expected[i]);
}
