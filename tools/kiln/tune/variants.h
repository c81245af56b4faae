/* The variants of tunings and sweeps with their results, kept for tables and pictures. */
#ifndef KILN_TOOLS_VARIANTS_H
#define KILN_TOOLS_VARIANTS_H

#include <kiln/tune.h>

#include "cli/common.h"
#include "plot/results.h"

/* A variant and its result, as kiln_variant_result has it. */
typedef struct variant_row {
    char *spec, *problem;
    const char *verdict; /* in words; static */
    double ms, gbps;     /* 0 if it was not measured */
    double ratio, low, high, ceiling_ratio;
    uint64_t samples;
    int registers, local_bytes;
} variant_row;

/* A combination that cannot be, and why. */
typedef struct variant_gap {
    char *spec, *problem;
} variant_gap;

/* One kind of kernel: the variants of an op and dtype on a device, at one size. */
typedef struct variant_group {
    char *device, *model, *target; /* "cuda:0", "NVIDIA H200", "sm_90" */
    char *op, *dtype;              /* the template's name where it takes no op */
    kiln_device *handle;
    uint64_t elements, bytes;
    double ceiling_gbps;   /* 0: not known */
    variant_row *variants; /* ranked */
    size_t count;
    variant_gap *gaps;
    size_t gap_count;
} variant_group;

struct variants {
    variant_group *groups;
    size_t count;
    struct results results;
};

/* Readies the files. Returns as results_open does. variants_close is right after either. */
int variants_open(struct variants *out, const char *csv, const char *picture);

/* The row of a result, for a launch that moves `bytes`. Its texts are copies. */
variant_row variants_row(const kiln_variant_result *result, uint64_t bytes);

/* The word that rows have for a verdict: the static string that equals the text, else "unknown". */
const char *variants_verdict_like(const char *word);

/* Begins a group of variants on a device, which is opened. Returns STATUS_DONE, or STATUS_FAILED after a message. */
int variants_begin(struct variants *variants, struct session *session, const char *device);

/* Adds a variant to the group that was begun last, and takes over the texts of the row. Variants come ranked. */
void variants_add_row(struct variants *variants, const variant_row *row);

/* Adds a combination that is impossible to that group. */
void variants_add_gap(struct variants *variants, const char *spec, const char *problem);

/* Adds a group with what kiln_sweep found. Returns as variants_begin does. */
int variants_add(struct variants *variants, struct session *session, const kiln_tuning *tuning);

/* Writes the files. Returns as results_write does. */
int variants_write(struct variants *variants);
void variants_close(struct variants *variants);

#endif
