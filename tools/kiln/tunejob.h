/* One tuning: what is wanted, what can be seen of it while it runs, and what came of it, as JSON, for it may have run in
 * another process. */
#ifndef KILN_TOOLS_TUNEJOB_H
#define KILN_TOOLS_TUNEJOB_H

#include <stdatomic.h>

#include "argvalues.h"
#include "common.h"
#include "jsonout.h"

typedef struct tune_job {
    const char *spec;   /* canonical text */
    const char *device; /* NULL: the service's default one, or the cpu for a spec that says target=cpu */
    arg_texts texts;    /* sizes and numbers */
    uint32_t budget;    /* seconds; 0: the library's */
    bool hot, no_learn;
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

/* Tunes in this process. `skip` is a list of {"spec", "reason"}, or NULL. The result is never NULL: an object with
 * "variant_results" and what else `kiln tune --json` tells, or one with "error", whose "status", "message", "log" and
 * "suspect" may be asked for by tune_error. The caller frees it. */
json_t *tune_here(kiln_service *service, const tune_job *job, const json_t *skip, tune_view *view);

/* A result that is an error; log and suspect may be NULL. */
json_t *tune_failure(kiln_status status, const char *message, const char *log, const char *suspect);

/* A member of the error, or NULL: where the result is none, and where the member is not there. */
const json_t *tune_error(const json_t *result, const char *member);

#endif
