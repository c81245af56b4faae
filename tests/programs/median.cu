#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/sort.h>

#define WINDOW 9

// Median filter along a row, and the position of each window's smallest element.
__global__ void median(const int* x, int* out, int* least, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int values[WINDOW], places[WINDOW];
    for (int k = 0; k < WINDOW; k++) {
        places[k] = min(max(i + k - WINDOW / 2, 0), n - 1);
        values[k] = x[places[k]];
    }
    thrust::stable_sort_by_key(thrust::seq, values, values + WINDOW, places);
    out[i] = values[WINDOW / 2];
    least[i] = places[0];
    thrust::sort(thrust::seq, values, values + WINDOW, thrust::greater<int>());
    if (values[WINDOW / 2] != out[i]) out[i] = -1;
}
