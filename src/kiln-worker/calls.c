/* The calls by which a path is opened, looked at or resolved, in the program's own place: the loader finds them
 * before those of the C library. They make the system call themselves, so that nothing has to be looked up, and so
 * it is the same under a sanitizer. The rows are what libnvrtc imports (nm -D --undefined-only) and what the same
 * code imports when built against another C library; the linker exports what calls.syms lists. Calls that change
 * files or start programs are left to the kernel's net: source text names no file for them. */
/* Either would give these names to other functions. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS

#include "kiln-worker/sandbox_parts.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* No header declares these any more. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
int __xstat(int version, const char *path, struct stat *status);
int __lxstat(int version, const char *path, struct stat *status);
int __fxstatat(int version, int dir, const char *path, struct stat *status, int flags);
int __xstat64(int version, const char *path, struct stat64 *status);
int __lxstat64(int version, const char *path, struct stat64 *status);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *status, int flags);

#define CALLS(X)    \
    X(open)         \
    X(open64)       \
    X(openat)       \
    X(openat64)     \
    X(__open_2)     \
    X(__open64_2)   \
    X(__openat_2)   \
    X(__openat64_2) \
    X(fopen)        \
    X(fopen64)      \
    X(opendir)      \
    X(stat)         \
    X(lstat)        \
    X(fstatat)      \
    X(stat64)       \
    X(lstat64)      \
    X(fstatat64)    \
    X(statx)        \
    X(__xstat)      \
    X(__lxstat)     \
    X(__fxstatat)   \
    X(__xstat64)    \
    X(__lxstat64)   \
    X(__fxstatat64) \
    X(access)       \
    X(readlink)     \
    X(realpath)

bool kiln__calls_are_in_place(char *reason, size_t size)
{
    static const struct {
        const char *name;
        uintptr_t address;
    } rows[] = {
#define ROW(name) { #name, (uintptr_t)(name) },
        CALLS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if ((uintptr_t)dlsym(RTLD_DEFAULT, rows[i].name) != rows[i].address) {
            snprintf(reason, size, "this program does not export its own %s: link it with src/kiln-worker/calls.syms",
                     rows[i].name);
            return false;
        }
    return true;
}

/* ---- Opening */

typedef struct descriptor_name {
    char text[32];
} descriptor_name;

static descriptor_name name_of(int fd)
{
    descriptor_name name;
    snprintf(name.text, sizeof(name.text), "/proc/self/fd/%d", fd);
    return name;
}

static bool is_for_reading(int flags)
{
    return (flags & O_ACCMODE) == O_RDONLY && (flags & (O_CREAT | O_TRUNC)) == 0;
}

/* Opens what a path was found to lead to, and not the path once more, which may lead elsewhere by now. Devices and
 * pipes could give any amount, or nothing and block. */
