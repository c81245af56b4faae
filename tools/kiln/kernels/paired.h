/* Samples of contenders that were timed in the same rounds. */
#ifndef KILN_TOOLS_PAIRED_H
#define KILN_TOOLS_PAIRED_H

#include <stddef.h>
#include <stdint.h>

typedef struct paired {
    double median;    /* over the rounds, of one contender's time over another's in the same round */
    double low, high; /* its 95% interval, by order: 0 and infinity below 6 rounds */
} paired;

/* The sample of contender c in round r is samples[r * contenders + c]. */
paired paired_ratio(const double *samples, size_t contenders, uint32_t rounds, size_t one, size_t other);

/* For qsort of doubles. */
int paired_order(const void *a, const void *b);

#endif
