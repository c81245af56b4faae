/* Faults on demand: the hook behind os/syscalls.h, and one for allocations. One plan at a time; the counting is safe
 * for any number of threads, arming and disarming for one. */
#ifndef KILN_TESTS_FAULT_INJECT_H
#define KILN_TESTS_FAULT_INJECT_H

#include "os/syscalls.h"
#include <stdbool.h>
#include <stdint.h>

/* Which calls count: all, or those on files under `root` (a path without links), or those on others, or those of the
 * thread that armed. */
typedef enum inject_where { INJECT_ANYWHERE, INJECT_INSIDE, INJECT_OUTSIDE, INJECT_OWN } inject_where;

typedef enum inject_kill { INJECT_NO_KILL, INJECT_KILL_BEFORE, INJECT_KILL_AFTER } inject_kill;

typedef struct inject_plan {
    uint64_t at;       /* the call that is hit, counted from 1; 0: none, only count */
    bool on;           /* and every later one */
    int error;         /* what it fails with; 0: it is made. EINTR comes at most twice in a row */
    bool short_length; /* reads and writes move one byte at the call, one to seven from then on */
    inject_kill kill;  /* SIGKILL to this process instead */
    inject_where where;
    const char *root;
    bool no_unnamed; /* files cannot be made without a name, as on file systems that have no O_TMPFILE */
} inject_plan;

void inject_arm(const inject_plan *plan);
/* Back to normal. Returns how many calls counted. */
uint64_t inject_disarm(void);
/* The calls counted since the last arming that are worth a fault of their own: in a row of calls of the same function,
 * as a walk of 256 shards makes, the first two and the last, else all. Writes their numbers and returns how many. */
size_t inject_calls(uint16_t *out, size_t room, bool all);
/* How many calls were hit since the last arming, and the name of the first ("" if none). */
uint64_t inject_hits(void);
const char *inject_first(void);

/* Makes allocation number `at` (from 1; 0 none) fail, and every later one if `on`. */
void inject_memory_arm(uint64_t at, bool on);
uint64_t inject_memory_disarm(void);

#endif
