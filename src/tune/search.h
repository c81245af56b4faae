/* Finding the fastest of many variants by timing them against each other: quickly, honestly and repeatably.
 * docs/tuning.md says how and why. Knows no device and no clock, so that tests can play with made-up ones. */
#ifndef KILN_TUNE_SEARCH_H
#define KILN_TUNE_SEARCH_H

#include "base/report.h"
#include <stdatomic.h>
#include <stdint.h>

typedef enum kiln__readiness {
    KILN__WAITING, /* not yet: it is being compiled, loaded or verified */
    KILN__READY,
    KILN__OUT /* never, or no longer: it did not compile, gave wrong results, could not be launched */
} kiln__readiness;

/* The place where variants are timed. All functions are called on the searching thread. */
typedef struct kiln__arena {
    /* Their order is the order of preference. Variant 0 is the incumbent: the default where nothing is tuned. */
    size_t count;

    kiln__readiness (*readiness)(void *data, size_t variant);

    /* Returns when the readiness of a variant may have changed, and at the latest after some milliseconds. */
    void (*wait)(void *data);

    /* Takes one sample of each of `count` variants, one right after the other in this order; a variant may be named
     * more than once. out_ms gets milliseconds of the same work for all: of one launch, or of one element. A value that
     * is no positive number, NAN say, is no sample: it was disturbed (the clock throttled) or the variant did not run;
     * in the latter case let its readiness be KILN__OUT from then on. A failure ends the search with its status. */
    kiln_status (*time)(void *data, const size_t *variants, size_t count, double *out_ms);

    /* Steady nanoseconds. */
    uint64_t (*now_ns)(void *data);

    /* A number that changes, rarely, when samples from then on do not compare with earlier ones, because they are taken
     * in another way. The search then forgets its samples and begins anew. NULL: that never happens. */
    uint32_t (*basis)(void *data);

    void *data;
} kiln__arena;

typedef struct kiln__search_options {
    uint64_t budget_ns;      /* it ends within one call of `time` after so long; 0: no limit */
    double tolerance;        /* a slowdown that does not matter, as a fraction; 0: 0.005 */
    const atomic_bool *stop; /* set from anywhere, a signal handler included: ends the search. NULL: never */
} kiln__search_options;

typedef enum kiln__search_end {
    KILN__SETTLED,   /* no other in the running can be faster than the winner by more than the tolerance, with 99% */
    KILN__EXHAUSTED, /* many samples did not tell: the winner ties with others */
    KILN__TIMED_OUT, /* the budget was spent */
    KILN__STOPPED    /* by the flag */
} kiln__search_end;

/* The result of one variant, but for its texts and its resources. */
typedef struct kiln__ranked {
    size_t variant;
    kiln_variant_result result;
} kiln__ranked;

typedef struct kiln__search_result {
    kiln__search_end end;
    kiln__ranked *ranking; /* one for each variant: the winner, those that tie, the others, each by ratio */
    size_t count;
    size_t incumbent;      /* 0, or the earliest that was ready when 0 was out */
    double incumbent_ms;   /* median of its samples */
    double regret;         /* how much slower than another in the running the winner may be, as a fraction; INFINITY if
                          * it is not known */
    uint64_t samples;      /* taken in all */
    uint64_t void_samples; /* of them not used: disturbed, or the first of a variant */
    uint32_t rounds;
    uint64_t elapsed_ns;
} kiln__search_result;

/* Searches. Ends when the winner is settled and no variant waits, when the samples or the budget are at an end, or when
 * the flag is set. With a budget, at most half of it is spent on waiting before those that are there go on alone.
 *
 * The same variants give the same winner again: of those that are not told apart from the fastest the earliest wins.
 *
 * Errors: KILN_EINVAL (no variant), KILN_ENOENT (every variant is out), KILN_ETIMEDOUT and KILN_ECANCELED (before
 * any variant was ready), KILN_ENOMEM, and those of `time`. *out is then empty. Ends with kiln__search_result_fini. */
kiln_status kiln__search(kiln__search_result *out, const kiln__arena *arena, const kiln__search_options *options,
                         kiln_report *report);
void kiln__search_result_fini(kiln__search_result *result);

#endif
