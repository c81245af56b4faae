/* Writes result files by way of temporary ones, which are removed however the command ends. */
#include "files/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common.h"

/* The files that a signal, a fault or an early exit must remove; plain arrays, because a handler reads them. */
enum { WATCHED = 16 };
static char doomed[WATCHED][PATH_MAX];
static volatile sig_atomic_t has_doomed[WATCHED];

static void remove_doomed(void)
{
    for (int i = 0; i < WATCHED; i++) {
        if (has_doomed[i])
            unlink(doomed[i]);
        has_doomed[i] = 0;
    }
}

static void on_signal(int signal_number)
{
    remove_doomed();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch_temporary(struct output *out)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    static bool at_exit;
    int slot = 0;
    while (slot < WATCHED && has_doomed[slot])
        slot++;
    if (slot == WATCHED || strlen(out->temporary) >= sizeof(doomed[slot]))
        return;
    strcpy(doomed[slot], out->temporary);
    has_doomed[slot] = 1;
    out->watched = slot + 1;
    if (!at_exit)
        at_exit = atexit(remove_doomed) == 0;
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            signal(signals[i], on_signal);
    }
}

static void forget_temporary(struct output *out)
{
    if (out->watched)
        has_doomed[out->watched - 1] = 0;
    out->watched = 0;
    out->temporary = NULL;
}

static int cannot_write(const char *path, int error, bool replaces)
{
    return fail(STATUS_USAGE, "%s: cannot be written: %s%s", path, strerror(error),
                replaces && access(path, F_OK) == 0 ? "; the old file is unchanged" : "");
}

static int open_temporary(struct output *out)
{
    const char *slash = strrchr(out->target, '/');
    int directory_length = slash ? (int)(slash - out->target) + 1 : 0, error = 0;
    for (int attempt = 0; attempt < 100; attempt++) {
        out->temporary = need_format("%.*s.kiln-%ld-%d.tmp", directory_length, out->target, (long)getpid(), attempt);
        watch_temporary(out); /* before there is a file, so that no signal leaves one */
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, out->old.st_mode ? 0600 : 0666);
        if (out->fd >= 0)
            return STATUS_DONE;
        error = errno;
        forget_temporary(out);
        if (error != EEXIST)
            break;
    }
    return cannot_write(out->path, error, true);
}

static int reserve(struct output *out, uint64_t bytes)
{
    if (bytes == 0 || bytes > INT64_MAX)
        return STATUS_DONE;
    int result = fallocate(out->fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
    if (result == ENOSPC || result == EFBIG || result == EDQUOT)
        return cannot_write(out->path, result, true);
    return STATUS_DONE;
}

static int open_stdout(struct output *out)
{
    *out = (struct output){ .path = "standard output", .fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) };
    return out->fd < 0 ? cannot_write(out->path, errno, false) : STATUS_DONE;
}

int output_open(struct output *out, const char *path, uint64_t bytes)
{
    if (strcmp(path, "-") == 0)
        return open_stdout(out);
    *out = (struct output){ .path = path, .fd = -1 };
    struct stat info;
    bool exists = stat(path, &info) == 0;
    if (!exists && errno != ENOENT)
        return cannot_write(path, errno, false);
    if (!*path || path[strlen(path) - 1] == '/' || (exists && S_ISDIR(info.st_mode)))
        return cannot_write(path, *path ? EISDIR : ENOENT, false);
    if (exists && access(path, W_OK) != 0)
        return cannot_write(path, errno, true);
    if (exists && !S_ISREG(info.st_mode)) {
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
        return out->fd < 0 ? cannot_write(path, errno, false) : STATUS_DONE;
    }
    out->target = exists ? realpath(path, NULL) : need_copy(path);
    if (!out->target)
        return cannot_write(path, errno, true);
    if (exists)
        out->old = info;
    int status = open_temporary(out);
    return status ? status : reserve(out, bytes);
}

static bool is_one_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool find_file(const char *path, struct stat *out)
{
    return (strcmp(path, "-") == 0 ? fstat(STDOUT_FILENO, out) : stat(path, out)) == 0;
}

/* The directory of a path, whose last part is `name`. */
static bool find_directory(const char *path, const char *name, struct stat *out)
{
    return stat(name == path ? "." : need_format("%.*s", (int)(name - path), path), out) == 0;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool output_is_same(const char *a, const char *b)
{
    struct stat mine, theirs;
    const char *my_name = name_of(a), *their_name = name_of(b);
    bool mine_exists = find_file(a, &mine), theirs_exists = find_file(b, &theirs);
    if (mine_exists || theirs_exists)
        return mine_exists && theirs_exists && is_one_file(&mine, &theirs);
    return strcmp(my_name, their_name) == 0 && find_directory(a, my_name, &mine) &&
           find_directory(b, their_name, &theirs) && is_one_file(&mine, &theirs);
}

bool output_is_stdout(const struct output *output)
{
    struct stat mine, theirs;
    return !output->temporary && fstat(output->fd, &mine) == 0 && fstat(STDOUT_FILENO, &theirs) == 0 &&
           is_one_file(&mine, &theirs);
}

int output_write(struct output *output, const void *data, size_t bytes)
{
    size_t done = 0;
    if (!output->temporary)
        fflush(stdout); /* it may be the same place */
    while (done < bytes) {
        size_t part = bytes - done < (1u << 30) ? bytes - done : 1u << 30;
        ssize_t written = write(output->fd, (const char *)data + done, part);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return cannot_write(output->path, written < 0 ? errno : EIO, output->temporary != NULL);
        done += (size_t)written;
    }
    return STATUS_DONE;
}

/* Called after the last write, which takes set-user-ID bits away. Those bits are for the old owner only. */
static int keep_mode(const struct output *output)
{
    const struct stat *old = &output->old;
    if (!output->temporary || !old->st_mode)
        return 0;
    bool owned = fchown(output->fd, old->st_uid, old->st_gid) == 0;
    return fchmod(output->fd, old->st_mode & (owned ? 07777 : 01777));
}

int output_commit(struct output *output)
{
    int fd = output->fd;
    if (keep_mode(output) != 0)
        return cannot_write(output->path, errno, true);
    output->fd = -1;
    if (close(fd) != 0 || (output->temporary && rename(output->temporary, output->target) != 0))
        return cannot_write(output->path, errno, output->temporary != NULL);
    forget_temporary(output);
    return STATUS_DONE;
}

void output_close(struct output *output)
{
    if (output->fd >= 0)
        close(output->fd);
    if (output->temporary)
        unlink(output->temporary);
    forget_temporary(output);
    free(output->target);
    *output = (struct output){ .fd = -1 };
}

int output_put(const char *path, const void *data, size_t bytes)
{
    struct output output;
    int status = output_open(&output, path, bytes);
    if (!status)
        status = output_write(&output, data, bytes);
    if (!status)
        status = output_commit(&output);
    output_close(&output);
    return status;
}
