/* The cpu twin of transpose.cu: the squares of blocks begin to end - 1 of the grid, the first direction fastest. */
#ifndef KILN_UNIT
#define KILN_BYTES 4
#define KILN_TILE  32
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

static unsigned long long lesser(unsigned long long a, unsigned long long b)
{
    return a < b ? a : b;
}

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    element *out = *(element *const *)args[0];
    const element *x = *(const element *const *)args[1];
    const unsigned long long rows = *(const unsigned long long *)args[2], cols = *(const unsigned long long *)args[3];
    const unsigned long long across = (cols + KILN_TILE - 1) / KILN_TILE;
    const unsigned long long down = lesser((rows + KILN_TILE - 1) / KILN_TILE, 65535);

    for (unsigned long long block = begin; block < end; block++) {
        const unsigned long long left = block % across * KILN_TILE, right = lesser(left + KILN_TILE, cols);
        for (unsigned long long top = block / across * KILN_TILE; top < rows; top += down * KILN_TILE)
            for (unsigned long long i = top; i < lesser(top + KILN_TILE, rows); i++)
                for (unsigned long long j = left; j < right; j++)
                    out[j * rows + i] = x[i * cols + j];
    }
}
