#include "os/lock.h"

#include "os/cpu.h"
#include "os/fork.h"
#include "os/syscalls.h"
#include <errno.h>
#include <string.h>
#include <time.h>

enum { FIRST_POLL_NS = 1000000, LONGEST_POLL_NS = 5000000, LONGEST_COUNTED_NS = 100000000 };

/* A child that is forked between the opening of the file and this keeps the file open. It does harm only if its
 * parent is then killed while it holds the lock: others wait for it as long as they would for any holder. */
int kiln__lock_open(kiln__lock *out, int fd)
{
    out->fd = -1;
    if (fd < 0)
        return fd;
    if (!kiln__fork_list_fd(fd)) {
        kiln__sys_close(fd);
        return -EMFILE;
    }
    out->fd = fd;
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
void kiln__lock_close(kiln__lock *lock)
{
    struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
    if (lock->fd < 0)
        return;
    kiln__sys_fcntl(lock->fd, F_OFD_SETLK, &all);
    kiln__fork_delist_fd(lock->fd);
    kiln__sys_close(lock->fd);
    lock->fd = -1;
}
