/* The cpu twin of hardsigmoid256.cu. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end, void *out,
                                                     const void *const *in);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *out, const void *const *in)
{
    float *result = (float *)out;
    const float *x = (const float *)in[0];

    for (unsigned long long i = begin; i < end; i++) {
        float v = x[i] + 3.0f;
        v = v < 0.0f ? 0.0f : v;
        v = v > 6.0f ? 6.0f : v;
        result[i] = v * 0x1.555556p-3f;
    }
}
