/* Byte-range locks with a bounded wait. */
#include "os/lock.h"

#include "os/cpu.h"
#include "os/fork.h"
#include "os/syscalls.h"
#include <errno.h>
#include <string.h>
#include <time.h>

enum { FIRST_POLL_NS = 1000000, LONGEST_POLL_NS = 5000000, LONGEST_COUNTED_NS = 100000000 };

/* A child that is forked between the opening of the file and this call keeps the file open. That does harm only if its
 * parent is then killed while it holds the lock: other processes wait as long as for any holder. */
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

/* `length` 0: from the offset to the end. */
static int set_lock(const kiln__lock *lock, short type, uint64_t offset, off_t length)
{
    struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = length };
    return kiln__sys_fcntl(lock->fd, F_OFD_SETLK, &range) != 0 ? -errno : 0;
}

int kiln__lock_try(const kiln__lock *lock, uint64_t offset)
{
    struct stat status;
    int error;
    do
        error = set_lock(lock, F_WRLCK, offset, 1);
    while (error == -EINTR);
    if (error != 0)
        return error == -EACCES ? -EAGAIN : error;
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
        /* In a longer gap this process was stopped, or the whole machine and with it the holder of the lock. */
        uint64_t now = kiln__cpu_now_ns(), gap = now - seen;
        gap = gap < LONGEST_COUNTED_NS ? gap : LONGEST_COUNTED_NS;
        left -= gap < left ? gap : left;
        seen = now;
    }
    return error;
}

void kiln__lock_give(const kiln__lock *lock, uint64_t offset)
{
    set_lock(lock, F_UNLCK, offset, 1);
}

/* Unlocks explicitly: a child that was forked a moment ago, and has not yet closed its copy of the descriptor, would
 * else keep the lock for that time. */
void kiln__lock_close(kiln__lock *lock)
{
    if (lock->fd < 0)
        return;
    set_lock(lock, F_UNLCK, 0, 0);
    kiln__fork_delist_fd(lock->fd);
    kiln__sys_close(lock->fd);
    lock->fd = -1;
}