static int reopen(int fd, int flags)
{
    struct stat status;
    if (fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
        return (int)syscall(SYS_openat, AT_FDCWD, name_of(fd).text, flags & ~O_NOFOLLOW);
    errno = ENOENT;
    return -1;
}

static int open_path(int dir, const char *path, int flags, mode_t mode)
{
    if (!kiln__judge_has_started())
        return (int)syscall(SYS_openat, dir, path, flags, mode);
    if (!is_for_reading(flags))
        return kiln__judge_refuse(dir, path);
    int found = kiln__judge_reach(dir, path, flags & O_NOFOLLOW);
    if (found < 0)
        return -1;
    int fd = reopen(found, flags), error = errno;
    close(found);
    if (fd < 0 && (error != ENOTDIR || (flags & O_DIRECTORY) == 0))
        kiln__judge_unknown(path, error);
    errno = error;
    return fd;
}

static mode_t take_mode(int flags, va_list arguments)
{
    bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return has_mode ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = take_mode(flags, arguments);
    va_end(arguments);
    return open_path(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = take_mode(flags, arguments);
    va_end(arguments);
    return open_path(AT_FDCWD, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = take_mode(flags, arguments);
    va_end(arguments);
    return open_path(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = take_mode(flags, arguments);
    va_end(arguments);
    return open_path(dir, path, flags, mode);
}

int __open_2(const char *path, int flags)
{
    return open_path(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
    return open_path(AT_FDCWD, path, flags, 0);
}

int __openat_2(int dir, const char *path, int flags)
{
    return open_path(dir, path, flags, 0);
}

int __openat64_2(int dir, const char *path, int flags)
{
    return open_path(dir, path, flags, 0);
}

/* -1 if it is no mode of fopen. */
static int flags_of(const char *mode)
{
    int flags = mode[0] == 'r'   ? O_RDONLY
                : mode[0] == 'w' ? O_WRONLY | O_CREAT | O_TRUNC
                : mode[0] == 'a' ? O_WRONLY | O_CREAT | O_APPEND
                                 : -1;
    for (const char *at = mode; flags >= 0 && *at != '\0' && *at != ','; at++) {
        if (*at == '+')
            flags = (flags & ~O_ACCMODE) | O_RDWR;
        else if (*at == 'x')
            flags |= O_EXCL;
        else if (*at == 'e')
            flags |= O_CLOEXEC;
    }
    return flags;
}

/* Closes a file that is open but cannot be read as a stream, for want of memory. */
static void abandon(int fd, const char *path)
{
    int error = errno;
    close(fd);
    kiln__judge_unknown(path, error);
    errno = error;
}

static FILE *open_stream(const char *path, const char *mode)
{
    int flags = flags_of(mode);
    if (flags < 0) {
        errno = EINVAL;
        return NULL;
    }
    int fd = open_path(AT_FDCWD, path, flags, 0666);
    FILE *stream = fd >= 0 ? fdopen(fd, mode) : NULL;
    if (fd >= 0 && stream == NULL)
        abandon(fd, path);
    return stream;
}

FILE *fopen(const char *path, const char *mode)
{
    return open_stream(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return open_stream(path, mode);
}

DIR *opendir(const char *path)
{
    int fd = open_path(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC, 0);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && stream == NULL)
        abandon(fd, path);
    return stream;
}

/* ---- Looking: an empty path means a descriptor, which was judged when it was opened */

static bool is_judged(const char *path)
{
    return kiln__judge_has_started() && path[0] != '\0';
}

static int reach_to_look(int dir, const char *path, int flags)
{
    return kiln__judge_reach(dir, path, (flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0);
}

static int look(int dir, const char *path, void *status, int flags)
{
    _Static_assert(sizeof(struct stat) == sizeof(struct stat64), "struct stat is not what the system call fills");
    if (!is_judged(path))
        return (int)syscall(SYS_newfstatat, dir, path, status, flags);
    int fd = reach_to_look(dir, path, flags);
    if (fd < 0)
        return -1;
    int result = (int)syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
    close(fd);
    return result;
}

int stat(const char *path, struct stat *status)
{
    return look(AT_FDCWD, path, status, 0);
}

int lstat(const char *path, struct stat *status)
{
    return look(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int fstatat(int dir, const char *path, struct stat *status, int flags)
{
    return look(dir, path, status, flags);
}

int stat64(const char *path, struct stat64 *status)
{
    return look(AT_FDCWD, path, status, 0);
}

int lstat64(const char *path, struct stat64 *status)
{
    return look(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int fstatat64(int dir, const char *path, struct stat64 *status, int flags)
{
    return look(dir, path, status, flags);
}

int statx(int dir, const char *path, int flags, unsigned mask, struct statx *status)
{
    if (!is_judged(path))
        return (int)syscall(SYS_statx, dir, path, flags, mask, status);
    int fd = reach_to_look(dir, path, flags);
    if (fd < 0)
        return -1;
    int result = (int)syscall(SYS_statx, fd, "", AT_EMPTY_PATH, mask, status);
    close(fd);
    return result;
}

/* What programs built against a C library before 2.33 call for stat. On 64-bit systems there is one layout. */
int __xstat(int version, const char *path, struct stat *status)
{
    (void)version;
    return look(AT_FDCWD, path, status, 0);
}

int __lxstat(int version, const char *path, struct stat *status)
{
    (void)version;
    return look(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int __fxstatat(int version, int dir, const char *path, struct stat *status, int flags)
{
    (void)version;
    return look(dir, path, status, flags);
}

int __xstat64(int version, const char *path, struct stat64 *status)
{
    (void)version;
    return look(AT_FDCWD, path, status, 0);
}

int __lxstat64(int version, const char *path, struct stat64 *status)
{
    (void)version;
    return look(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int __fxstatat64(int version, int dir, const char *path, struct stat64 *status, int flags)
{
    (void)version;
    return look(dir, path, status, flags);
}

int access(const char *path, int mode)
{
    if (!kiln__judge_has_started())
        return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
    int fd = kiln__judge_reach(AT_FDCWD, path, 0);
    if (fd < 0)
        return -1;
    int result = (int)syscall(SYS_faccessat, AT_FDCWD, name_of(fd).text, mode), error = errno;
    close(fd);
    if (result != 0 && error != EACCES && error != EROFS)
        kiln__judge_unknown(path, error);
    errno = error;
    return result;
}

/* ---- Resolving */

ssize_t readlink(const char *restrict path, char *restrict out, size_t size)
{
    if (!kiln__judge_has_started())
        return syscall(SYS_readlinkat, AT_FDCWD, path, out, size);
    int fd = kiln__judge_reach(AT_FDCWD, path, O_NOFOLLOW);
    if (fd < 0)
        return -1;
    ssize_t length = syscall(SYS_readlinkat, fd, "", out, size);
    close(fd);
    return length;
}

/* The path of what is open; the caller frees it. */
static char *resolve_descriptor(int fd)
{
    char path[PATH_MAX];
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, name_of(fd).text, path, sizeof(path));
    return length > 0 && length < (ssize_t)sizeof(path) ? strndup(path, (size_t)length) : NULL;
}

char *realpath(const char *restrict path, char *restrict out)
{
    char *resolved = NULL;
    if (kiln__judge_has_started()) {
        int fd = kiln__judge_reach(AT_FDCWD, path, 0);
        if (fd < 0)
            return NULL;
        resolved = resolve_descriptor(fd);
        if (resolved == NULL)
            kiln__judge_unknown(path, errno);
        close(fd);
    } else {
        resolved = canonicalize_file_name(path);
    }
    if (resolved == NULL || out == NULL)
        return resolved;
    snprintf(out, PATH_MAX, "%s", resolved);
    free(resolved);
    return out;
}
