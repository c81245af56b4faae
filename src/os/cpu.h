/* Facts about this machine's processor and memory, and clocks. */
#ifndef KILN_OS_CPU_H
#define KILN_OS_CPU_H

#include <stdint.h>

/* Processors that this process may run on, at least 1. */
unsigned kiln__cpu_count(void);

/* The instruction set of this machine as a -march value that names it exactly and can stand in a key: "x86-64-v3",
 * "armv8-a". A static string. */
const char *kiln__cpu_isa(void);

/* The maker's name for the processor, and its last-level cache in bytes (0 if unknown). */
void kiln__cpu_model(char *out, unsigned size);
uint64_t kiln__cpu_cache_bytes(void);

/* Memory in bytes that this process may use: that of the machine, or the limit of its control groups. 0 if
 * unknown. */
uint64_t kiln__cpu_memory_bytes(void);

/* The smallest memory limit of this process's control groups and of those above them, version 2 or 1; UINT64_MAX if
 * there is none. `root` stands before /proc and /sys: "" outside of tests. */
uint64_t kiln__cpu_memory_limit(const char *root);

/* Memory in bytes that can be taken now: that of the machine without swapping, or what the control groups still allow
 * beside the memory of their processes. 0 if unknown. `root` as above. */
uint64_t kiln__cpu_memory_free(const char *root);

/* Monotonic time in nanoseconds. */
uint64_t kiln__cpu_now_ns(void);

/* Returns after so long, or earlier where a signal comes. */
void kiln__cpu_sleep_ms(uint32_t ms);

/* Nanoseconds in milliseconds. Does not depend on the floating-point environment, and leaves it as it is. */
double kiln__cpu_ms(uint64_t ns);

#endif
