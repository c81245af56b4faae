/* One program on its way through NVRTC: options, log and results. All of it inside a kiln__nvrtc_call. */
#ifndef KILN_GPU_NVRTC_JOB_H
#define KILN_GPU_NVRTC_JOB_H

#include "base/log.h"
#include "gpu/nvrtc.h"
#include "source/source.h"
#include <stdatomic.h>

typedef struct kiln__nvrtc_job {
    const kiln__nvrtc *nvrtc;
    nvrtcProgram program;
    const kiln__unit *unit;
    const char **options;
    int option_count;
    kiln__list headers;    /* what the compiler has in memory: name, text, name, text, ... */
    kiln__text includes;   /* the options that name places, each with its NUL */
    kiln__nvrtc_enum code; /* how the compile ended */
    char *log;             /* what NVRTC said, NULL if nothing */
} kiln__nvrtc_job;

/* Appends every option of a unit's compile but the target and what a source asks for, each with a space in front:
 * they are part of the key. */
void kiln__nvrtc_options(const kiln__unit *unit, kiln__text *out);

/* Begins a job. The unit is borrowed until its end. End it whether or not this succeeds. */
kiln_status kiln__nvrtc_job_start(kiln__nvrtc_job *out, const kiln__nvrtc *nvrtc, const kiln__unit *unit,
                                  kiln_report *report);
void kiln__nvrtc_job_end(kiln__nvrtc_job *job);

/* The name of a variable in the environment that NVRTC would heed, NULL if there is none. NVRTC would then make
 * other code than the key says. */
const char *kiln__nvrtc_steering(void);

/* Compiles with option `arch`. KILN_OK means that NVRTC gave an answer, in job->code and job->log. `dropped` holds,
 * a bit each, the options that this NVRTC turned out not to know: shared by all jobs of one library, zero at first.
 * KILN_ENOMEM; KILN_ENOCOMPILER where kiln__nvrtc_steering has a name. */
kiln_status kiln__nvrtc_job_run(kiln__nvrtc_job *job, const char *arch, atomic_uint *dropped, const kiln__log *log,
                                kiln_report *report);

/* Results of a compile that ended well; *out is the caller's (kiln__free), also on failure, and followed by a NUL.
 * KILN_ENOMEM, KILN_ECOMPILE. */
kiln_status kiln__nvrtc_job_ptx(const kiln__nvrtc_job *job, char **out, size_t *length, kiln_report *report);
kiln_status kiln__nvrtc_job_cubin(const kiln__nvrtc_job *job, void **out, size_t *length, kiln_report *report);

/* Appends, for each function that the source asks for, what it is called in the code, a line each. */
kiln_status kiln__nvrtc_job_names(const kiln__nvrtc_job *job, kiln__text *out, kiln_report *report);

#endif
