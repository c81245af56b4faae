/* Files: reads, atomic publication, modes, directories and temporary directories. */
#include "os/file.h"

#include "base/alloc.h"
#include "os/syscalls.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of temporary directories. No other program uses this prefix, so directories of such names can be removed. */
#define TEMPORARY_PREFIX "kiln-temporary-"

#define RANDOM_DIGITS "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" /* of mkdtemp */

enum {
    UNIQUE_SIZE = KILN__FILE_UNIQUE,
    UNIQUE_DIGITS = 16,
    RANDOM_LENGTH = 6,
    ATTEMPTS = 16,
    TEMPORARY_MAX_AGE = 3600,
    RACY_S = 2
};

int kiln__file_open(int dir, const char *name, int flags, mode_t mode)
{
    int fd;
    do
        fd = kiln__sys_openat(dir, name, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

static int open_at(int dir, const char *name, int flags)
{
    return kiln__file_open(dir, name, flags, 0600);
}

/* Closes the descriptor after an error, and returns the error; else returns the descriptor. */
static int close_after(int error, int fd)
{
    if (error)
        kiln__sys_close(fd);
    return error ? error : fd;
}

static int read_open_file(void **out, size_t *length, int fd, size_t limit, struct stat *status)
{
    if (kiln__sys_fstat(fd, status))
        return -errno;
    if (!S_ISREG(status->st_mode))
        return -EINVAL;
    if ((uintmax_t)status->st_size > limit || (uintmax_t)status->st_size >= SIZE_MAX)
        return -EFBIG;
    size_t size = (size_t)status->st_size;
    char *bytes = kiln__alloc(size + 1);
    int error = bytes ? kiln__file_read_at(fd, bytes, size, 0) : -ENOMEM;
    if (error) {
        kiln__free(bytes);
        return error;
    }
    bytes[size] = '\0';
    *out = bytes;
    *length = size;
    return 0;
}

int kiln__file_read(void **out, size_t *length, int dir, const char *name, int flags, size_t limit, struct stat *status)
{
    *out = NULL;
    *length = 0;
    *status = (struct stat){ 0 };
    int fd = open_at(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags);
    if (fd < 0)
        return fd;
    int error = read_open_file(out, length, fd, limit, status);
    kiln__sys_close(fd);
    return error;
}

int kiln__file_read_some(int fd, void *out, size_t size, uint64_t offset, size_t *length)
{
    *length = 0;
    while (*length < size) {
        ssize_t count = kiln__sys_pread(fd, (char *)out + *length, size - *length, (off_t)(offset + *length));
        if (count < 0 && errno != EINTR)
            return -errno;
        if (count == 0)
            break;
        if (count > 0)
            *length += (size_t)count;
    }
    return 0;
}

int kiln__file_read_at(int fd, void *bytes, size_t length, uint64_t offset)
{
    size_t done;
    int error = kiln__file_read_some(fd, bytes, length, offset, &done);
    return error == 0 && done < length ? -EIO : error;
}

static int write_loop(int fd, const char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t count = kiln__sys_write(fd, bytes + done, length - done);
        if (count < 0 && errno != EINTR)
            return -errno;
        if (count > 0)
            done += (size_t)count;
    }
    return 0;
}

/* A write beyond the host's file size limit sends this thread SIGXFSZ, which would end the host. */
int kiln__file_write(int fd, const void *bytes, size_t length)
{
    sigset_t limit, saved, pending;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &saved);
    sigpending(&pending);
    int error = write_loop(fd, bytes, length);
    if (error == -EFBIG && !sigismember(&pending, SIGXFSZ)) {
        struct timespec none = { 0 };
        while (sigtimedwait(&limit, NULL, &none) < 0 && errno == EINTR)
            continue;
    }
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    return error;
}

/* ---- Modes: a umask such as 0177 takes rights of the owner away, and closes new files to Kiln */

