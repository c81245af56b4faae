/* The workers of a service: those at work and those that wait for the next compile, the last used first again. What
 * each is given to do, and what comes of it, is the business of workers.h. */
#ifndef KILN_JIT_WORKER_POOL_H
#define KILN_JIT_WORKER_POOL_H

#include "jit/worker/worker.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

typedef struct kiln__worker {
    kiln__child child;
    kiln__list places; /* what it may read, for as long as it lives */
    kiln__text marks;  /* which directories these were when it was started */
    bool strange;      /* it has been given source from elsewhere, which may have taken it over */
    char id
        [KILN__ENTRY_TOOLCHAIN_SIZE]; /* its toolchain, known before it was given any such source; "": not known yet */
    struct stat nvrtc;                /* the file that it has opened; zeros: unknown */
    uint64_t idle_since;
    struct kiln__worker *next; /* of the idle ones, used before this one */
} kiln__worker;

/* Any thread after init. */
typedef struct kiln__workerset {
    const char *program; /* NULL: searched */
    kiln__worker_limits limits;
    const kiln__log *log;
    pthread_mutex_t lock; /* guards what follows */
    kiln__worker *idle;
    unsigned idle_count, idle_max;
    atomic_uint_least64_t starts;
} kiln__workerset;

/* Starts none. `program` and `log` are borrowed. */
void kiln__workerset_init(kiln__workerset *set, const char *program, const kiln__worker_limits *limits,
                          const kiln__log *log);

/* Ends all; none may be at work. */
void kiln__workerset_fini(kiln__workerset *set);

/* Appends which directories the places are now, by which a worker is known. NULL: none. */
void kiln__workerset_mark(kiln__text *out, const kiln__list *places);

/* An idle worker that may read just these places (NULL: any), the one used last; NULL if there is none. What is
 * `foreign` gets a strange one where there is one, and nothing else ever does. */
kiln__worker *kiln__workerset_take(kiln__workerset *set, const kiln__list *places, const kiln__text *marks,
                                   bool foreign);

/* Starts a worker that opens `nvrtc` (NULL: searched) and then these places only; `places` NULL: none. `marks` are
 * those of a moment before, so that no worker is taken for one that holds a later directory. Errors: those of
 * kiln__worker_find, _start and _open. */
kiln_status kiln__workerset_start(kiln__workerset *set, const char *nvrtc, const kiln__list *places,
                                  const kiln__text *marks, kiln__toolchain *facts, kiln__worker **out,
                                  kiln_report *report);

/* A worker that was taken or started is given back for the next compile, or ended, or, where its process has ended,
 * freed. */
void kiln__workerset_give_back(kiln__workerset *set, kiln__worker *which);
void kiln__worker_end(kiln__worker *which);
void kiln__worker_free(kiln__worker *which);

#endif
