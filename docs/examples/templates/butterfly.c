/* The cpu twin of butterfly.cu: blocks begin to end - 1 of the grid, of KILN_TILE elements each. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_TILE      512
#endif

#if defined(KILN_DTYPE_F64)
typedef double real;
#else
typedef float real;
#endif

__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    real *sum = *(real *const *)args[0], *difference = *(real *const *)args[1];
    const real *x = *(const real *const *)args[2], *y = *(const real *const *)args[3];
    const unsigned long long n = *(const unsigned long long *)args[4];

    end = end * KILN_TILE < n ? end * KILN_TILE : n;
    for (unsigned long long i = begin * KILN_TILE; i < end; i++) {
        const real a = x[i], b = y[i]; /* both, before either result takes their place */
        sum[i] = a + b;
        difference[i] = a - b;
    }
}
