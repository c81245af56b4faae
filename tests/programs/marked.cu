// Saved by an editor that begins files with a byte-order mark.
extern "C" __global__ void negate(const int* x, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = -x[i];
}