/* Gives an open file the rights to read and write it; *status says so afterwards. */
static int give_file_rights(int fd, struct stat *status)
{
    mode_t mode = (status->st_mode & 07777) | 0600;
    if ((status->st_mode & 0600) == 0600)
        return 0;
    if (kiln__sys_fchmod(fd, mode))
        return -errno;
    status->st_mode |= 0600;
    return 0;
}

/* Changes the mode by an O_PATH descriptor. It needs no right to the file, and no name, which another file may have by
 * now. */
static int change_mode(int fd, mode_t mode)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return kiln__sys_fchmodat(AT_FDCWD, path, mode & 07777, 0) ? -errno : 0;
}

/* Whether a file is this user's, and other users have no right to it. */
static bool is_private(const struct stat *status)
{
    return status->st_uid == geteuid() && (status->st_mode & 077) == 0;
}

/* Best effort: a directory that stays closed fails to open. */
static void give_directory_rights(int dir, const char *name)
{
    struct stat status;
    int fd = open_at(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (!kiln__sys_fstat(fd, &status) && is_private(&status) && (status.st_mode & 0700) != 0700)
        change_mode(fd, status.st_mode | 0700);
    kiln__sys_close(fd);
}

bool kiln__file_is_closed(const struct stat *status)
{
    mode_t needed = S_ISDIR(status->st_mode) ? 0500 : 0400;
    return (S_ISDIR(status->st_mode) || S_ISREG(status->st_mode)) && is_private(status) &&
           (status->st_mode & needed) != needed;
}

/* Follows no link in any part of the path. The C library has no function for that, and a kernel before 5.6 no call. */
static int open_without_links(int dir, const char *path)
{
    struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
    if (!strchr(path, '/'))
        return open_at(dir, path, O_PATH | O_NOFOLLOW);
    int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

int kiln__file_mend(int dir, const char *path)
{
    struct stat status;
    int fd = open_without_links(dir, path);
    if (fd < 0)
        return fd;
    int error = kiln__sys_fstat(fd, &status) ? -errno : kiln__file_is_closed(&status) ? 0 : -EPERM;
    if (!error)
        error = change_mode(fd, status.st_mode | (S_ISDIR(status.st_mode) ? 0700 : 0600));
    kiln__sys_close(fd);
    return error;
}

/* ---- Files that are written piece by piece */

int kiln__file_open_append(const char *path, struct stat *status)
{
    int fd = kiln__file_open(AT_FDCWD, path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY, 0666);
    if (fd < 0)
        return fd;
    int error = kiln__sys_fstat(fd, status) ? -errno : S_ISREG(status->st_mode) ? 0 : -EINVAL;
    if (!error && status->st_size == 0 && status->st_uid == geteuid())
        error = give_file_rights(fd, status);
    return close_after(error, fd);
}

static void unique_name(char out[UNIQUE_SIZE], const char *prefix)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        random = ((uint64_t)getpid() << 32) ^ (uint64_t)now.tv_nsec ^ (uintptr_t)out;
    }
    snprintf(out, UNIQUE_SIZE, "%.23s%016llx", prefix, (unsigned long long)random);
}

bool kiln__file_is_unique(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    return !strncmp(name, prefix, length) && strspn(name + length, "0123456789abcdef") == UNIQUE_DIGITS &&
           name[length + UNIQUE_DIGITS] == '\0';
}

/* Fills a new file. Its mode is set again, because umask may have taken the owner's rights away. */
static int fill_file(int fd, const void *bytes, size_t length)
{
    return kiln__sys_fchmod(fd, 0600) ? -errno : kiln__file_write(fd, bytes, length);
}

static int replace_with(int dir, const char *temporary, const char *name)
{
    if (!kiln__sys_renameat(dir, temporary, dir, name))
        return 0;
    int error = -errno;
    kiln__sys_unlinkat(dir, temporary, 0);
    return error;
}

