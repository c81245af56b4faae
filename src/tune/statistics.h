/* Estimates that a few bad samples do not move. Pure; any thread. */
#ifndef KILN_TUNE_STATISTICS_H
#define KILN_TUNE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

/* Where samples lie: the mean without their lowest and highest eighth (at least one on each side, from three samples
 * on). Nearly as exact as the mean where the noise is normal, where the median would need half as many samples again;
 * and unlike the median it sees between the steps of a coarse clock. */
typedef struct kiln__estimate {
    double value;
    double error;   /* standard error of the value, from the same samples with their ends drawn in; 0 below four */
    double freedom; /* degrees of freedom of the error, 0 below four samples */
    size_t count;   /* samples */
} kiln__estimate;

/* Sorts the samples. All zero without samples. */
kiln__estimate kiln__estimate_of(double *samples, size_t count);

/* The median; sorts the samples. 0 without samples. */
double kiln__median(double *samples, size_t count);

/* How many standard errors a value lies away from the truth, on one side, with probability `tail` (at most 0.5):
 * Student's t. An infinite freedom is the normal distribution. Within 1% from three degrees of freedom and a tail of
 * 0.001 on, else a little small. */
double kiln__t_quantile(double tail, double freedom);

/* Puts the items into a random order. *random is not 0, and changes. */
void kiln__shuffle(size_t *items, size_t count, uint64_t *random);

#endif
