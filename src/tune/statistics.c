/* Medians, trimmed means and quantiles. */
#include "tune/statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double kiln__median(double *samples, size_t count)
{
    if (count == 0)
        return 0;
    qsort(samples, count, sizeof(*samples), compare);
    return count % 2 != 0 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
}

/* Sum of squares about their mean of the samples with each of the `cut` at an end moved to the next that is kept. */
static double drawn_in_squares(const double *sorted, size_t count, size_t cut)
{
    double sum = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++) {
        double mean = sum / (double)count;
        for (size_t i = 0; i < count; i++) {
            size_t at = i < cut ? cut : i >= count - cut ? count - cut - 1 : i;
            if (pass == 0)
                sum += sorted[at];
            else
                squares += (sorted[at] - mean) * (sorted[at] - mean);
        }
    }
    return squares;
}

/* Tukey and McLaughlin's error of a trimmed mean. */
kiln__estimate kiln__estimate_of(double *samples, size_t count)
{
    kiln__estimate out = { .count = count };
    if (count == 0)
        return out;
    qsort(samples, count, sizeof(*samples), compare);
    size_t cut = count < 3 ? 0 : count < 8 ? 1 : count / 8;
    size_t kept = count - 2 * cut;
    for (size_t i = cut; i < count - cut; i++)
        out.value += samples[i] / (double)kept;
    if (kept < 2 || count < 4)
        return out;
    double variance = drawn_in_squares(samples, count, cut) / (double)(count - 1);
    double share = (double)kept / (double)count;
    out.error = sqrt(variance / (double)count) / share;
    out.freedom = (double)(kept - 1);
    return out;
}

/* Abramowitz and Stegun 26.2.23, within 0.00045. */
static double normal_quantile(double tail)
{
    double t = sqrt(-2 * log(tail));
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/* Abramowitz and Stegun 26.7.5. */
double kiln__t_quantile(double tail, double freedom)
{
    double z = normal_quantile(tail), z2 = z * z, v = freedom;
    if (!(v < 1e9))
        return z;
    double g1 = (z2 + 1) * z / 4;
    double g2 = ((5 * z2 + 16) * z2 + 3) * z / 96;
    double g3 = (((3 * z2 + 19) * z2 + 17) * z2 - 15) * z / 384;
    double g4 = ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) * z / 92160;
    return z + (g1 + (g2 + (g3 + g4 / v) / v) / v) / v;
}

/* The numbers are xorshift64* by Vigna. */
void kiln__shuffle(size_t *items, size_t count, uint64_t *random)
{
    for (size_t i = count; i > 1; i--) {
        *random ^= *random >> 12;
        *random ^= *random << 25;
        *random ^= *random >> 27;
        size_t other = (size_t)((*random * 0x2545f4914f6cdd1du >> 33) % i), item = items[i - 1];
        items[i - 1] = items[other];
        items[other] = item;
    }
}
