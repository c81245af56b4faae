/* The cpu twin of histogram.cu: blocks begin to end - 1 of the grid, the first direction fastest. Several threads add
 * to the same counts, so each addition is atomic. */
#ifndef KILN_UNIT
#define KILN_BINS   25600
#define KILN_SLICES 1
#define KILN_TILE   32768
#endif

#define WIDTH (KILN_BINS / KILN_SLICES)

__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    int *counts = *(int *const *)args[0];
    const int *values = *(const int *const *)args[1];
    const unsigned long long n = *(const unsigned long long *)args[2];
    const unsigned long long tiles = (n + KILN_TILE - 1) / KILN_TILE, across = tiles < 1024 ? tiles : 1024;

    for (unsigned long long block = begin; block < end; block++) {
        const int first = (int)(block / across) * WIDTH;
        for (unsigned long long tile = block % across; tile < tiles; tile += across)
            for (unsigned long long i = tile * KILN_TILE; i < n && i < (tile + 1) * KILN_TILE; i++)
                if (values[i] >= first && values[i] < first + WIDTH)
                    __atomic_fetch_add(&counts[values[i]], 1, __ATOMIC_RELAXED);
    }
}
