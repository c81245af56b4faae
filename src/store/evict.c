#include "store/evict.h"
#include "base/alloc.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "store/entry.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BLOCK = 4096,
    TEMPORARY_MAX_AGE = 3600, /* seconds */
    STAMP_MAX_AGE = 3600      /* seconds; stamping every hit would make every read a write */
};

/* One pass over a directory. */
typedef struct pass {
    kiln__evict *evict;
    int directory, error;
    int64_t start;
    int64_t now; /* seconds since 1970 */
} pass;

uint64_t kiln__evict_cost(uint64_t length)
{
    return (length + BLOCK - 1) / BLOCK * BLOCK;
}

/* A stamp from the future, left by a clock that was wrong, says nothing of when the file was used: it counts as the
 * oldest, for as the youngest it would keep the file for ever. */
static int64_t stamp_of(const struct timespec *time, int64_t now)
{
    const int64_t second = 1000000000, limit = INT64_MAX / second - 1;
    if (time->tv_sec < -limit || time->tv_sec > limit || time->tv_sec - STAMP_MAX_AGE > now)
        return INT64_MIN;
    return time->tv_sec * second + time->tv_nsec;
}

/* A file that cannot be read counts as a current one. */
static bool has_outdated_head(int directory, const char *name)
{
    uint8_t head[KILN__ENTRY_HEAD];
    int fd = kiln__file_open(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return false;
    ssize_t length = kiln__sys_pread(fd, head, sizeof head, 0);
    kiln__sys_close(fd);
    return length > 0 && kiln__entry_is_outdated(head, (size_t)length);
}

static kiln__evict_file file_of(const struct stat *status, int64_t now)
{
    return (kiln__evict_file){ .stamp = stamp_of(&status->st_mtim, now),
                               .inode = status->st_ino,
                               .bytes = kiln__evict_cost((uint64_t)status->st_size) };
}

void kiln__evict_stamp(int directory, const char *name, const struct stat *status)
{
    static const struct timespec now[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };
    if (kiln__file_is_old(status, STAMP_MAX_AGE))
        kiln__sys_utimensat(directory, name, now, AT_SYMLINK_NOFOLLOW);
}

bool kiln__evict_is_temporary(const char *name)
{
    return kiln__file_is_unique(name, KILN__FILE_TEMPORARY);
}

int kiln__evict_temporary(int directory, const char *prefix, const char *name)
{
    struct stat status;
    if (!kiln__file_is_unique(name, prefix) || kiln__sys_fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode) || status.st_uid != geteuid() || !kiln__file_is_old(&status, TEMPORARY_MAX_AGE))
        return 0;
    return kiln__sys_unlinkat(directory, name, 0) == 0 ? 1 : -errno;
}

static bool reserve(kiln__evict *evict)
{
    if (evict->count < evict->room)
        return true;
    size_t room = evict->room > 0 ? 2 * evict->room : 256;
    kiln__evict_file *files = kiln__realloc(evict->files, room * sizeof *files);
    if (!files)
        return false;
    evict->files = files;
    evict->room = room;
    return true;
}

static int scan_file(void *data, const char *name)
{
    pass *self = data;
    kiln__evict *evict = self->evict;
    struct stat status;
    if (!evict->is_entry(name)) {
        evict->temporaries += kiln__evict_temporary(self->directory, KILN__FILE_TEMPORARY, name) > 0;
        return 0;
    }
    if (kiln__sys_fstatat(self->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
        return 0;
    if (!reserve(evict)) {
        self->error = -ENOMEM;
        return 1;
    }
    kiln__evict_file *file = &evict->files[evict->count++];
    *file = file_of(&status, self->now);
    evict->bytes += file->bytes;
    if (evict->reads_heads && has_outdated_head(self->directory, name)) {
        file->stamp = INT64_MIN;
        evict->outdated++;
    }
    return 0;
}

int kiln__evict_scan(kiln__evict *evict, int directory)
{
    pass self = { .evict = evict, .directory = directory, .now = time(NULL) };
    int error = kiln__file_list(directory, scan_file, &self);
    return self.error != 0 ? self.error : error;
}

void kiln__evict_rescan(kiln__evict *evict)
{
    evict->reads_heads = true;
    evict->count = 0;
    evict->bytes = evict->outdated = 0;
}

bool kiln__evict_is_over(const kiln__evict *evict, uint64_t bytes, uint64_t files)
{
    return evict->bytes > bytes || evict->count > files;
}

static int by_age(const void *a, const void *b)
{
    const kiln__evict_file *x = a, *y = b;
    if (x->stamp != y->stamp)
        return x->stamp > y->stamp ? 1 : -1;
    return (x->inode > y->inode) - (x->inode < y->inode);
}

bool kiln__evict_plan(kiln__evict *evict, uint64_t bytes, uint64_t files)
{
    uint64_t left = evict->bytes;
    size_t gone = 0;
    if (!kiln__evict_is_over(evict, bytes, files))
        return false;
    qsort(evict->files, evict->count, sizeof *evict->files, by_age);
    while (gone < evict->count && (left > bytes || evict->count - gone > files)) {
        evict->cutoff = evict->files[gone++];
        left -= evict->cutoff.bytes;
    }
    return gone > 0;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Heads are read again only where the scan has found an outdated one, and only of files that would stay by their
 * age. */
static bool is_to_go(const pass *self, const char *name, kiln__evict_file file)
{
    const kiln__evict *evict = self->evict;
    if (by_age(&file, &evict->cutoff) <= 0)
        return true;
    if (evict->outdated == 0 || !has_outdated_head(self->directory, name))
        return false;
    file.stamp = INT64_MIN;
    return by_age(&file, &evict->cutoff) <= 0;
}

static int apply_file(void *data, const char *name)
{
    pass *self = data;
    kiln__evict *evict = self->evict;
    struct stat status;
    if (!evict->is_entry(name) || kiln__sys_fstatat(self->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode))
        return 0;
    kiln__evict_file file = file_of(&status, self->now);
    if (!is_to_go(self, name, file))
        return 0;
    if (kiln__sys_unlinkat(self->directory, name, 0) == 0) {
        evict->removed++;
        evict->removed_bytes += file.bytes;
    } else if (errno != ENOENT) {
        self->error = -errno;
    }
    evict->stopped = evict->budget_ns > 0 && now_ns() - self->start >= evict->budget_ns;
    return evict->stopped;
}

int kiln__evict_apply(kiln__evict *evict, int directory)
{
    pass self = { .evict = evict, .directory = directory, .start = now_ns(), .now = time(NULL) };
    int error = kiln__file_list(directory, apply_file, &self);
    return self.error != 0 ? self.error : error;
}

void kiln__evict_fini(kiln__evict *evict)
{
    kiln__free(evict->files);
    memset(evict, 0, sizeof *evict);
}
