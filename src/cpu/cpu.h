/* The parts of the cpu backend: its check of objects, and the threads that run kernels. */
#ifndef KILN_CPU_CPU_H
#define KILN_CPU_CPU_H

#include "base/elf.h"

/* kiln__elf_check for a shared object of this machine. */
bool kiln__cc_check_object(const void *bytes, size_t length, char reason[KILN__ELF_REASON_SIZE]);

/* ---- Threads that share out the chunks of one range at a time */

typedef struct kiln__pool kiln__pool;

/* Computes one chunk: elements begin to end - 1. Called on several threads at once. */
typedef void (*kiln__pool_fn)(void *data, uint64_t begin, uint64_t end);

/* A pool of `helpers` threads besides the caller of a run, 0 for none. Starts them when they are first needed. NULL
 * when out of memory. */
kiln__pool *kiln__pool_open(unsigned helpers);

/* Ends and joins the threads. No run may be in progress. NULL is allowed. */
void kiln__pool_close(kiln__pool *pool);

/* The pool that all services of the process share: kernels of two services meet the same threads, and no more threads
 * than processors. A fork's child makes another. NULL when out of memory. Each user releases it once; the last one ends
 * and joins the threads. NULL is allowed. */
kiln__pool *kiln__pool_share(unsigned helpers);
void kiln__pool_release(kiln__pool *pool);

/* Calls fn for [0, chunk), [chunk, 2 * chunk), ... up to n, each chunk in one call, and returns when all have returned
 * and their effects are visible. The caller works too; a single chunk never leaves its thread. Several runs at once
 * take turns. fn calculates in the default floating-point environment; the caller keeps its own. A thread that
 * cannot be started is done without, so that a run never fails. chunk > 0. Any thread, but not from inside fn. */
void kiln__pool_run(kiln__pool *pool, uint64_t n, uint64_t chunk, kiln__pool_fn fn, void *data);

#endif
