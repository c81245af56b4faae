/* The file calls of the files that include this: each is the system's function of that name and nothing else. Where
 * KILN_FAULTS is defined, which only tests/fault does, each first asks a hook that may refuse it, shorten it or end
 * the process. */
#ifndef KILN_OS_SYSCALLS_H
#define KILN_OS_SYSCALLS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define KILN__SYS_CALLS(X) \
    X(openat)              \
    X(read)                \
    X(pread)               \
    X(write)               \
    X(close)               \
    X(fstat)               \
    X(fstatat)             \
    X(fchmod)              \
    X(fchmodat)            \
    X(utimensat)           \
    X(mkdirat)             \
    X(mkdtemp)             \
    X(rmdir)               \
    X(linkat)              \
    X(unlinkat)            \
    X(renameat)            \
    X(renameat2)           \
    X(fdopendir)           \
    X(readdir)             \
    X(closedir)            \
    X(dup3)                \
    X(lseek)               \
    X(fdatasync)           \
    X(fcntl)

#ifdef KILN_FAULTS

typedef enum kiln__sys_call {
#define KILN__SYS_ENUM(name) KILN__SYS_##name,
    KILN__SYS_CALLS(KILN__SYS_ENUM)
#undef KILN__SYS_ENUM
} kiln__sys_call;

/* Before a call on a descriptor (-1 for a stream or a plain path) and a name ("" if it has none). 0: make it; else
 * the errno it fails with, unmade, except that what is to be closed is closed. *length (NULL but for read, pread and
 * write) may be made smaller. Any thread. */
int kiln__sys_before(kiln__sys_call call, int fd, const char *name, size_t *length);
/* After a call that was made; leaves errno alone. */
void kiln__sys_after(kiln__sys_call call);

#define KILN__SYS(call, fd, name, length, type, failed, made)                      \
    do {                                                                           \
        int refused_ = kiln__sys_before(KILN__SYS_##call, (fd), (name), (length)); \
        if (refused_ != 0) {                                                       \
            errno = refused_;                                                      \
            return failed;                                                         \
        }                                                                          \
        type result_ = (made);                                                     \
        kiln__sys_after(KILN__SYS_##call);                                         \
        return result_;                                                            \
    } while (0)

#define KILN__SYS_CLOSE(call, fd, made)                                    \
    do {                                                                   \
        int refused_ = kiln__sys_before(KILN__SYS_##call, (fd), "", NULL); \
        int result_ = (made);                                              \
        kiln__sys_after(KILN__SYS_##call);                                 \
        if (refused_ != 0)                                                 \
            errno = refused_;                                              \
        return refused_ != 0 ? -1 : result_;                               \
    } while (0)

#else
#define KILN__SYS(call, fd, name, length, type, failed, made) return made
#define KILN__SYS_CLOSE(call, fd, made)                       return made
#endif

static inline int kiln__sys_openat(int dir, const char *name, int flags, mode_t mode)
{
    KILN__SYS(openat, dir, (flags & O_TMPFILE) == O_TMPFILE ? "" : name, NULL, int, -1, openat(dir, name, flags, mode));
}

static inline ssize_t kiln__sys_read(int fd, void *bytes, size_t length)
{
    KILN__SYS(read, fd, "", &length, ssize_t, -1, read(fd, bytes, length));
}

static inline ssize_t kiln__sys_pread(int fd, void *bytes, size_t length, off_t offset)
{
    KILN__SYS(pread, fd, "", &length, ssize_t, -1, pread(fd, bytes, length, offset));
}

static inline ssize_t kiln__sys_write(int fd, const void *bytes, size_t length)
{
    KILN__SYS(write, fd, "", &length, ssize_t, -1, write(fd, bytes, length));
}

static inline int kiln__sys_close(int fd)
{
    KILN__SYS_CLOSE(close, fd, close(fd));
}

static inline int kiln__sys_fstat(int fd, struct stat *status)
{
    KILN__SYS(fstat, fd, "", NULL, int, -1, fstat(fd, status));
}

static inline int kiln__sys_fstatat(int dir, const char *name, struct stat *status, int flags)
{
    KILN__SYS(fstatat, dir, name, NULL, int, -1, fstatat(dir, name, status, flags));
}

static inline int kiln__sys_fchmod(int fd, mode_t mode)
{
    KILN__SYS(fchmod, fd, "", NULL, int, -1, fchmod(fd, mode));
}

static inline int kiln__sys_fchmodat(int dir, const char *name, mode_t mode)
{
    KILN__SYS(fchmodat, dir, name, NULL, int, -1, fchmodat(dir, name, mode, 0));
}

static inline int kiln__sys_utimensat(int dir, const char *name, const struct timespec times[2], int flags)
{
    KILN__SYS(utimensat, dir, name, NULL, int, -1, utimensat(dir, name, times, flags));
}

static inline int kiln__sys_mkdirat(int dir, const char *name, mode_t mode)
{
    KILN__SYS(mkdirat, dir, name, NULL, int, -1, mkdirat(dir, name, mode));
}

static inline char *kiln__sys_mkdtemp(char *path)
{
    KILN__SYS(mkdtemp, -1, path, NULL, char *, NULL, mkdtemp(path));
}

static inline int kiln__sys_rmdir(const char *path)
{
    KILN__SYS(rmdir, -1, path, NULL, int, -1, rmdir(path));
}

static inline int kiln__sys_linkat(int from, const char *old_name, int to, const char *new_name, int flags)
{
    KILN__SYS(linkat, to, new_name, NULL, int, -1, linkat(from, old_name, to, new_name, flags));
}

static inline int kiln__sys_unlinkat(int dir, const char *name, int flags)
{
    KILN__SYS(unlinkat, dir, name, NULL, int, -1, unlinkat(dir, name, flags));
}

static inline int kiln__sys_renameat(int from, const char *old_name, int to, const char *new_name)
{
    KILN__SYS(renameat, to, new_name, NULL, int, -1, renameat(from, old_name, to, new_name));
}

static inline int kiln__sys_renameat2(int from, const char *old_name, int to, const char *new_name, unsigned flags)
{
    KILN__SYS(renameat2, to, new_name, NULL, int, -1, renameat2(from, old_name, to, new_name, flags));
}

static inline DIR *kiln__sys_fdopendir(int fd)
{
    KILN__SYS(fdopendir, fd, "", NULL, DIR *, NULL, fdopendir(fd));
}

static inline struct dirent *kiln__sys_readdir(DIR *stream)
{
    KILN__SYS(readdir, dirfd(stream), "", NULL, struct dirent *, NULL, readdir(stream));
}

static inline int kiln__sys_closedir(DIR *stream)
{
    KILN__SYS_CLOSE(closedir, dirfd(stream), closedir(stream));
}

static inline int kiln__sys_dup3(int fd, int to, int flags)
{
    KILN__SYS(dup3, fd, "", NULL, int, -1, dup3(fd, to, flags));
}

static inline off_t kiln__sys_lseek(int fd, off_t offset, int from)
{
    KILN__SYS(lseek, fd, "", NULL, off_t, -1, lseek(fd, offset, from));
}

static inline int kiln__sys_fdatasync(int fd)
{
    KILN__SYS(fdatasync, fd, "", NULL, int, -1, fdatasync(fd));
}

/* Of fcntl's many forms the one that locks. */
static inline int kiln__sys_fcntl(int fd, int command, struct flock *range)
{
    KILN__SYS(fcntl, fd, "", NULL, int, -1, fcntl(fd, command, range));
}

#endif
