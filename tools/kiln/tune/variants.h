/* The variants of tunings and sweeps with their results, for tables, JSON and pictures. */
#ifndef KILN_TOOLS_VARIANTS_H
#define KILN_TOOLS_VARIANTS_H

#include "plot/results.h"
#include "text/jsonout.h"

/* A variant and its result, as kiln_variant_result has it; or an impossible combination. */
typedef struct variant_row {
    const char *spec, *problem;
    const char *verdict; /* in words */
    double ms, gbps;     /* 0 if it was not measured */
    double ratio, low, high, ceiling_ratio;
    uint64_t samples;
    int registers, local_bytes;
} variant_row;

/* One kind of kernel: the variants of an op and dtype on a device, at one size. */
typedef struct variant_group {
    const char *device, *model, *target; /* "cuda:0", "NVIDIA H200", "sm_90" */
    kiln_device *handle;
    uint64_t elements, bytes;
    double ceiling_gbps; /* 0: not known */
    variant_row *rows;   /* ranked */
    size_t count;
    variant_row *gaps; /* impossible combinations */
    size_t gap_count;
} variant_group;

struct variants {
    variant_group *groups;
    size_t count;
    struct results results;
};

/* The row of a result, for a launch that moves `bytes`. */
variant_row variant_of(const kiln_variant_result *result, uint64_t bytes);

/* Its JSON, without the ratio to the ceiling; and back. False where a member is missing or of another type. */
json_t *variant_json(const variant_row *row);
bool variant_read(variant_row *out, const json_t *object);

/* Read members of an object; false where one is missing or of another type. */
bool take_text(const char **out, const json_t *object, const char *name);
bool take_count(uint64_t *out, const json_t *object, const char *name);
bool take_number(double *out, const json_t *object, const char *name); /* null is infinity */

/* Adds an impossible combination to a list, unless it is there. */
void variant_add_gap(variant_row **list, size_t *count, const kiln_variant *variant);

/* Begins a group of variants on a device, which is opened. Returns the group, or NULL after a message. */
variant_group *variants_begin(struct variants *variants, struct session *session, const char *device);

/* kiln_sweep of specs that are given as text. */
kiln_status variants_sweep(kiln_tuning **out, struct session *session, const text_list *specs,
                           const kiln_sweep_options *options);

/* Writes the files. Returns as results_write does. */
int variants_write(struct variants *variants);

#endif
