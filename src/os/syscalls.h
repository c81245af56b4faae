/* The file calls of the files that include this. kiln__sys_NAME is the system's function NAME. With KILN_FAULTS, which
 * only tests/fault defines, each first asks a hook that may refuse it, shorten it or end the process. */
#ifndef KILN_OS_SYSCALLS_H
#define KILN_OS_SYSCALLS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A row: the function, its result's type and that of a failure, its parameters, the arguments that are passed on, and
 * the descriptor (-1 for a stream or a plain path), name ("" for none) and address of a length (or NULL) that the hook
 * is told. Of fcntl's many forms it is the one that locks. */
#define KILN__SYS_CALLS(X)                                                                                             \
    X(openat, int, -1, (int dir, const char *name, int flags, mode_t mode), (dir, name, flags, mode), dir,             \
      (flags & O_TMPFILE) == O_TMPFILE ? "" : name, NULL)                                                              \
    X(pread, ssize_t, -1, (int fd, void *bytes, size_t length, off_t offset), (fd, bytes, length, offset), fd, "",     \
      &length)                                                                                                         \
    X(write, ssize_t, -1, (int fd, const void *bytes, size_t length), (fd, bytes, length), fd, "", &length)            \
    X(fstat, int, -1, (int fd, struct stat *status), (fd, status), fd, "", NULL)                                       \
    X(fstatat, int, -1, (int dir, const char *name, struct stat *status, int flags), (dir, name, status, flags), dir,  \
      name, NULL)                                                                                                      \
    X(fchmod, int, -1, (int fd, mode_t mode), (fd, mode), fd, "", NULL)                                                \
    X(fchmodat, int, -1, (int dir, const char *name, mode_t mode, int flags), (dir, name, mode, flags), dir, name,     \
      NULL)                                                                                                            \
    X(utimensat, int, -1, (int dir, const char *name, const struct timespec times[2], int flags),                      \
      (dir, name, times, flags), dir, name, NULL)                                                                      \
    X(mkdirat, int, -1, (int dir, const char *name, mode_t mode), (dir, name, mode), dir, name, NULL)                  \
    X(mkdtemp, char *, NULL, (char *path), (path), -1, path, NULL)                                                     \
    X(rmdir, int, -1, (const char *path), (path), -1, path, NULL)                                                      \
    X(linkat, int, -1, (int from, const char *source, int to, const char *name, int flags),                            \
      (from, source, to, name, flags), to, name, NULL)                                                                 \
    X(unlinkat, int, -1, (int dir, const char *name, int flags), (dir, name, flags), dir, name, NULL)                  \
    X(renameat, int, -1, (int from, const char *source, int to, const char *name), (from, source, to, name), to, name, \
      NULL)                                                                                                            \
    X(renameat2, int, -1, (int from, const char *source, int to, const char *name, unsigned flags),                    \
      (from, source, to, name, flags), to, name, NULL)                                                                 \
    X(fdopendir, DIR *, NULL, (int fd), (fd), fd, "", NULL)                                                            \
    X(readdir, struct dirent *, NULL, (DIR * stream), (stream), dirfd(stream), "", NULL)                               \
    X(dup3, int, -1, (int fd, int to, int flags), (fd, to, flags), fd, "", NULL)                                       \
    X(lseek, off_t, -1, (int fd, off_t offset, int from), (fd, offset, from), fd, "", NULL)                            \
    X(fdatasync, int, -1, (int fd), (fd), fd, "", NULL)                                                                \
    X(fcntl, int, -1, (int fd, int command, struct flock *range), (fd, command, range), fd, "", NULL)

/* The calls that close: they close also when the hook refuses. */
#define KILN__SYS_CLOSES(X)      \
    X(close, (int fd), (fd), fd) \
    X(closedir, (DIR * stream), (stream), dirfd(stream))

#ifdef KILN_FAULTS

#define KILN__SYS_ENUM(call, ...) KILN__SYS_##call,
typedef enum kiln__sys_call { KILN__SYS_CALLS(KILN__SYS_ENUM) KILN__SYS_CLOSES(KILN__SYS_ENUM) } kiln__sys_call;

/* Before a call: 0 to make it, else the errno with which it fails unmade. *length may be made smaller. Any thread. */
int kiln__sys_before(kiln__sys_call call, int fd, const char *name, size_t *length);
/* After a call that was made; leaves errno alone. */
void kiln__sys_after(kiln__sys_call call);

#define KILN__SYS_MAKE(call, type, failed, parameters, arguments, fd, name, length) \
    static inline type kiln__sys_##call parameters                                  \
    {                                                                               \
        int refused_ = kiln__sys_before(KILN__SYS_##call, fd, name, length);        \
        if (refused_ != 0) {                                                        \
            errno = refused_;                                                       \
            return failed;                                                          \
        }                                                                           \
        type result_ = call arguments;                                              \
        kiln__sys_after(KILN__SYS_##call);                                          \
        return result_;                                                             \
    }
#define KILN__SYS_MAKE_CLOSE(call, parameters, arguments, fd)            \
    static inline int kiln__sys_##call parameters                        \
    {                                                                    \
        int refused_ = kiln__sys_before(KILN__SYS_##call, fd, "", NULL); \
        int result_ = call arguments;                                    \
        kiln__sys_after(KILN__SYS_##call);                               \
        if (refused_ != 0)                                               \
            errno = refused_;                                            \
        return refused_ != 0 ? -1 : result_;                             \
    }

#else

#define KILN__SYS_MAKE(call, type, failed, parameters, arguments, fd, name, length) \
    static inline type kiln__sys_##call parameters                                  \
    {                                                                               \
        return call arguments;                                                      \
    }
#define KILN__SYS_MAKE_CLOSE(call, parameters, arguments, fd) \
    KILN__SYS_MAKE(call, int, -1, parameters, arguments, fd, "", NULL)

#endif

KILN__SYS_CALLS(KILN__SYS_MAKE)
KILN__SYS_CLOSES(KILN__SYS_MAKE_CLOSE)

#endif
