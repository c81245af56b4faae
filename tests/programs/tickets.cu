#include <atomic>
#include <chrono>

using namespace std::chrono_literals;

// Each reading of a clock, in milliseconds, goes into the bin of its second, and gets a ticket there.
extern "C" __global__ void tickets(const int* readings, int* counts, int* taken, int bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    std::chrono::milliseconds reading(readings[i]);
    int bin = std::chrono::duration_cast<std::chrono::seconds>(reading + 500ms).count() % bins;
    int ticket = std::atomic_ref<int>(counts[bin]).fetch_add(1, std::memory_order_relaxed);
    std::atomic_ref<int>(taken[bin]).fetch_xor(ticket);
}
