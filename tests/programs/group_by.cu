#include <cstdint>
#include <functional>
#include <limits>

// Counts equal pairs in an open hash table. The key has its own std::hash and std::numeric_limits.
struct Pair {
    uint32_t first, second;
    bool operator==(const Pair &other) const { return first == other.first && second == other.second; }
};

template <> struct std::hash<Pair> {
    __device__ size_t operator()(const Pair &pair) const
    {
        uint64_t bits = (uint64_t)pair.first << 32 | pair.second;
        bits ^= bits >> 29;
        bits *= 0xBF58476D1CE4E5B9ull;
        return (size_t)(bits ^ bits >> 32);
    }
};

template <> struct std::numeric_limits<Pair> {
    __device__ static Pair max() { return { UINT32_MAX, UINT32_MAX }; }
};

extern "C" __global__ void group_by(const Pair *pairs, uint32_t n, Pair *slots, uint32_t *counts, uint32_t size)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const Pair key = pairs[i], none = std::numeric_limits<Pair>::max();
    const auto bits = [](const Pair &pair) { return (unsigned long long)pair.first | (unsigned long long)pair.second << 32; };
    for (size_t at = std::hash<Pair>{}(key) % size;; at = (at + 1) % size) {
        const unsigned long long found = atomicCAS((unsigned long long *)&slots[at], bits(none), bits(key));
        if (found == bits(none) || found == bits(key)) {
            atomicAdd(&counts[at], 1);
            return;
        }
    }
}
