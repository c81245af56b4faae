#include <thrust/complex.h>

// Roots of x^2 + p x + q with complex coefficients, each from the other by Vieta.
__global__ void roots(const thrust::complex<float>* p, const thrust::complex<float>* q, thrust::complex<float>* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    thrust::complex<float> d = thrust::sqrt(p[i] * p[i] - 4.0f * q[i]);
    if ((thrust::conj(p[i]) * d).real() > 0.0f) d = -d;
    thrust::complex<float> first = (d - p[i]) * 0.5f;
    out[2 * i] = first;
    out[2 * i + 1] = q[i] / first;
}
