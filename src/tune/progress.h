/* Telling the host how far a tuning or a sweep has come. */
#ifndef KILN_TUNE_PROGRESS_H
#define KILN_TUNE_PROGRESS_H

#include "tune/contest.h"

/* For the thread that tunes. All but `told` is set by the owner. */
typedef struct kiln__progress {
    kiln_progress_fn fn; /* the host's, or NULL */
    void *data;
    const kiln__contest *contest; /* all zero before it is held */
    kiln_tuning_info *info;       /* what is told; its seconds and what it says of the contest are kept here */
    uint64_t start, told;         /* kiln__cpu_now_ns */
} kiln__progress;

/* Brings the info up to date. */
void kiln__progress_count(kiln__progress *progress);

/* Tells the host, unless that was done a moment ago. True if the host wants it to end. */
bool kiln__progress_tell(kiln__progress *progress);

#endif
