/* One kernel of a watched template: checked, and timed against the last that was good and against a plain copy. */
#ifndef KILN_TOOLS_WATCHMEASURE_H
#define KILN_TOOLS_WATCHMEASURE_H

#include "kernels/paired.h"
#include "watch/watchround.h"

/* A spec, by the text that it was asked for with, and what is known of it. */
typedef struct watched {
    char *asked;
    char *spec;        /* of the last good version, every field set; NULL: there was none yet, as with what follows */
    kiln_kernel *good; /* NULL, too, where it is only compiled; outlives the service that it came from */
    int registers, old_registers;
    double ms, gbps, copy_ratio; /* 0: not timed, also below */
    double old_ms;               /* of the version before, in the same rounds */
    paired change;
    bool other_arguments; /* that version takes others: it was not run, and old_ms is its former time */
    const char *verified; /* "yes", "same twice", or why it was not timed */
    bool fresh;           /* good in this round */
} watched;

/* What the kernels of a round have in common. */
typedef struct watch_job {
    struct session *base;    /* whose device and memory all versions share */
    struct session *session; /* in which the template has its present text */
    const watch_args *args;
    char *device;      /* of the last kernel that ran, freed by the owner; NULL: none did */
    uint64_t elements; /* of its largest array */
} watch_job;

/* Checks and times a kernel and, if all is well, makes it the spec's good one, with a reference of its own. The one
 * before is only run where it takes the same arguments. Returns STATUS_DONE, or the exit status after a message. */
int watchmeasure(watch_job *job, watched *one, kiln_kernel *kernel);

#endif
