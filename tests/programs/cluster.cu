#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Each block shows its values to the others of its cluster and adds up what all of them show.
__global__ void __cluster_dims__(4, 1, 1) cluster_sum(const int* in, int* out) {
    __shared__ int mine[128];
    cg::cluster_group cluster = cg::this_cluster();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    mine[threadIdx.x] = in[i];
    cluster.sync();
    int sum = 0;
    for (unsigned r = 0; r < cluster.num_blocks(); r++)
        sum += cluster.map_shared_rank(mine, r)[threadIdx.x];
    out[i] = sum;
    cluster.sync();
}
