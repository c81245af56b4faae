#include <limits.h>

// A level of breadth-first search over a graph in compressed sparse row form.
__device__ int frontier_size;

extern "C" __global__ void bfs_level(const int *edges_of, const int *edges, int *distance, int nodes, int level)
{
    for (int node = blockIdx.x * blockDim.x + threadIdx.x; node < nodes; node += gridDim.x * blockDim.x) {
        if (distance[node] != level)
            continue;
        for (int e = edges_of[node]; e < edges_of[node + 1]; e++)
            if (atomicCAS(&distance[edges[e]], INT_MAX, level + 1) == INT_MAX)
                atomicAdd(&frontier_size, 1);
    }
}
