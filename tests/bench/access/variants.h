/* The kernels that bench_access_patterns compares. */
#ifndef KILN_TESTS_BENCH_ACCESS_VARIANTS_H
#define KILN_TESTS_BENCH_ACCESS_VARIANTS_H

#include "backend/backend.h"
#include "gpu/cuda_symbols.h"
#include <stdbool.h>

enum { ACCESS_VARIANTS_MAX = 1024, ACCESS_ROUNDS_MAX = 200, ACCESS_TEXT = 512, ACCESS_WORD = 16 };

/* What a multiprocessor of sm_90 and sm_100 has. */
#define ACCESS_SHARED_OF_SM (227 * 1024)

/* X(enumerator, name): the template's own kernels, those of patterns.cu, a copy. */
#define ACCESS_KINDS(X)                                                    \
    X(TEMPLATE, "template") /* one tile per block */                       \
    X(WHOLE, "whole")       /* the same, no comparisons in a whole tile */ \
    X(GRID, "grid")         /* a fixed grid, tiles in turn */              \
    X(AHEAD, "ahead")       /* the same, one tile loaded ahead */          \
    X(BOUND, "bound")       /* registers bounded */                        \
    X(FEWER, "fewer")       /* fewer blocks on a multiprocessor */         \
    X(HINTS, "hints")       /* cache hints the template does not have */   \
    X(BULK, "bulk")         /* bulk copies, one tile per block */          \
    X(RING, "ring")         /* bulk copies, a fixed grid, a ring */        \
    X(COPY, "copy")

typedef enum access_kind {
#define ACCESS_ENUM(id, name) ACCESS_##id,
    ACCESS_KINDS(ACCESS_ENUM)
#undef ACCESS_ENUM
} access_kind;

/* A kernel; variants that differ in how they are launched share one. */
typedef struct access_code {
    char spec[ACCESS_TEXT];    /* of the unit */
    char defines[ACCESS_TEXT]; /* for patterns.cu: "NAME=VALUE NAME=VALUE"; "" for the template's own kernel */
    kiln__image image;
    kiln_status status;
    char problem[256];
    CUkernel kernel;
    int registers, local_bytes;
} access_code;

typedef struct access_variant {
    access_kind kind;
    char name[96];
    access_code *code;
    unsigned block, tile; /* threads; elements */
    unsigned per_sm;      /* blocks for each multiprocessor; 0: a block for each tile */
    unsigned shared;      /* dynamic bytes of a block */
    bool is_default;      /* the template's default geometry */
    bool out;             /* it does not compile, cannot be launched or is wrong */
    double samples[ACCESS_ROUNDS_MAX], least, median;
    unsigned count; /* of samples */
} access_variant;

typedef struct access_list {
    const char *op, *dtype, *target;
    const char *kinds;          /* "grid,ring"; NULL: all. The template's own kernels are always there */
    unsigned sm, inputs, bytes; /* of the target; of the op; of an element */
    access_variant *variants;   /* room for ACCESS_VARIANTS_MAX, zeroed, here and below */
    access_code *codes;
    size_t count, code_count;
} access_list;

/* Fills in variants and codes for the op, dtype and target. False if there is not enough room. */
bool access_list_make(access_list *list);

#endif
