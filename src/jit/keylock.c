/* The key lock. */
#include "jit/builder.h"

#include "store/disk.h"
#include <errno.h>
#include <string.h>

void kiln__keylock_init(kiln__keylock *lock, kiln__store *disk, uint32_t wait_ms, const kiln__log *log)
{
    memset(lock, 0, sizeof(*lock));
    lock->disk = disk;
    lock->wait_ms = wait_ms;
    lock->log = log;
}

static uint64_t offset_of(const uint8_t digest[KILN__DIGEST_SIZE])
{
    uint64_t offset = 0;
    for (int i = 0; i < 8; i++)
        offset = offset << 8 | digest[i];
    return offset >> 2;
}

static void fail(kiln__keylock *lock, int error)
{
    atomic_fetch_add(&lock->errors, 1);
    if (!atomic_exchange(&lock->warned, true))
        kiln__log_line(lock->log, KILN_LOG_WARN,
                       "store %s: no lock for compiles (%s); processes may compile the same kernel at the same time",
                       kiln__disk_store_root(lock->disk), strerrordesc_np(-error));
}

/* A wait is counted, and steps aside, unless it is quiet. 0 or -errno. */
static int wait_for(kiln__keylock *lock, const kiln__keylock_hold *hold, uint64_t offset, uint32_t wait_ms, bool quiet)
{
    int error = kiln__lock_try(hold, offset);
    bool steps_aside = !quiet && lock->aside != NULL;
    if (error != -EAGAIN)
        return error;
    if (!quiet)
        atomic_fetch_add(&lock->waits, 1);
    if (steps_aside)
        lock->aside(lock->data, true);
    error = kiln__lock_wait(hold, offset, wait_ms);
    if (steps_aside)
        lock->aside(lock->data, false);
    return error;
}

/* The file is opened anew for each compile: another process may have removed the whole directory since. */
static int take_lock(kiln__keylock *lock, const uint8_t digest[KILN__DIGEST_SIZE], uint32_t wait_ms, bool quiet,
                     kiln__keylock_hold *out)
{
    enum { ATTEMPTS = 5 };
    int error = -ENOENT;
    for (int i = 0; i < ATTEMPTS && error == -ENOENT; i++) {
        error = kiln__lock_open(out, kiln__disk_store_open_lock(lock->disk));
        if (error >= 0)
            error = wait_for(lock, out, offset_of(digest), wait_ms, quiet);
        if (error != 0)
            kiln__lock_close(out);
    }
    return error;
}

bool kiln__keylock_take(kiln__keylock *lock, const uint8_t digest[KILN__DIGEST_SIZE], kiln__keylock_hold *out)
{
    out->fd = -1;
    if (lock->disk == NULL)
        return false;
    int error = take_lock(lock, digest, lock->wait_ms, false, out);
    if (error == -ETIMEDOUT)
        atomic_fetch_add(&lock->timeouts, 1);
    else if (error != 0)
        fail(lock, error);
    return error == 0;
}

bool kiln__keylock_take_quietly(kiln__keylock *lock, const uint8_t digest[KILN__DIGEST_SIZE], uint32_t wait_ms,
                                kiln__keylock_hold *out)
{
    out->fd = -1;
    return lock->disk != NULL && take_lock(lock, digest, wait_ms, true, out) == 0;
}
