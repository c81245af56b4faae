/* The cpu twin of gather.cu: blocks begin to end - 1 of the grid, of KILN_TILE elements each. */
#ifndef KILN_UNIT
#define KILN_BYTES 4
#define KILN_TILE  256
#endif

#if KILN_BYTES == 8
typedef unsigned long long element;
#elif KILN_BYTES == 4
typedef unsigned int element;
#else
typedef unsigned short element;
#endif

__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    element *out = *(element *const *)args[0];
    const element *x = *(const element *const *)args[1];
    const long long *index = *(const long long *const *)args[2];
    const unsigned long long n = *(const unsigned long long *)args[3], m = *(const unsigned long long *)args[4];

    end = end * KILN_TILE < n ? end * KILN_TILE : n;
    for (unsigned long long i = begin * KILN_TILE; i < end; i++) {
        const unsigned long long at = (unsigned long long)index[i]; /* a negative index is beyond m too */
        out[i] = at < m ? x[at] : 0;
    }
}
