/* The cpu twin of hardsigmoid256.cu: blocks begin to end - 1 of the grid, of KILN_TILE elements each. */
#ifndef KILN_UNIT
#define KILN_TILE 256
#endif

__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    float *out = *(float *const *)args[0];
    const float *x = *(const float *const *)args[1];
    const unsigned long long n = *(const unsigned long long *)args[2];

    end = end * KILN_TILE < n ? end * KILN_TILE : n;
    for (unsigned long long i = begin * KILN_TILE; i < end; i++) {
        float v = x[i] + 3.0f;
        v = v < 0.0f ? 0.0f : v;
        v = v > 6.0f ? 6.0f : v;
        out[i] = v * 0x1.555556p-3f;
    }
}
