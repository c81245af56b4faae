#include "compile/hostlock.h"

#include "os/cpu.h"
#include "os/syscalls.h"
#include "store/disk.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_POLL_NS = 1000000, LONGEST_POLL_NS = 5000000 };

void kiln__hostlock_init(kiln__hostlock *lock, kiln__store *disk, uint32_t wait_ms, const kiln__log *log)
{
    memset(lock, 0, sizeof(*lock));
    lock->disk = disk;
    lock->wait_ms = wait_ms;
    lock->log = log;
    pthread_mutex_init(&lock->lock, NULL);
}

void kiln__hostlock_fini(kiln__hostlock *lock)
{
    pthread_mutex_destroy(&lock->lock);
}

/* Opened anew for each compile: somebody may have removed the whole directory since. Under the mutex, so that a fork
 * either finds the descriptor in the list or does not inherit it. */
static int open_hold(kiln__hostlock *lock, kiln__hostlock_hold *hold)
{
    pthread_mutex_lock(&lock->lock);
    int fd = kiln__disk_store_open_lock(lock->disk);
    hold->fd = fd;
    if (fd >= 0) {
        hold->before = NULL;
        hold->next = lock->first;
        if (hold->next != NULL)
            hold->next->before = hold;
        lock->first = hold;
    }
    pthread_mutex_unlock(&lock->lock);
    return fd;
}

static void close_hold(kiln__hostlock *lock, kiln__hostlock_hold *hold)
{
    pthread_mutex_lock(&lock->lock);
    if (hold->fd >= 0) {
        kiln__sys_close(hold->fd);
        hold->fd = -1;
        if (hold->before != NULL)
            hold->before->next = hold->next;
        else
            lock->first = hold->next;
        if (hold->next != NULL)
            hold->next->before = hold->before;
    }
    pthread_mutex_unlock(&lock->lock);
}

static off_t offset_of(const uint8_t digest[KILN__DIGEST_SIZE])
{
    uint64_t offset = 0;
    for (int i = 0; i < 8; i++)
        offset = offset << 8 | digest[i];
    return (off_t)(offset >> 2);
}

/* 0, -EAGAIN while another holds it, -ENOENT if the file that was locked is gone from the store, or what went wrong. */
static int try_lock(int fd, off_t offset)
{
    struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1 };
    struct stat status;
    while (kiln__sys_fcntl(fd, F_OFD_SETLK, &range) != 0) {
        if (errno == EACCES)
            return -EAGAIN;
        if (errno != EINTR)
            return -errno;
    }
    if (kiln__sys_fstat(fd, &status) != 0)
        return -errno;
    return status.st_nlink == 0 ? -ENOENT : 0;
}

static void fail(kiln__hostlock *lock, int error)
{
    atomic_fetch_add(&lock->errors, 1);
    if (!atomic_exchange(&lock->warned, true))
        kiln__log_line(lock->log, KILN_LOG_WARN,
                       "store %s: no lock for compiles (%s); processes may compile the same kernel at the same time",
                       kiln__disk_store_root(lock->disk), strerrordesc_np(-error));
}

static void aside(const kiln__hostlock *lock, bool begin)
{
    if (lock->aside != NULL)
        lock->aside(lock->data, begin);
}

/* As try_lock, but -ETIMEDOUT instead of -EAGAIN. */
static int wait_for(const kiln__hostlock *lock, int fd, off_t offset)
{
    struct timespec pause = { 0, FIRST_POLL_NS };
    uint64_t deadline = kiln__cpu_now_ns() + (uint64_t)lock->wait_ms * 1000000;
    int error;
    while ((error = try_lock(fd, offset)) == -EAGAIN) {
        if (kiln__cpu_now_ns() >= deadline)
            return -ETIMEDOUT;
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < LONGEST_POLL_NS ? pause.tv_nsec * 2 : LONGEST_POLL_NS;
    }
    return error;
}

static int get(kiln__hostlock *lock, int fd, off_t offset)
{
    int error = try_lock(fd, offset);
    if (error != -EAGAIN)
        return error;
    atomic_fetch_add(&lock->waits, 1);
    aside(lock, true);
    error = wait_for(lock, fd, offset);
    aside(lock, false);
    return error;
}

bool kiln__hostlock_take(kiln__hostlock *lock, const uint8_t digest[KILN__DIGEST_SIZE], kiln__hostlock_hold *out)
{
    enum { ATTEMPTS = 5 };
    int error = -ENOENT;
    out->fd = -1;
    if (lock->disk == NULL)
        return false;
    for (int i = 0; i < ATTEMPTS && error == -ENOENT; i++) {
        error = open_hold(lock, out);
        if (error >= 0)
            error = get(lock, out->fd, offset_of(digest));
        if (error == 0)
            return true;
        close_hold(lock, out);
    }
    if (error == -ETIMEDOUT)
        atomic_fetch_add(&lock->timeouts, 1);
    else
        fail(lock, error);
    return false;
}

/* Unlocked in so many words: a child that was forked a moment ago, and has not closed its copy of the descriptor yet,
 * would otherwise keep the lock that much longer. */
void kiln__hostlock_give(kiln__hostlock *lock, kiln__hostlock_hold *hold)
{
    struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
    if (hold->fd >= 0)
        kiln__sys_fcntl(hold->fd, F_OFD_SETLK, &all);
    close_hold(lock, hold);
}

void kiln__hostlock_before_fork(kiln__hostlock *lock)
{
    pthread_mutex_lock(&lock->lock);
}

void kiln__hostlock_after_fork(kiln__hostlock *lock, bool child)
{
    for (kiln__hostlock_hold *hold = lock->first; child && hold != NULL; hold = hold->next) {
        kiln__sys_close(hold->fd);
        hold->fd = -1;
    }
    if (child)
        lock->first = NULL;
    pthread_mutex_unlock(&lock->lock);
}
