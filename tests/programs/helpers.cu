// Helpers as they stand in a header that host compilers read, too: none is annotated.
struct Rgb {
    float r, g, b;
    Rgb(float r_, float g_, float b_) : r(r_), g(g_), b(b_) {}
    Rgb operator*(float f) const { return Rgb(r * f, g * f, b * f); }
};

constexpr int channels() { return 3; }

template <class T> T clip(T x, T low, T high) { return x < low ? low : high < x ? high : x; }

static inline float luminance(const Rgb& c) { return fmaf(0.25f, c.r, fmaf(0.5f, c.g, 0.25f * c.b)); }

extern "C" __global__ void grey(const float* pixels, float* out, float gain, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* p = pixels + channels() * i;
    out[i] = clip(luminance(Rgb(p[0], p[1], p[2]) * gain), 0.0f, 1.0f);
}