/* A link cannot replace a name, so an unnamed file gets a temporary name first. */
static int link_over(int dir, const char *source, const char *name)
{
    char temporary[UNIQUE_SIZE];
    int error = -EEXIST;
    for (int i = 0; error == -EEXIST && i < ATTEMPTS; i++) {
        unique_name(temporary, KILN__FILE_TEMPORARY);
        error = kiln__sys_linkat(AT_FDCWD, source, dir, temporary, AT_SYMLINK_FOLLOW) ? -errno : 0;
    }
    return error ? error : replace_with(dir, temporary, name);
}

/* *settled stays false if the directory cannot hold or link unnamed files: then a named temporary is published. */
static int publish_unnamed(int dir, const char *name, const void *bytes, size_t length, bool replace, bool *settled)
{
    char source[40];
    *settled = false;
    int fd = open_at(dir, ".", O_TMPFILE | O_WRONLY);
    if (fd < 0)
        return 0;
    int error = fill_file(fd, bytes, length);
    *settled = error != 0;
    if (!error) {
        snprintf(source, sizeof source, "/proc/self/fd/%d", fd);
        error = kiln__sys_linkat(AT_FDCWD, source, dir, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
        *settled = !error || error == -EEXIST;
    }
    if (error == -EEXIST && replace)
        error = link_over(dir, source, name);
    kiln__sys_close(fd);
    return error;
}

static int create_unique(int dir, const char *prefix, char name[UNIQUE_SIZE], mode_t mode)
{
    int fd = -EEXIST;
    for (int i = 0; fd == -EEXIST && i < ATTEMPTS; i++) {
        unique_name(name, prefix);
        fd = kiln__file_open(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    }
    return fd;
}

int kiln__file_create_unique(int dir, const char *prefix, char name[KILN__FILE_UNIQUE])
{
    struct stat status;
    int fd = create_unique(dir, prefix, name, 0644);
    if (fd < 0)
        return fd;
    int error = kiln__sys_fstat(fd, &status) ? -errno : give_file_rights(fd, &status);
    if (error)
        kiln__sys_unlinkat(dir, name, 0);
    return close_after(error, fd);
}

/* Renames without replacing; where the file system cannot, links and unlinks. */
static int rename_new(int dir, const char *temporary, const char *name)
{
    int error = kiln__sys_renameat2(dir, temporary, dir, name, RENAME_NOREPLACE) ? -errno : 0;
    if (!error)
        return 0;
    if (error == -EINVAL || error == -ENOSYS)
        error = kiln__sys_linkat(dir, temporary, dir, name, 0) ? -errno : 0;
    kiln__sys_unlinkat(dir, temporary, 0);
    return error;
}

static int publish_named(int dir, const char *name, const void *bytes, size_t length, bool replace)
{
    char temporary[UNIQUE_SIZE];
    int fd = create_unique(dir, KILN__FILE_TEMPORARY, temporary, 0600);
    if (fd < 0)
        return fd;
    int error = fill_file(fd, bytes, length);
    if (kiln__sys_close(fd) && !error && errno != EINTR)
        error = -errno;
    if (error) {
        kiln__sys_unlinkat(dir, temporary, 0);
        return error;
    }
    return replace ? replace_with(dir, temporary, name) : rename_new(dir, temporary, name);
}

int kiln__file_publish(int dir, const char *name, const void *bytes, size_t length, bool replace)
{
    bool settled;
    int error = publish_unnamed(dir, name, bytes, length, replace, &settled);
    return settled ? error : publish_named(dir, name, bytes, length, replace);
}

int kiln__file_open_private(int dir, const char *name)
{
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = open_at(dir, name, flags);
    if (fd == -EACCES && !kiln__file_mend(dir, name))
        fd = open_at(dir, name, flags);
    if (fd != -ENOENT)
        return fd;
    /* Published, so that it has its mode before another process can open it. */
    int error = kiln__file_publish(dir, name, "", 0, false);
    return error && error != -EEXIST ? error : open_at(dir, name, flags);
}

/* ---- Directories */

/* A directory that another process makes at the same time is as good. */
static int make_directory(int dir, const char *name)
{
    if (kiln__sys_mkdirat(dir, name, 0700))
        return errno == EEXIST ? 0 : -errno;
    give_directory_rights(dir, name);
    return 0;
}

/* Opens a directory, which is made first if it is missing. */
static int open_or_make(int dir, const char *name, int flags)
{
    int fd = open_at(dir, name, flags | O_DIRECTORY);
    if (fd != -ENOENT)
        return fd;
    int error = make_directory(dir, name);
    return error ? error : open_at(dir, name, flags | O_DIRECTORY);
}

/* Goes from one directory into the next. No name is looked up twice, so the directory that was made is entered. O_PATH,
 * because a parent need not be readable. */
static int enter_path(const char *path)
{
    char name[NAME_MAX + 1];
    int fd = open_at(AT_FDCWD, path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY);
    while (fd >= 0 && *(path += strspn(path, "/")) != '\0') {
        size_t length = strcspn(path, "/");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        int next = length < sizeof name ? open_or_make(fd, name, O_PATH) : -ENAMETOOLONG;
        kiln__sys_close(fd);
        fd = next;
        path += length;
    }
    return fd;
}

int kiln__file_make_directory(const char *path)
{
    int fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (fd == -EACCES && !kiln__file_mend(AT_FDCWD, path))
        fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (fd != -ENOENT || path[0] == '\0')
        return fd;
    int entered = enter_path(path);
    if (entered < 0)
        return entered;
    fd = open_at(entered, ".", O_RDONLY | O_DIRECTORY);
    kiln__sys_close(entered);
    return fd;
}

int kiln__file_open_directory(int dir, const char *name, bool make)
{
    return make ? open_or_make(dir, name, O_NOFOLLOW) : open_at(dir, name, O_DIRECTORY | O_NOFOLLOW);
}

int kiln__file_list(int dir, int (*fn)(void *data, const char *name), void *data)
{
    /* Opened anew: a duplicate would share its position with other threads that list through `dir`. */
    int fd = open_at(dir, ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    DIR *stream = kiln__sys_fdopendir(fd);
    if (!stream) {
        int error = -errno;
        kiln__sys_close(fd);
        return error;
    }
    struct dirent *entry;
    int stop = 0;
    errno = 0;
    while (!stop && (entry = kiln__sys_readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            stop = fn(data, entry->d_name);
        errno = 0;
    }
    int error = stop ? 0 : -errno;
    kiln__sys_closedir(stream);
    return error;
}

bool kiln__file_is_unchanged(const struct stat *before, const struct stat *now)
{
    return before->st_dev == now->st_dev && before->st_ino == now->st_ino && before->st_size == now->st_size &&
           before->st_mtim.tv_sec == now->st_mtim.tv_sec && before->st_mtim.tv_nsec == now->st_mtim.tv_nsec &&
           before->st_ctim.tv_sec == now->st_ctim.tv_sec && before->st_ctim.tv_nsec == now->st_ctim.tv_nsec;
}

bool kiln__file_is_racy(const struct stat *status)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return status->st_ctim.tv_sec > now.tv_sec - RACY_S;
}

bool kiln__file_is_old(const struct stat *status, time_t seconds)
{
    time_t now = time(NULL);
    return status->st_mtime < now - seconds || status->st_mtime > now + seconds;
}

void kiln__file_append_stamp(const struct stat *status, const char *separator, kiln__text *out)
{
    kiln__text_append_uint(out, status->st_dev, 1);
    kiln__text_append(out, separator);
    kiln__text_append_uint(out, status->st_ino, 1);
    kiln__text_append(out, " ");
    kiln__text_append_uint(out, (uint64_t)status->st_size, 1);
    kiln__text_append(out, " ");
    kiln__text_append_uint(out, (uint64_t)status->st_mtim.tv_sec, 1);
    kiln__text_append(out, ".");
    kiln__text_append_uint(out, (uint64_t)status->st_mtim.tv_nsec, 9);
}

void kiln__file_append_stamps(const kiln__list *paths, kiln__text *out)
{
    struct stat status;
    for (const char *at = NULL; (at = kiln__list_next(paths, at)) != NULL;) {
        kiln__text_append(out, at);
        kiln__text_append(out, " ");
        if (stat(at, &status) == 0)
            kiln__file_append_stamp(&status, ":", out);
        kiln__text_append(out, "\n");
    }
}

int kiln__file_remove_same(int dir, const char *name, const struct stat *status)
{
    struct stat now;
    if (kiln__sys_fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW))
        return -errno;
    if (!kiln__file_is_unchanged(status, &now))
        return -ESTALE;
    return kiln__sys_unlinkat(dir, name, 0) ? -errno : 0;
}

static int make_temporary_in(const char *parent, char *out, size_t size)
{
    int length = snprintf(out, size, "%s/" TEMPORARY_PREFIX "XXXXXX", parent);
    if (length < 0 || (size_t)length >= size)
        return -ENAMETOOLONG;
    if (!kiln__sys_mkdtemp(out))
        return -errno;
    give_directory_rights(AT_FDCWD, out);
    return 0;
}

int kiln__file_make_temporary(char *out, size_t size)
{
    const char *parent = secure_getenv("TMPDIR");
    if (parent && parent[0] == '/' && !make_temporary_in(parent, out, size))
        return 0;
    int error = make_temporary_in("/tmp", out, size);
    if (error && size > 0)
        out[0] = '\0';
    return error;
}

static int remove_one(void *data, const char *name)
{
    int parent = *(const int *)data;
    if (!kiln__sys_unlinkat(parent, name, 0))
        return 0;
    int fd = open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (fd >= 0) {
        kiln__file_list(fd, remove_one, &fd);
        kiln__sys_close(fd);
        kiln__sys_unlinkat(parent, name, AT_REMOVEDIR);
    }
    return 0;
}

void kiln__file_remove_directory(const char *path)
{
    int fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0) {
        kiln__sys_rmdir(path); /* without a descriptor an empty one at least */
        return;
    }
    kiln__file_list(fd, remove_one, &fd);
    kiln__sys_close(fd);
    kiln__sys_rmdir(path);
}

/* Checks the descriptor and not the name: in a parent that other users write to, the name may mean another directory
 * by now. */
static bool is_left_over(int fd)
{
    struct stat status;
    return !kiln__sys_fstat(fd, &status) && status.st_uid == geteuid() && (status.st_mode & 07777) == 0700 &&
           kiln__file_is_old(&status, TEMPORARY_MAX_AGE);
}

static bool is_temporary_directory(const char *name)
{
    const size_t length = sizeof TEMPORARY_PREFIX - 1;
    return !strncmp(name, TEMPORARY_PREFIX, length) && strspn(name + length, RANDOM_DIGITS) == RANDOM_LENGTH &&
           name[length + RANDOM_LENGTH] == '\0';
}

static int remove_object(void *data, const char *name)
{
    return strncmp(name, KILN__FILE_OBJECT, sizeof KILN__FILE_OBJECT - 1) ? 0 : remove_one(data, name);
}

static int sweep_one(void *data, const char *name)
{
    int parent = *(const int *)data;
    if (!is_temporary_directory(name))
        return 0;
    int fd = open_at(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    if (is_left_over(fd)) {
        kiln__file_list(fd, remove_object, &fd);
        kiln__sys_unlinkat(parent, name, AT_REMOVEDIR);
    }
    kiln__sys_close(fd);
    return 0;
}

void kiln__file_sweep_beside(const char *temporary)
{
    char path[PATH_MAX];
    const char *slash = strrchr(temporary, '/');
    if (!slash || (size_t)(slash - temporary) >= sizeof path)
        return;
    snprintf(path, sizeof path, "%.*s/", (int)(slash - temporary), temporary);
    int parent = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (parent < 0)
        return;
    kiln__file_list(parent, sweep_one, &parent);
    kiln__sys_close(parent);
}
