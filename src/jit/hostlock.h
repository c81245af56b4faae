/* One compile per key per host: a lock on one byte of <root>/v1/lock, at an offset that the key's digest gives. The
 * kernel lets go of it when its holder dies, so that nobody has to guess whether a lock is stale; nothing is left
 * behind. */
#ifndef KILN_JIT_HOSTLOCK_H
#define KILN_JIT_HOSTLOCK_H

#include "base/digest.h"
#include "os/lock.h"
#include "store/store.h"

typedef kiln__lock kiln__hostlock_hold; /* on the stack of the thread that compiles */

/* Embedded in the service. Any thread after init. */
typedef struct kiln__hostlock {
    kiln__store *disk; /* borrowed; NULL: there is no host lock */
    uint32_t wait_ms;
    const kiln__log *log;
    void (*aside)(void *data, bool begin); /* called around a wait, on the waiting thread; may be NULL */
    void *data;
    atomic_bool warned;
    atomic_uint_least64_t waits, timeouts, errors;
} kiln__hostlock;

void kiln__hostlock_init(kiln__hostlock *lock, kiln__store *disk, uint32_t wait_ms, const kiln__log *log);

/* Waits until no other process or service holds the key's lock, at most wait_ms. True: this thread holds it, until
 * give. False: there is no lock to be had (no store, the file system has none, the wait outlasted its bound); all
 * but the first is counted, and the caller compiles all the same. Locks of different keys do not meet. */
bool kiln__hostlock_take(kiln__hostlock *lock, const uint8_t digest[KILN__DIGEST_SIZE], kiln__hostlock_hold *out);

/* The same lock for what is no compile: waits at most `wait_ms`, and counts and logs nothing. */
bool kiln__hostlock_take_quietly(kiln__hostlock *lock, const uint8_t digest[KILN__DIGEST_SIZE], uint32_t wait_ms,
                                 kiln__hostlock_hold *out);
void kiln__hostlock_give(kiln__hostlock_hold *hold);

#endif
