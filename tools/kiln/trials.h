/* Results of tuning and sweeping, kept for tables and pictures. */
#ifndef KILN_TOOLS_TRIALS_H
#define KILN_TOOLS_TRIALS_H

#include <kiln/tune.h>

#include "common.h"
#include "results.h"

/* What is known of a variant, as kiln_variant_result has it. */
typedef struct trial_row {
    char *spec, *problem;
    const char *verdict; /* in words; static */
    double ms, gbps;     /* 0 if it was not measured */
    double ratio, low, high, ceiling_ratio;
    uint64_t samples;
    int registers, local_bytes;
} trial_row;

/* A combination that cannot be, and why. */
typedef struct trial_gap {
    char *spec, *problem;
} trial_gap;

/* One kind of kernel: the variants of an op and dtype on a device, at one size. */
typedef struct trial_group {
    char *device, *model, *target; /* "cuda:0", "NVIDIA H200", "sm_90" */
    char *op, *dtype;              /* the template's name where it takes no op */
    kiln_device *handle;
    uint64_t elements, bytes;
    double ceiling_gbps; /* 0: not known */
    trial_row *trials;   /* ranked */
    size_t count;
    trial_gap *gaps;
    size_t gap_count;
} trial_group;

struct trials {
    trial_group *groups;
    size_t count;
    struct results results;
};

/* Readies the files. Returns as results_open does. trials_close is right after either. */
int trials_open(struct trials *out, const char *csv, const char *picture);

/* The word for a verdict in results, "winner" or "out"; "unknown" for one that there is not. A static string. */
const char *trials_verdict(kiln_verdict verdict);

/* That string for an equal text, else "unknown". */
const char *trials_verdict_like(const char *word);

/* Begins a group of trials on a device, which is opened. Returns STATUS_DONE, or STATUS_FAILED after a message. */
int trials_begin(struct trials *trials, struct session *session, const char *device);

/* Adds a variant to the group that was begun last, and takes over the texts of the row. Variants come ranked. */
void trials_add_row(struct trials *trials, const trial_row *row);

/* Adds a combination that is impossible to that group. */
void trials_add_gap(struct trials *trials, const char *spec, const char *problem);

/* Adds a group with what kiln_sweep found. Returns as trials_begin does. */
int trials_add(struct trials *trials, struct session *session, const kiln_tuning *tuning);

/* Writes the files. Returns as results_write does. */
int trials_write(struct trials *trials);
void trials_close(struct trials *trials);

#endif
