// Largest of the unmasked elements of each row, at most 0.5; NaN where there are none. No include, as for nvcc.
__global__ void masked_max(const float* x, const uint8_t* mask, float* out, uint32_t rows, uint32_t cols) {
    uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float best = -INFINITY;
    for (uint32_t col = 0; col < cols; col++) {
        std::size_t i = (std::size_t)row * cols + col;
        if (mask[i]) best = std::max(best, x[i]);
    }
    out[row] = best == -INFINITY ? NAN : std::min(best, 0.5f);
}
