/* Whether one more compile should go on in this process. Threads of one process that compile with NVRTC hinder each
 * other, be it in the heap or in the address space: on 16 processors 16 threads compile 4 times as much as one, and
 * 16 processes 13 times (bench_compile_rate). But to start a worker takes as long as half a compile, which a few
 * kernels are not worth. So a burst's first compile stays, a few more may share the process with it, and the rest
 * goes to workers, as many at once as there are processors. */
#ifndef KILN_JIT_WORKER_CROWD_H
#define KILN_JIT_WORKER_CROWD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { KILN__CROWD_SHARED = 4 /* compiles of one burst that begin beside another */ };

/* A burst is over when nobody has compiled here for so long. */
#define KILN__CROWD_REST_NS ((uint64_t)1000000000)

/* How long all stay after a worker has failed: the first time, and at most. */
#define KILN__CROWD_PAUSE_NS     ((uint64_t)10 * 1000000000)
#define KILN__CROWD_PAUSE_MAX_NS (60 * KILN__CROWD_PAUSE_NS)

/* Any thread after init. */
typedef struct kiln__crowd {
    unsigned limit; /* how many may be outside */
    atomic_uint inside, outside, shared;
    atomic_uint_least64_t left_ns;   /* when the last one left */
    atomic_uint_least64_t paused_to; /* until then everyone stays */
    atomic_uint_least64_t pause_ns;  /* how long the last pause was; 0 once a worker has helped since */
} kiln__crowd;

void kiln__crowd_init(kiln__crowd *crowd, unsigned limit);

/* True: compile here, and then call kiln__crowd_leave. False: compile outside, and then call kiln__crowd_return.
 * `now` is of kiln__cpu_now_ns. */
bool kiln__crowd_enter(kiln__crowd *crowd, uint64_t now);
void kiln__crowd_leave(kiln__crowd *crowd, uint64_t now);

/* One who was sent away is back; to `stay`, he compiles here after all and then calls kiln__crowd_leave. */
void kiln__crowd_return(kiln__crowd *crowd, bool stay);

/* A worker has failed at a compile that then succeeded here: all compiles stay here for a while, twice as long as the
 * last time if no worker has helped since. Returns how long to the first caller, and 0 to those sent away by then. */
uint64_t kiln__crowd_pause(kiln__crowd *crowd, uint64_t now);

#endif
