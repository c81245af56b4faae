/* Eviction: scans of directories, the choice of files, and their removal. */
#include "store/evict.h"
#include "base/alloc.h"
#include "base/probe.h"
#include "os/cpu.h"
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
typedef struct evict_pass {
    kiln__evict *evict;
    int directory, error;
    uint64_t start;
    int64_t now; /* seconds since 1970 */
} evict_pass;

uint64_t kiln__evict_cost(uint64_t length)
{
    return (length + BLOCK - 1) / BLOCK * BLOCK;
}

/* A stamp in the future, left by a wrong clock, does not tell the time of use. It counts as the oldest: as the youngest
 * it would keep the file for ever. */
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

void kiln__evict_stamp(int directory, const char *name, const struct stat *status)
{
    static const struct timespec now[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_NOW } };
    if (kiln__file_is_old(status, STAMP_MAX_AGE))
        kiln__sys_utimensat(directory, name, now, AT_SYMLINK_NOFOLLOW);
}

int kiln__evict_temporary(int directory, const char *prefix, const char *name)
{
    struct stat status;
    if (!kiln__file_is_unique(name, prefix) || kiln__sys_fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode) || status.st_uid != geteuid() || !kiln__file_is_old(&status, TEMPORARY_MAX_AGE))
        return 0;
    return kiln__sys_unlinkat(directory, name, 0) == 0 ? 1 : -errno;
}

static bool reserve_file(kiln__evict *evict)
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

/* Whether a name is that of a regular file, which is then described. */
static bool find_file(const evict_pass *pass, const char *name, kiln__evict_file *out)
{
    struct stat status;
    if (kiln__sys_fstatat(pass->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
        return false;
    *out = (kiln__evict_file){ .stamp = stamp_of(&status.st_mtim, pass->now),
                               .inode = status.st_ino,
                               .bytes = kiln__evict_cost((uint64_t)status.st_size) };
    return true;
}

static int scan_file(void *data, const char *name)
{
    evict_pass *pass = data;
    kiln__evict *evict = pass->evict;
    kiln__evict_file file;
    if (!evict->is_entry(name)) {
        kiln__evict_temporary(pass->directory, KILN__FILE_TEMPORARY, name);
        return 0;
    }
    if (!find_file(pass, name, &file))
        return 0;
    if (!reserve_file(evict)) {
        pass->error = -ENOMEM;
        return 1;
    }
    evict->bytes += file.bytes;
    if (evict->reads_heads && has_outdated_head(pass->directory, name)) {
        file.stamp = INT64_MIN;
        evict->outdated++;
    }
    evict->files[evict->count++] = file;
    return 0;
}

int kiln__evict_scan(kiln__evict *evict, int directory)
{
    evict_pass pass = { .evict = evict, .directory = directory, .now = time(NULL) };
    int error = kiln__file_list(directory, scan_file, &pass);
    return pass.error != 0 ? pass.error : error;
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

static int compare_age(const void *a, const void *b)
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
    qsort(evict->files, evict->count, sizeof *evict->files, compare_age);
    while (gone < evict->count && (left > bytes || evict->count - gone > files)) {
        evict->cutoff = evict->files[gone++];
        left -= evict->cutoff.bytes;
    }
    return gone > 0;
}

/* Heads are read again only after a scan that found an outdated one, and only of files that are too young to go. */
static bool must_go(const evict_pass *pass, const char *name, kiln__evict_file file)
{
    const kiln__evict *evict = pass->evict;
    if (compare_age(&file, &evict->cutoff) <= 0)
        return true;
    if (evict->outdated == 0 || !has_outdated_head(pass->directory, name))
        return false;
    file.stamp = INT64_MIN;
    return compare_age(&file, &evict->cutoff) <= 0;
}

static int apply_file(void *data, const char *name)
{
    evict_pass *pass = data;
    kiln__evict *evict = pass->evict;
    kiln__evict_file file;
    if (!evict->is_entry(name) || !find_file(pass, name, &file) || !must_go(pass, name, file))
        return 0;
    if (kiln__sys_unlinkat(pass->directory, name, 0) == 0) {
        evict->removed++;
        evict->removed_bytes += file.bytes;
        KILN__PROBE(evict, name, file.bytes);
    } else if (errno != ENOENT) {
        pass->error = -errno;
    }
    evict->stopped = evict->budget_ns > 0 && kiln__cpu_now_ns() - pass->start >= (uint64_t)evict->budget_ns;
    return evict->stopped;
}

int kiln__evict_apply(kiln__evict *evict, int directory)
{
    evict_pass pass = { .evict = evict, .directory = directory, .start = kiln__cpu_now_ns(), .now = time(NULL) };
    int error = kiln__file_list(directory, apply_file, &pass);
    return pass.error != 0 ? pass.error : error;
}

void kiln__evict_fini(kiln__evict *evict)
{
    kiln__free(evict->files);
    memset(evict, 0, sizeof *evict);
}
