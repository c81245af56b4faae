/* What kiln run gives a kernel by its signature: the arguments, filled from files, sizes and numbers. */
#ifndef KILN_TOOLS_RUNSLOTS_H
#define KILN_TOOLS_RUNSLOTS_H

#include <kiln/kernel.h>

#include "cli/common.h"
#include "files/npy.h"
#include "kernels/argvalues.h"
#include "run/runargs.h"

/* An argument that is passed: an array, or a number. */
typedef struct run_slot {
    kiln_param info;
    uint32_t index;      /* among the parameters of the kernel */
    npy_array array;     /* of an array: its file or, made by the kernel, its shape */
    void *host, *device; /* an array's memory, NULL until somebody makes it */
    uint64_t number;     /* the bytes of a number */
} run_slot;

/* All zero is one of no arguments. */
typedef struct run_slots {
    run_slot slots[ARGVALUES_ARGS];
    uint32_t count;
    run_slot *result; /* the one array that is written; NULL until it is known */
    const char *size_names[ARGVALUES_SIZES];
    uint64_t sizes[ARGVALUES_SIZES];
    bool bound[ARGVALUES_SIZES]; /* by the shape of an input */
    uint32_t size_count;
} run_slots;

/* Fills in all but memory: each input has its file, the sizes are those of the inputs' shapes and of --size, the
 * result has the shape that is declared, the numbers are those of --arg. The files stay the caller's. Returns
 * STATUS_DONE, or the exit status after a message. */
int runslots_settle(run_slots *out, const kiln_signature *signature, const runargs *args, const npy_array *files,
                    size_t count);

/* Whether the kernel reads what is in the array. */
bool runslots_reads(const run_slot *slot);

/* What a launch is given for the argument; `data` is where an array's bytes are. */
kiln_arg runslots_given(const run_slot *slot, const void *data);

#endif
