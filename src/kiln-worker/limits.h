/* What a compile worker may use, and what it says when it dies of it. */
#ifndef KILN_KILN_WORKER_LIMITS_H
#define KILN_KILN_WORKER_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* For the whole process, before it has a second thread: `memory_bytes` of address space (not in a build with
 * sanitizers, which reserve terabytes), no core dumps, a heap that keeps what it once had. Opens what the last words
 * need. False if the system refuses. */
bool kiln__limits_begin(uint64_t memory_bytes);

/* Calls fn on a new thread with a stack of 64 MiB: compilers recurse as deeply as their sources nest. The stack of
 * the main thread would grow as far, but to measure it the C library must read /proc, which a worker gives up. The
 * thread says so when it dies by a signal while it compiles. 0 or an errno. */
int kiln__limits_start(void *(*fn)(void *), void *data);

/* Around a compile: allows it `cpu_s` more seconds of processor time, and lets last words be sent meanwhile. */
void kiln__limits_compile(uint32_t cpu_s);
void kiln__limits_rest(void);

/* True if the process has at some time used a good part of `memory_bytes`: a fresh one should do what comes next. */
bool kiln__limits_is_bloated(uint64_t memory_bytes);

#endif
