/* The ranking that the samples of a sweep give: medians, ratios, the winner. */
#ifndef KILN_TUNE_RANKING_H
#define KILN_TUNE_RANKING_H

#include "tune/ceiling.h"
#include "tune/contest.h"
#include "tune/tuner.h"

/* The samples: a row for each round, with a column for each variant and then for each copy; 0 is none. */
typedef struct kiln__times {
    double *rows, *scratch; /* the first row is that of the warm-up; the scratch has room for a column */
    uint32_t rounds;        /* without the warm-up */
    size_t variants, width;
} kiln__times;

/* KILN_ENOMEM leaves nothing to free, but kiln__times_fini is right. */
kiln_status kiln__times_init(kiln__times *out, size_t variants, uint32_t rounds, kiln_report *report);
void kiln__times_fini(kiln__times *times);

/* Forgets all samples. */
void kiln__times_clear(const kiln__times *times);

/* The row of a round; row 0 is the warm-up. */
double *kiln__times_row(const kiln__times *times, uint32_t row);

/* Makes the results of a tuning, ranked, and its ceiling and default time. The first variant is what the others are
 * compared with. Times that were never initialised say nothing of any. KILN_ENOMEM. */
kiln_status kiln__ranking_make(kiln_tuning *tuning, const kiln__times *times, const kiln__variant *variants,
                               size_t count, kiln_report *report);

#endif
