// y = A x, a warp for each row of a matrix in compressed sparse row form.
template <typename T>
__device__ T warp_sum(T value)
{
#pragma unroll
    for (int offset = warpSize / 2; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

template <typename T, typename index_t>
__global__ void spmv(index_t rows, const index_t *row_ptr, const index_t *col, const T *val, const T *x, T *y)
{
    index_t row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    int lane = threadIdx.x % warpSize;
    if (row >= rows) return;
    T sum = 0;
    for (index_t k = row_ptr[row] + lane; k < row_ptr[row + 1]; k += warpSize)
        sum += val[k] * x[col[k]];
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum;
}
