/* Live handles: the best kernel there is now, and the work in the background that brings better ones. */
#ifndef KILN_TUNE_LIVE_H
#define KILN_TUNE_LIVE_H

#include "service/get.h"
#include <kiln/tune.h>

/* A stand-in, the one that a get gives, the fastest. */
enum { KILN__LIVE_KERNELS = 3 };

struct kiln_live {
    _Atomic(kiln_kernel *) now; /* the kernel that launches read; NULL: there is none */
    unsigned generation;        /* os/fork.h */
    atomic_bool ended;          /* nothing more will come; the outcome is constant from then on */
    atomic_bool given_up;       /* by kiln_live_close */
    atomic_uint refs;           /* the host's and, until it has ended, the background's */
    kiln_service *service;      /* not used any more once it has ended: it may be closed */
    kiln_device *on;            /* the device asked for, NULL for the default one */
    kiln_spec *spec;
    int priority;
    bool tunes;
    kiln_tune_options tuning; /* the host's, if it tunes; its work is copied, too: */
    kiln_work work;
    uint64_t sizes[KILN__SIZES_MAX];
    kiln_arg args[KILN__ARGS_MAX];
    uint64_t numbers[KILN__ARGS_MAX];
    kiln__wait wait;
    kiln__job job;
    /* Guarded by the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kiln__workpool *pool;                     /* that has the job; NULL: none */
    bool measuring;                           /* a tuning is, or calls the host: closing waits for it */
    kiln_live_state state;                    /* never KILN_LIVE_FAILED: that is ended, with a failure */
    kiln_kernel *kernels[KILN__LIVE_KERNELS]; /* all that were ever launched: a launch may still be using them */
    unsigned count;
    double ratio;
    kiln__outcome outcome; /* once ended: the failure */
};

/* The contracts are those of the public functions of the same name. The options are complete, and `tuning` is NULL or
 * complete, its work too. */
kiln_status kiln__live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                            const kiln_live_options *options, const kiln_tune_options *tuning, kiln_report *report);
void kiln__live_info(kiln_live *live, kiln_live_info *out);
kiln_status kiln__live_wait(kiln_live *live, kiln_live_state state, int timeout_ms, kiln_report *report);
void kiln__live_close(kiln_live *live);

#endif
