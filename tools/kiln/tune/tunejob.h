/* One tuning: its order, and a view of it while it runs. */
#ifndef KILN_TOOLS_TUNEJOB_H
#define KILN_TOOLS_TUNEJOB_H

#include <stdatomic.h>

#include "tune/tuneresult.h"

typedef struct tune_job {
    const char *spec;   /* canonical text */
    const char *device; /* NULL: the service's default one, or the cpu for a spec that says target=cpu */
    arg_texts texts;    /* sizes and numbers */
    uint32_t budget;    /* seconds; 0: the library's */
    bool hot, no_learn;
    const kiln_skip *skip; /* variants that are out from the start */
    size_t skip_count;
} tune_job;

enum { TUNE_VARIANT_ROOM = 32768, TUNE_BUDGET_S = 30 };

/* Written by the thread that tunes, read by one that watches it, in another process perhaps: no pointers. All zero is a
 * tuning that has not begun. */
typedef struct tune_view {
    atomic_uint tries;               /* odd while a variant is being launched: then */
    char variant[TUNE_VARIANT_ROOM]; /* is its canonical text, cut short if it is too long */
    atomic_int stop;                 /* set by who watches: end with what is known */
    atomic_uint_least64_t variants, ready, out, samples;
    atomic_uint_least64_t began_ms, now_ms; /* of its own time, when the search began, and the latest */
} tune_view;

/* Tunes in this process. The result is never NULL; the caller frees it. */
tune_result *tune_here(kiln_service *service, const tune_job *job, tune_view *view);

#endif
