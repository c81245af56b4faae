/* Variants whose true times are known, on a clock that runs as fast as a test can count. */
#ifndef KILN_TESTS_SUPPORT_ARENA_H
#define KILN_TESTS_SUPPORT_ARENA_H

#include "tune/search.h"

enum { KILN_TEST_VARIANTS_MAX = 128 };

#define KILN_TEST_NEVER 1e12 /* ms */

/* An unpleasant GPU: every sample jitters; slow spells of 20 to 60 ms take 2 to 4% from everybody; now and then a
 * sample takes three times as long; the clock drifts, begins 10% slow, and ticks every 1/1024 ms; the first sample
 * of a variant takes 30% longer. A sample is as many launches as take half a millisecond. */
typedef struct kiln_test_arena {
    size_t count;
    double truth[KILN_TEST_VARIANTS_MAX];    /* ms of one launch */
    double ready_ms[KILN_TEST_VARIANTS_MAX]; /* when it is compiled */
    double out_ms[KILN_TEST_VARIANTS_MAX];   /* when it turns out not to work */
    double jitter, outliers, disturbed;
    double throttle_from, throttle_to, throttle_by;
    double moved_from; /* from then on what takes samples sees no difference any more, and says so: basis */
    bool calm;         /* no spells, no drift, no slow beginning */
    size_t always_disturbed;
    atomic_bool *stop;
    double stop_ms, fail_ms;
    /* where it is */
    uint64_t random;
    double now_ms, walk, spell_from, spell_to, spell_by, longest_call;
    bool touched[KILN_TEST_VARIANTS_MAX];
} kiln_test_arena;

/* All variants alike, compiled by 16 cores in 35 ms each, none struck out; a fixed seed. `jitter` is the standard
 * deviation of a sample's logarithm. */
void kiln_test_arena_init(kiln_test_arena *arena, size_t count, double jitter);

/* Begins the random numbers anew. */
void kiln_test_arena_seed(kiln_test_arena *arena, int number);

/* What a space looks like: a tenth within 1% of the fastest, a quarter within 5%, and a long tail. Seeds. */
void kiln_test_arena_spread(kiln_test_arena *arena, int number);

/* kiln__search with this arena, the default tolerance and the arena's flag. budget_ms 0: no limit. */
kiln_status kiln_test_arena_search(kiln_test_arena *arena, kiln__search_result *out, double budget_ms,
                                   kiln_report *report);

double kiln_test_uniform(kiln_test_arena *arena); /* in [0, 1) */
double kiln_test_normal(kiln_test_arena *arena);

#endif
