/* Load balancing: whether one more compile goes on in this process or in a worker. Threads of one process that compile
 * with NVRTC hinder each other, be it in the heap or in the address space: on 16 processors 16 threads compile 4 times
 * as much as one, and 16 processes 13 times (bench_compile_rate). But to start a worker takes as long as half a
 * compile, which a few kernels are not worth. So a burst's first compile stays, a few more may share the process with
 * it, and the rest goes to workers, as many at once as there are processors. */
#ifndef KILN_JIT_WORKER_BALANCE_H
#define KILN_JIT_WORKER_BALANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { KILN__BALANCE_SHARED = 4 /* compiles of one burst that begin beside another */ };

/* A burst is over when nothing has compiled here for so long. */
#define KILN__BALANCE_REST_NS ((uint64_t)1000000000)

/* How long all compiles stay after a worker has failed: the first time, and at most. */
#define KILN__BALANCE_PAUSE_NS     ((uint64_t)10 * 1000000000)
#define KILN__BALANCE_PAUSE_MAX_NS (60 * KILN__BALANCE_PAUSE_NS)

/* Zeroed but for `limit`. Any thread. */
typedef struct kiln__balance {
    unsigned limit; /* how many may be in workers */
    atomic_uint inside, outside, shared;
    atomic_uint_least64_t left_ns;   /* when the last one here ended */
    atomic_uint_least64_t paused_to; /* until then all stay */
    atomic_uint_least64_t pause_ns;  /* how long the last pause was; 0 once a worker has helped since */
} kiln__balance;

/* True: compile here, and then call kiln__balance_leave. False: compile in a worker, and then call
 * kiln__balance_return. `now` is of kiln__cpu_now_ns. */
bool kiln__balance_enter(kiln__balance *balance, uint64_t now);
void kiln__balance_leave(kiln__balance *balance, uint64_t now);

/* A compile is back from its worker. To `stay`, it is done here after all and then calls kiln__balance_leave. */
void kiln__balance_return(kiln__balance *balance, bool stay);

/* A worker has failed at a compile that then succeeded here: all compiles stay here for a while, twice as long as the
 * last time if no worker has helped since. Returns how long to the first caller, and 0 to those that were in workers
 * by then. */
uint64_t kiln__balance_pause(kiln__balance *balance, uint64_t now);

#endif
