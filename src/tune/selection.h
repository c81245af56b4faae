/* Selecting the fastest variant by samples: which are slower, which tie, which wins. Knows no clock; one thread at a
 * time.
 *
 * A sample is the logarithm of a variant's time over the incumbent's times beside it, so that whatever slows both
 * (drift, a slow spell, a colder clock) is gone from it. Two variants are compared by the differences of their
 * samples of the same rounds, once they share enough of them. */
#ifndef KILN_TUNE_SELECTION_H
#define KILN_TUNE_SELECTION_H

#include "base/report.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KILN__JUDGED_FROM = 4 }; /* samples that a variant has before it is judged */

typedef enum kiln__judgement {
    KILN__WINNER,
    KILN__TIED,       /* not told apart from the fastest: still in the running */
    KILN__GIVEN_UP,   /* not told apart, but others were more promising */
    KILN__SLOWER,     /* told apart */
    KILN__UNMEASURED, /* too few samples, or none */
    KILN__STRUCK_OUT  /* cannot run */
} kiln__judgement;

typedef struct kiln__sample {
    uint32_t round;
    double ratio; /* logarithm */
} kiln__sample;

/* The samples of one variant. */
typedef struct kiln__variant_samples {
    kiln__sample *samples; /* by round */
    size_t count, capacity;
    size_t first;      /* those before it no longer count */
    uint32_t attempts; /* to take a sample, the first, uncounted one among them */
    double opening;    /* what that one said */
    double estimate;   /* logarithm of its ratio to the incumbent, if `judged` */
    bool judged;
    kiln__judgement verdict; /* anything but KILN__WINNER */
} kiln__variant_samples;

typedef struct kiln__selection {
    kiln__variant_samples *variants;
    size_t count;
    size_t incumbent; /* has no samples: its ratio to itself is 1 */
    size_t leader;    /* of those in the running the one with the least estimate */
    size_t running;   /* those in the running that are judged, the incumbent among them */
    size_t rivals; /* of how many the leader is the luckiest: all that were ever judged, in the finals the finalists */
    bool is_final;
    double tolerance; /* logarithm of the slowdown that does not matter */
    double noise;     /* standard deviation of a sample, the same for all; infinite while unknown */
    double *scratch;
    size_t scratch_size;
} kiln__selection;

/* How much slower one variant is than another, as logarithms. */
typedef struct kiln__gap {
    double value, margin; /* value - margin and value + margin bound it, each with 99% for all variants and looks */
} kiln__gap;

/* `tolerance` is a fraction: 0.005. Errors: KILN_ENOMEM, *out is then empty. */
kiln_status kiln__selection_init(kiln__selection *out, size_t count, double tolerance, kiln_report *report);
void kiln__selection_fini(kiln__selection *selection);

/* Forgets every sample and begins anew with another incumbent; variants that were struck out stay so. */
void kiln__selection_restart(kiln__selection *selection, size_t incumbent);

/* Begins the finals: the samples of those in the running no longer count. They were chosen by them, and so by their
 * luck, too. Where fresh samples are too few in the end, kiln__selection_recall has the old ones count again. */
void kiln__selection_begin_finals(kiln__selection *selection);
void kiln__selection_recall(kiln__selection *selection);

/* How many samples of a variant count. */
size_t kiln__selection_samples(const kiln__selection *selection, size_t variant);

/* Adds a sample; rounds do not go down. KILN_ENOMEM. */
kiln_status kiln__selection_add(kiln__selection *selection, size_t variant, uint32_t round, double ratio,
                                kiln_report *report);

/* Renews noise, estimates and leader. To be called after samples have come and before the functions below. */
void kiln__selection_update(kiln__selection *selection);

kiln__gap kiln__selection_gap(const kiln__selection *selection, size_t slower, size_t faster);

/* Takes a variant out of the running if it is told apart from the leader: slower beyond its margin, and by more than
 * half the tolerance. */
void kiln__selection_drop_if_slower(kiln__selection *selection, size_t variant);

/* Leaves `kept` variants in the running. Half of them are the fastest, the other half the earliest of the rest, so
 * that an early variant that ties is there to the end, whatever the luck of the others. */
void kiln__selection_cut(kiln__selection *selection, size_t kept);

/* The winner: the earliest in the running that is not told apart from the leader. *regret is the logarithm of how much
 * slower than any other in the running it may be, with 99%; infinite where that is unknown.
 *
 * True if that is within the tolerance, so that more samples would not change the choice for the better. Else *pick is
 * what to take if there can be no more: the same, but of those only that are within the tolerance as far as is known,
 * and the incumbent. */
bool kiln__selection_pick(const kiln__selection *selection, size_t *pick, double *regret);

/* Ratio of a variant to the incumbent and its 95% interval, for this variant alone. All 1 for the incumbent. */
void kiln__selection_ratio(const kiln__selection *selection, size_t variant, double *ratio, double *low, double *high);

#endif
