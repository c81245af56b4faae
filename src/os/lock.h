/* Locks between processes on single bytes of a file (OFD). The kernel releases them when their holder dies, so no lock
 * is ever stale, and nothing is left behind. */
#ifndef KILN_OS_LOCK_H
#define KILN_OS_LOCK_H

#include <stdint.h>

/* One open lock file, on the stack of the thread that wants the lock. A forked child closes it, or it would keep the
 * locks of a parent that is killed. */
typedef struct kiln__lock {
    int fd; /* -1: none is open */
} kiln__lock;

/* Takes over an open lock file, or a -errno, which it returns. -EMFILE: too many are open. */
int kiln__lock_open(kiln__lock *out, int fd);

/* Locks the byte at `offset` if it is free: 0, -EAGAIN while another open file holds it, -ENOENT if the file has lost
 * its name (it was removed: open it again), or another -errno. */
int kiln__lock_try(const kiln__lock *lock, uint64_t offset);

/* As try, but waits until the lock is free, at most wait_ms: then -ETIMEDOUT. Looks every 5 ms at most, because a
 * blocking wait cannot be bounded without signals. Time in which the process does not run, but for 100 ms, does not
 * count. */
int kiln__lock_wait(const kiln__lock *lock, uint64_t offset, uint32_t wait_ms);

/* Unlocks one byte. */
void kiln__lock_give(const kiln__lock *lock, uint64_t offset);

/* Unlocks all bytes and closes the file. */
void kiln__lock_close(kiln__lock *lock);

#endif
