#include <complex>
#include <numbers>

#define POINTS 16

// A short Fourier transform of each row.
extern "C" __global__ void dft(const std::complex<float>* x, std::complex<float>* out, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int row = i / POINTS, k = i % POINTS;
    if (row >= rows) return;
    std::complex<float> sum = 0.0f, power = 1.0f;
    const std::complex<float> step = std::polar(1.0f, -2.0f * std::numbers::pi_v<float> * k / POINTS);
    for (int j = 0; j < POINTS; j++) {
        sum += x[row * POINTS + j] * power;
        power *= step;
    }
    out[i] = sum;
}
