/* The cpu twin of count.cu, which declares the template. Compiles as it stands, for f32 differs. A unit sets KILN_UNIT,
 * brings its own values, real.h, the ops it uses and kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_INPUTS    2
#define KILN_TILE      65536
#include "real.h"

KILN_FN kiln_real kiln_value(kiln_real x, kiln_real y)
{
    return kiln_bits(x) != kiln_bits(y) && (x == x || y == y) ? 1 : 0;
}
#endif

/* Counts in blocks begin to end - 1 of the grid. args[i] points to parameter i. Several threads do so at once. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const unsigned long long n = *(const unsigned long long *)args[1 + KILN_INPUTS];
    unsigned long long *result = *(unsigned long long *const *)args[0], found = 0, least = 0;
    const kiln_store_t *KILN_TAKE(x = *(const kiln_store_t *const *)args[1], *y = *(const kiln_store_t *const *)args[2],
                                  *z = *(const kiln_store_t *const *)args[3]);

    begin *= KILN_TILE;
    end = end * KILN_TILE < n ? end * KILN_TILE : n;
    for (unsigned long long i = begin; i < end; i++)
        found += kiln_value(KILN_TAKE(kiln_load(x[i]), kiln_load(y[i]), kiln_load(z[i]))) != 0;
    if (found == 0)
        return;
    for (least = begin;; least++)
        if (kiln_value(KILN_TAKE(kiln_load(x[least]), kiln_load(y[least]), kiln_load(z[least]))) != 0)
            break;
    __atomic_fetch_add(result, found, __ATOMIC_RELAXED);
    unsigned long long before = __atomic_load_n(result + 1, __ATOMIC_RELAXED);
    while (least < before &&
           !__atomic_compare_exchange_n(result + 1, &before, least, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
