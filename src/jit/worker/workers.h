/* A compiler that lets NVRTC's compile in this process or in compile workers. The policy decides, and for units of
 * Kiln's templates the number of compiles at once (jit/worker/balance.h). A worker that has had a user's source or
 * template never gets a unit of Kiln's. A worker closes itself off from all files but those of a set of directories,
 * for good. It compiles units that may read just these, as long as their paths lead to the same directories.
 *
 * Workers are started when first needed and kept for the next compile: as many idle ones as processors, and two at
 * least, the last used first again. A worker that has had nothing to do for a minute ends itself, and one that has
 * used much memory ends after its answer; the host cleans up after them when a worker is next wanted, and in
 * close. That needs no thread. */
#ifndef KILN_JIT_WORKER_WORKERS_H
#define KILN_JIT_WORKER_WORKERS_H

#include "backend/backend.h"

/* Strings are copied. */
typedef struct kiln__workers_options {
    kiln_isolate isolate;
    const char *program; /* NULL: searched */
    const char *nvrtc;   /* as the inner compiler has it; NULL: searched */
    const char *crash_dir;
    uint64_t memory_bytes;
    uint32_t time_ms;
} kiln__workers_options;

/* Wraps `inner`, NVRTC in this process, which is closed with it, also when this fails. Starts nothing. `search` and
 * `options` are inner's: a key does not depend on where a unit is compiled. The other functions of its vtable fail
 * as inner's do, and with KILN_ENOWORKER and KILN_ECRASHED. With KILN_ISOLATE_ALWAYS inner is never opened; with
 * AUTO a worker is given the path of the library that inner has opened. NULL when out of memory. */
kiln__compiler *kiln__workers_open(kiln__compiler *inner, const kiln__workers_options *options, const kiln__log *log);

/* Counts of its work so far. Any thread. */
typedef struct kiln__workers_counts {
    uint64_t starts, crashes, timeouts;
} kiln__workers_counts;
void kiln__workers_count(const kiln__compiler *workers, kiln__workers_counts *out);

/* Finds the program, whose path goes to out, and lets a worker open NVRTC. KILN_ENOWORKER; a worker that finds no
 * NVRTC works. */
kiln_status kiln__workers_examine(kiln__compiler *workers, char *path, size_t size, kiln_report *report);

#endif
