#include "os/lock.h"

#include "os/cpu.h"
#include "os/syscalls.h"
#include <errno.h>
#include <string.h>
#include <time.h>

enum { FIRST_POLL_NS = 1000000, LONGEST_POLL_NS = 5000000, LONGEST_COUNTED_NS = 100000000 };

void kiln__lock_list_init(kiln__lock_list *list)
{
    list->first = NULL;
    pthread_mutex_init(&list->mutex, NULL);
}

void kiln__lock_list_fini(kiln__lock_list *list)
{
    pthread_mutex_destroy(&list->mutex);
}

/* Under the mutex, so that a fork either finds the descriptor in the list or does not inherit it. */
int kiln__lock_open(kiln__lock_list *list, kiln__lock *out, int (*open)(void *data), void *data)
{
    pthread_mutex_lock(&list->mutex);
    int fd = open(data);
    out->fd = fd < 0 ? -1 : fd;
    if (fd >= 0) {
        out->before = NULL;
        out->next = list->first;
        if (out->next != NULL)
            out->next->before = out;
        list->first = out;
    }
    pthread_mutex_unlock(&list->mutex);
    return fd;
}

int kiln__lock_try(const kiln__lock *lock, uint64_t offset)
{
    struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1 };
    struct stat status;
    while (kiln__sys_fcntl(lock->fd, F_OFD_SETLK, &range) != 0) {
        if (errno == EACCES)
            return -EAGAIN;
        if (errno != EINTR)
            return -errno;
    }
    if (kiln__sys_fstat(lock->fd, &status) != 0)
        return -errno;
    return status.st_nlink == 0 ? -ENOENT : 0;
}

int kiln__lock_wait(const kiln__lock *lock, uint64_t offset, uint32_t wait_ms)
{
    struct timespec pause = { 0, FIRST_POLL_NS };
    uint64_t left = (uint64_t)wait_ms * 1000000, seen = kiln__cpu_now_ns();
    int error;
    while ((error = kiln__lock_try(lock, offset)) == -EAGAIN) {
        if (left == 0)
            return -ETIMEDOUT;
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < LONGEST_POLL_NS ? pause.tv_nsec * 2 : LONGEST_POLL_NS;
        /* A longer gap: this process was stopped, or the whole machine and with it the one that has the lock. */
        uint64_t now = kiln__cpu_now_ns(), gap = now - seen;
        gap = gap < LONGEST_COUNTED_NS ? gap : LONGEST_COUNTED_NS;
        left -= gap < left ? gap : left;
        seen = now;
    }
    return error;
}

void kiln__lock_give(const kiln__lock *lock, uint64_t offset)
{
    struct flock range = { .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1 };
    kiln__sys_fcntl(lock->fd, F_OFD_SETLK, &range);
}

/* Unlocked in so many words: a child that was forked a moment ago, and has not closed its copy of the descriptor yet,
 * would otherwise keep the lock that much longer. */
void kiln__lock_close(kiln__lock_list *list, kiln__lock *lock)
{
    struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
    pthread_mutex_lock(&list->mutex);
    if (lock->fd >= 0) {
        kiln__sys_fcntl(lock->fd, F_OFD_SETLK, &all);
        kiln__sys_close(lock->fd);
        lock->fd = -1;
        if (lock->before != NULL)
            lock->before->next = lock->next;
        else
            list->first = lock->next;
        if (lock->next != NULL)
            lock->next->before = lock->before;
    }
    pthread_mutex_unlock(&list->mutex);
}

void kiln__lock_before_fork(kiln__lock_list *list)
{
    pthread_mutex_lock(&list->mutex);
}

void kiln__lock_after_fork(kiln__lock_list *list, bool child)
{
    for (kiln__lock *lock = list->first; child && lock != NULL; lock = lock->next) {
        kiln__sys_close(lock->fd);
        lock->fd = -1;
    }
    if (child)
        list->first = NULL;
    pthread_mutex_unlock(&list->mutex);
}
