#include "compile/hostlock.h"

#include "store/disk.h"
#include <errno.h>
#include <string.h>

void kiln__hostlock_init(kiln__hostlock *lock, kiln__store *disk, uint32_t wait_ms, const kiln__log *log)
{
    memset(lock, 0, sizeof(*lock));
    lock->disk = disk;
    lock->wait_ms = wait_ms;
    lock->log = log;
    kiln__lock_list_init(&lock->open);
}

void kiln__hostlock_fini(kiln__hostlock *lock)
{
    kiln__lock_list_fini(&lock->open);
}

/* Opened anew for each compile: somebody may have removed the whole directory since. */
static int open_file(void *data)
{
    return kiln__disk_store_open_lock(data);
}

static uint64_t offset_of(const uint8_t digest[KILN__DIGEST_SIZE])
{
    uint64_t offset = 0;
    for (int i = 0; i < 8; i++)
        offset = offset << 8 | digest[i];
    return offset >> 2;
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

static int get(kiln__hostlock *lock, const kiln__hostlock_hold *hold, uint64_t offset)
{
    int error = kiln__lock_try(hold, offset);
    if (error != -EAGAIN)
        return error;
    atomic_fetch_add(&lock->waits, 1);
    aside(lock, true);
    error = kiln__lock_wait(hold, offset, lock->wait_ms);
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
        error = kiln__lock_open(&lock->open, out, open_file, lock->disk);
        if (error >= 0)
            error = get(lock, out, offset_of(digest));
        if (error == 0)
            return true;
        kiln__lock_close(&lock->open, out);
    }
    if (error == -ETIMEDOUT)
        atomic_fetch_add(&lock->timeouts, 1);
    else
        fail(lock, error);
    return false;
}

void kiln__hostlock_give(kiln__hostlock *lock, kiln__hostlock_hold *hold)
{
    kiln__lock_close(&lock->open, hold);
}

void kiln__hostlock_before_fork(kiln__hostlock *lock)
{
    kiln__lock_before_fork(&lock->open);
}

void kiln__hostlock_after_fork(kiln__hostlock *lock, bool child)
{
    kiln__lock_after_fork(&lock->open, child);
}
