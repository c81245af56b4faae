/* One tuning: its order, a view of it while it runs, and its result. */
#ifndef KILN_TOOLS_TUNEJOB_H
#define KILN_TOOLS_TUNEJOB_H

#include <stdatomic.h>

#include "kernels/argvalues.h"
#include "tune/variants.h"

typedef struct tune_job {
    const char *spec;   /* canonical text */
    const char *device; /* NULL: the service's default one, or the cpu for a spec that says target=cpu */
    arg_texts texts;    /* sizes and numbers */
    uint32_t budget;    /* seconds; 0: the library's */
    bool hot, no_learn;
    const kiln_skip *skip; /* variants that are out from the start */
    size_t skip_count;
    const char *question; /* to ask where a launch ends its process (kernels/crash.h), or NULL */
} tune_job;

enum { TUNE_VARIANT_ROOM = 32768, TUNE_BUDGET_S = 30 };

/* Written by the thread that tunes, read by one that watches it, in another process perhaps: no pointers. All zero is a
 * tuning that has not begun. */
typedef struct tune_view {
    atomic_uint tries;               /* odd while a variant is being launched: then */
    char variant[TUNE_VARIANT_ROOM]; /* is its canonical text, cut short if it is too long */
    atomic_int stop;                 /* set by the watcher: end with the results so far */
    atomic_uint_least64_t variants, ready, out, samples;
    atomic_uint_least64_t began_ms, now_ms; /* by its clock: the begin of the search, and the latest */
} tune_view;

typedef struct tune_result {
    kiln_status status; /* KILN_OK, or that of a failure, of which only the next three tell more */
    const char *message;
    const char *log, *suspect; /* NULL: there is none */

    const char *device, *end, *against, *not_learnt; /* as kiln_tuning_info has them, `against` as verified_by */
    const char *wisdom; /* the file that keeps the winner, or that should have; "": there is none */
    const char *spec;   /* of the winner */
    uint64_t elements, bytes, impossible, out, samples;
    double regret, seconds;
    bool learnt;
    variant_row *rows; /* ranked */
    size_t row_count;
    bool has_values;  /* whether the template takes more than a number of elements */
    arg_texts values; /* then each size and number that it was measured with, as "NAME=VALUE" */
} tune_result;

/* Tunes in this process. The result is the JSON that `kiln tune --json` prints; of a failure an object "error". */
json_t *tune_here(kiln_service *service, const tune_job *job, tune_view *view);

/* The JSON of a failure; log and suspect may be NULL. */
json_t *tune_failure(kiln_status status, const char *message, const char *log, const char *suspect);

/* Reads such JSON. False where something is missing or of another type: a variant may have damaged the process that
 * wrote it. */
bool tune_read(tune_result *out, json_t *object);

#endif
