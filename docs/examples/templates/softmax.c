/* The cpu twin of softmax.cu: the rows begin to end - 1, a block for each. Its sums have the order of a block's
 * threads, but exp is that of the C library. */
#include <math.h>

#ifndef KILN_UNIT
#define KILN_BLOCK 256
#endif

__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

static float sum_of(const float *exps, unsigned long long cols)
{
    float sums[KILN_BLOCK] = { 0 };
    for (unsigned long long i = 0; i < cols; i++)
        sums[i % KILN_BLOCK] += exps[i];
    for (unsigned half = KILN_BLOCK / 2; half > 0; half /= 2)
        for (unsigned i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    float *out = *(float *const *)args[0];
    const float *x = *(const float *const *)args[1];
    const unsigned long long cols = *(const unsigned long long *)args[2];

    for (unsigned long long row = begin; row < end; row++) {
        const float *from = x + row * cols;
        float *to = out + row * cols, greatest = -INFINITY;
        for (unsigned long long i = 0; i < cols; i++)
            greatest = fmaxf(greatest, from[i]);
        for (unsigned long long i = 0; i < cols; i++)
            to[i] = expf(from[i] - greatest);
        const float sum = sum_of(to, cols);
        for (unsigned long long i = 0; i < cols; i++)
            to[i] /= sum;
    }
}
