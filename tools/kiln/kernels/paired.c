#include "kernels/paired.h"

#include <math.h>
#include <stdlib.h>

#include "cli/common.h"

int paired_order(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* How many of so many sorted values lie outside the interval on each side, plus one; 0: there is no interval. Each
 * value is on either side of the true median with probability 1/2. */
static uint32_t interval_rank(uint32_t count)
{
    double term = pow(0.5, count), below = term;
    uint32_t rank = 0;
    while (below <= 0.025 && rank < count / 2) {
        rank++;
        term *= (double)(count - rank + 1) / rank;
        below += term;
    }
    return rank;
}

paired paired_ratio(const double *samples, size_t contenders, uint32_t rounds, size_t one, size_t other)
{
    double *ratios = need_array(NULL, rounds, sizeof(*ratios));
    for (uint32_t r = 0; r < rounds; r++)
        ratios[r] = samples[r * contenders + one] / samples[r * contenders + other];
    qsort(ratios, rounds, sizeof(*ratios), paired_order);
    uint32_t rank = interval_rank(rounds);
    paired result = {
        .median = rounds % 2 ? ratios[rounds / 2] : (ratios[rounds / 2 - 1] + ratios[rounds / 2]) / 2,
        .low = rank ? ratios[rank - 1] : 0,
        .high = rank ? ratios[rounds - rank] : HUGE_VAL,
    };
    free(ratios);
    return result;
}
