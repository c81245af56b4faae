/* Facts about this machine's processor. */
#ifndef KILN_OS_CPU_H
#define KILN_OS_CPU_H

#include <stdint.h>

/* Processors that this process may run on, at least 1. */
unsigned kiln__cpu_count(void);

/* The instruction set of this machine as a -march value that names it exactly and can stand in a key: "x86-64-v3",
 * "armv8-a". A static string. */
const char *kiln__cpu_isa(void);

/* The maker's name for the processor, total memory in bytes and last-level cache in bytes (0 if unknown). */
void kiln__cpu_model(char *out, unsigned size);
uint64_t kiln__cpu_memory_bytes(void);
uint64_t kiln__cpu_cache_bytes(void);

/* Monotonic time in nanoseconds. */
uint64_t kiln__cpu_now_ns(void);

#endif
