/* Locks between processes on single bytes of a file (OFD). The kernel lets go of them when their holder dies, so that
 * nobody has to guess whether a lock is stale; nothing is left behind. */
#ifndef KILN_OS_LOCK_H
#define KILN_OS_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* One open lock file; on the stack of the thread that wants the lock. */
typedef struct kiln__lock {
    int fd; /* -1: none is open */
    struct kiln__lock *next, *before;
} kiln__lock;

/* The lock files that are open, so that a forked child can close them: it would otherwise keep the locks of a parent
 * that is killed. Embedded in its owner. Any thread after init. */
typedef struct kiln__lock_list {
    pthread_mutex_t mutex; /* guards the list */
    kiln__lock *first;
} kiln__lock_list;

void kiln__lock_list_init(kiln__lock_list *list);
void kiln__lock_list_fini(kiln__lock_list *list);

/* Opens the lock file: `open` gives a descriptor or -errno, which is what this returns too. */
int kiln__lock_open(kiln__lock_list *list, kiln__lock *out, int (*open)(void *data), void *data);

/* Locks the byte at `offset`, if nobody else has it: 0, -EAGAIN while another open file holds it, -ENOENT if the file has
 * lost its name (it was removed: open it again), or what went wrong. */
int kiln__lock_try(const kiln__lock *lock, uint64_t offset);

/* As try, but waits until the lock is free, at most wait_ms: then -ETIMEDOUT. Looks every 5 ms at most, because a
 * blocking wait cannot be bounded without signals. Time in which the process does not run, but for 100 ms, does not
 * count. */
int kiln__lock_wait(const kiln__lock *lock, uint64_t offset, uint32_t wait_ms);

/* Lets go of one byte. */
void kiln__lock_give(const kiln__lock *lock, uint64_t offset);

/* Lets go of all bytes and closes the file. */
void kiln__lock_close(kiln__lock_list *list, kiln__lock *lock);

/* Around a fork: nothing is opened or closed meanwhile, and the child closes what it inherits. */
void kiln__lock_before_fork(kiln__lock_list *list);
void kiln__lock_after_fork(kiln__lock_list *list, bool child);

#endif
