/* The cpu twin of minmax.cu: the rows begin to end - 1, a block for each. */
#ifndef KILN_UNIT
#define KILN_BYTES 4
#endif

#if KILN_BYTES == 8
typedef long long element;
#elif KILN_BYTES == 4
typedef int element;
#else
typedef short element;
#endif
#define LOWEST ((element)(1ull << (8 * KILN_BYTES - 1))) /* only the sign */

__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

/* The bits of a value as a whole number of the same order, and back: below 0 all bits but the sign are turned. */
static element ordered(element bits)
{
    return (element)(bits < 0 ? bits ^ ~LOWEST : bits);
}

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    element *least = *(element *const *)args[0], *greatest = *(element *const *)args[1];
    const element *x = *(const element *const *)args[2];
    const unsigned long long cols = *(const unsigned long long *)args[3];

    for (unsigned long long row = begin; row < end; row++) {
        element low = (element)~LOWEST, high = LOWEST;
        for (unsigned long long i = 0; i < cols; i++) {
            const element value = ordered(x[row * cols + i]);
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
        least[row] = ordered(low);
        greatest[row] = ordered(high);
    }
}
