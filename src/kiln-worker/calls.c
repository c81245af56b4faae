/* The calls by which a path is opened, looked at or resolved, in the program's own place: the loader finds them
 * before those of the C library. They make the system call themselves, so that nothing has to be looked up, and so
 * it is the same under a sanitizer. The rows are what libnvrtc imports (nm -D --undefined-only) and what the same
 * code imports when built against another C library; the linker exports what calls.syms lists. Calls that change
 * files or start programs are left to the kernel's net: source text names no file for them. */
/* Either would give these names to other functions. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS

#include "base/text.h"
#include "kiln-worker/sandbox.h"

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

/* A file in memory. */
static bool is_readable(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_PATH) == 0;
}

/* Opens the file that a path was found to lead to, and not the path once more, which may lead elsewhere by now.
 * Devices and pipes could give any amount, or nothing and block. Without /proc a file in memory is read through the
 * descriptor that there is. */
static int reopen(int fd, int flags)
{
    struct stat status;
    errno = ENOENT;
    if (fstat(fd, &status) != 0 || (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return -1;
    int opened = (int)syscall(SYS_openat, AT_FDCWD, name_of(fd).text, flags & ~O_NOFOLLOW);
    if (opened < 0 && is_readable(fd) && lseek(fd, 0, SEEK_SET) == 0)
        opened = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return opened;
}

/* NVRTC takes a byte-order mark for text. */
static void skip_byte_order_mark(int fd)
{
    static const char mark[] = KILN__TEXT_BYTE_ORDER_MARK;
    char begin[sizeof(mark) - 1];
    if (pread(fd, begin, sizeof(begin), 0) == (ssize_t)sizeof(begin) && memcmp(begin, mark, sizeof(begin)) == 0)
        lseek(fd, sizeof(begin), SEEK_SET);
}

static int open_path(int dir, const char *path, int flags, mode_t mode)
{
    if (!kiln__sandbox_is_entered())
        return (int)syscall(SYS_openat, dir, path, flags, mode);
    if (!is_for_reading(flags))
        return kiln__sandbox_refuse(dir, path);
    int found = kiln__sandbox_reach(dir, path, flags & O_NOFOLLOW);
    if (found < 0)
        return -1;
    int fd = reopen(found, flags), error = errno;
    close(found);
    if (fd >= 0)
        skip_byte_order_mark(fd);
    if (fd < 0 && (error != ENOTDIR || (flags & O_DIRECTORY) == 0))
        kiln__sandbox_unknown(path, error);
    errno = error;
    return fd;
}

static mode_t take_mode(int flags, va_list arguments)
{
    bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    return has_mode ? va_arg(arguments, mode_t) : 0;
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
    kiln__sandbox_unknown(path, error);
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
    return kiln__sandbox_is_entered() && path[0] != '\0';
}

static int reach_to_look(int dir, const char *path, int flags)
{
    return kiln__sandbox_reach(dir, path, (flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0);
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

int access(const char *path, int mode)
{
    if (!kiln__sandbox_is_entered())
        return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
    int fd = kiln__sandbox_reach(AT_FDCWD, path, 0);
    if (fd < 0)
        return -1;
    int result = (int)syscall(SYS_faccessat, AT_FDCWD, name_of(fd).text, mode), error = errno;
    close(fd);
    if (result != 0 && error != EACCES && error != EROFS)
        kiln__sandbox_unknown(path, error);
    errno = error;
    return result;
}

/* ---- Resolving */

ssize_t readlink(const char *restrict path, char *restrict out, size_t size)
{
    if (!kiln__sandbox_is_entered())
        return syscall(SYS_readlinkat, AT_FDCWD, path, out, size);
    int fd = kiln__sandbox_reach(AT_FDCWD, path, O_NOFOLLOW);
    if (fd < 0)
        return -1;
    ssize_t length = syscall(SYS_readlinkat, fd, "", out, size);
    close(fd);
    return length;
}

/* The path of an open file; the caller frees it. */
static char *resolve_descriptor(int fd)
{
    char path[PATH_MAX];
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, name_of(fd).text, path, sizeof(path));
    return length > 0 && length < (ssize_t)sizeof(path) ? strndup(path, (size_t)length) : NULL;
}

char *realpath(const char *restrict path, char *restrict out)
{
    char *resolved = NULL;
    if (kiln__sandbox_is_entered()) {
        int fd = kiln__sandbox_reach(AT_FDCWD, path, 0);
        if (fd < 0)
            return NULL;
        resolved = resolve_descriptor(fd);
        if (resolved == NULL)
            kiln__sandbox_unknown(path, errno);
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

/* ---- The calls that differ in their names and parameters alone. Those with a version are what programs built
 * against a C library before 2.33 call for stat; on 64-bit systems there is one layout. */

#define OPEN_CALLS(X)                                           \
    X(open, (const char *path, int flags, ...), AT_FDCWD)       \
    X(open64, (const char *path, int flags, ...), AT_FDCWD)     \
    X(openat, (int dir, const char *path, int flags, ...), dir) \
    X(openat64, (int dir, const char *path, int flags, ...), dir)

#define PLAIN_CALLS(X)                                                                                                 \
    X(int, __open_2, (const char *path, int flags), open_path(AT_FDCWD, path, flags, 0))                               \
    X(int, __open64_2, (const char *path, int flags), open_path(AT_FDCWD, path, flags, 0))                             \
    X(int, __openat_2, (int dir, const char *path, int flags), open_path(dir, path, flags, 0))                         \
    X(int, __openat64_2, (int dir, const char *path, int flags), open_path(dir, path, flags, 0))                       \
    X(FILE *, fopen, (const char *path, const char *mode), open_stream(path, mode))                                    \
    X(FILE *, fopen64, (const char *path, const char *mode), open_stream(path, mode))                                  \
    X(int, stat, (const char *path, struct stat *out), look(AT_FDCWD, path, out, 0))                                   \
    X(int, stat64, (const char *path, struct stat64 *out), look(AT_FDCWD, path, out, 0))                               \
    X(int, lstat, (const char *path, struct stat *out), look(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW))                \
    X(int, lstat64, (const char *path, struct stat64 *out), look(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW))            \
    X(int, fstatat, (int dir, const char *path, struct stat *out, int flags), look(dir, path, out, flags))             \
    X(int, fstatat64, (int dir, const char *path, struct stat64 *out, int flags), look(dir, path, out, flags))         \
    X(int, __xstat, (VERSION, const char *path, struct stat *out), look(AT_FDCWD, path, out, 0))                       \
    X(int, __xstat64, (VERSION, const char *path, struct stat64 *out), look(AT_FDCWD, path, out, 0))                   \
    X(int, __lxstat, (VERSION, const char *path, struct stat *out), look(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW))    \
    X(int, __lxstat64, (VERSION, const char *path, struct stat64 *out),                                                \
      look(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW))                                                                  \
    X(int, __fxstatat, (VERSION, int dir, const char *path, struct stat *out, int flags), look(dir, path, out, flags)) \
    X(int, __fxstatat64, (VERSION, int dir, const char *path, struct stat64 *out, int flags),                          \
      look(dir, path, out, flags))
#define VERSION __attribute__((unused)) int version

#define DEFINE_OPEN(name, parameters, dir)         \
    int name parameters                            \
    {                                              \
        va_list arguments;                         \
        va_start(arguments, flags);                \
        mode_t mode = take_mode(flags, arguments); \
        va_end(arguments);                         \
        return open_path(dir, path, flags, mode);  \
    }
OPEN_CALLS(DEFINE_OPEN)

/* Declared first, because no header declares the old ones any more. */
#define DEFINE_PLAIN(type, name, parameters, made) \
    type name parameters;                          \
    type name parameters                           \
    {                                              \
        return made;                               \
    }
PLAIN_CALLS(DEFINE_PLAIN)

bool kiln__calls_are_in_place(char *reason, size_t size)
{
    static const struct {
        const char *name;
        uintptr_t address;
    } rows[] = {
#define ROW(name)                               { #name, (uintptr_t)(name) },
#define OPEN_ROW(name, parameters, dir)         ROW(name)
#define PLAIN_ROW(type, name, parameters, made) ROW(name)
        OPEN_CALLS(OPEN_ROW) PLAIN_CALLS(PLAIN_ROW) ROW(opendir) ROW(statx) ROW(access) ROW(readlink) ROW(realpath)
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if ((uintptr_t)dlsym(RTLD_DEFAULT, rows[i].name) != rows[i].address) {
            snprintf(reason, size, "this program does not export its own %s: link it with src/kiln-worker/calls.syms",
                     rows[i].name);
            return false;
        }
    return true;
}
