#include "kiln-worker/sandbox_parts.h"

#include "kiln-worker/witness.h"
#include "source/reads.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOTES_SIZE = 64 * 1024 };

static char *const *allowed;     /* constant once `started` is set */
static const kiln__list *places; /* NULL: paths are what they are; constant once `started` is set */
static atomic_bool started;

/* What was asked for, one after the other: '+' found or '-' refused, the path, a NUL. */
static struct {
    pthread_mutex_t lock;
    char text[NOTES_SIZE];
    size_t length;
    bool incomplete;
} notes = { .lock = PTHREAD_MUTEX_INITIALIZER };

void kiln__judge_start(char *const *paths)
{
    allowed = paths;
    atomic_store(&started, true);
}

void kiln__judge_set_places(const kiln__list *kept)
{
    places = kept;
}

bool kiln__judge_has_started(void)
{
    return atomic_load(&started);
}

/* ---- What was asked for */

/* Once something did not fit, nothing is looked for or added: a source with a million paths must not cost their
 * square. */
static void note_locked(const char *path, bool found)
{
    size_t length = strlen(path);
    char mark = found ? '+' : '-';
    for (const char *at = notes.text; at < notes.text + notes.length && !notes.incomplete; at += strlen(at) + 1)
        if (at[0] == mark && strcmp(at + 1, path) == 0)
            return;
    if (notes.incomplete || length + 2 > sizeof(notes.text) - notes.length) {
        notes.incomplete = true;
        return;
    }
    notes.text[notes.length] = mark;
    memcpy(notes.text + notes.length + 1, path, length + 1);
    notes.length += length + 2;
}

static void note(int dir, const char *path, bool found)
{
    pthread_mutex_lock(&notes.lock);
    /* Such a path would mean another file to whoever reads it. */
    if (dir != AT_FDCWD && path[0] != '/')
        notes.incomplete = true;
    else
        note_locked(path, found);
    pthread_mutex_unlock(&notes.lock);
}

bool kiln__sandbox_visit(kiln__sandbox_visitor *fn, void *data)
{
    pthread_mutex_lock(&notes.lock);
    bool complete = !notes.incomplete;
    for (const char *at = notes.text; at < notes.text + notes.length; at += strlen(at) + 1)
        fn(data, at + 1, at[0] == '+');
    notes.length = 0;
    notes.incomplete = false;
    pthread_mutex_unlock(&notes.lock);
    return complete;
}

/* ---- What is allowed */

static bool is_allowed(const char *path)
{
    for (char *const *at = allowed; *at != NULL; at++) {
        size_t length = strlen(*at);
        while (length > 0 && (*at)[length - 1] == '/')
            length--;
        if (strncmp(path, *at, length) == 0 && (path[length] == '\0' || path[length] == '/'))
            return true;
    }
    return false;
}

/* The path of what is open, no link and no ".." in it; of what has none (a pipe, a socket) something that does not
 * begin with a slash. By system call: the program's own readlink would come back here. */
static bool path_of(int fd, char path[PATH_MAX])
{
    char name[32];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, name, path, (size_t)PATH_MAX);
    if (length >= 0)
        errno = length > 0 ? ENAMETOOLONG : ENOENT;
    if (length <= 0 || length >= PATH_MAX)
        return false;
    path[length] = '\0';
    return true;
}

/* The path that is meant by one of a place's. */
static bool find_in_places(const char *asked, char out[PATH_MAX])
{
    char place[KILN__PLACE_SIZE], rest[KILN__READ_PATH_MAX];
    const char *name = NULL, *path;
    if (!kiln__reads_split(asked, place, rest))
        return false;
    while (kiln__list_next_pair(places, &name, &path))
        if (strcmp(name, place) == 0)
            return snprintf(out, PATH_MAX, "%s/%s", path, rest) < PATH_MAX;
    return false;
}

/* kiln__judge_reach for a path of a place's. One that is none is the same nothing always and everywhere: it is not
 * noted. Links are followed even where the call would not: what they lead to is what is compiled. A file that is
 * there and whose own path cannot be found out, for want of /proc, is unknown. */
static int reach_in_places(const char *asked)
{
    char path[PATH_MAX], resolved[PATH_MAX];
    int fd = -1;
    if (find_in_places(asked, path)) {
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC);
        bool there = fd >= 0, known = there && path_of(fd, resolved), good = known && is_allowed(resolved);
        int error = errno;
        bool nothing = known ? !good : error == ENAMETOOLONG || (!there && kiln__reads_means_nothing(error));
        if (nothing)
            kiln__witness_nothing(asked);
        else if (!good)
            kiln__witness_unknown(asked, error);
        if (fd >= 0 && (!good || !kiln__witness_found(asked, resolved, fd))) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0)
        errno = ENOENT;
    return fd;
}

void kiln__judge_unknown(const char *path, int error)
{
    if (places != NULL)
        kiln__witness_unknown(path, error);
}

int kiln__judge_refuse(int dir, const char *path)
{
    if (places == NULL)
        note(dir, path, false);
    errno = ENOENT;
    return -1;
}

int kiln__judge_reach(int dir, const char *path, int flags)
{
    char resolved[PATH_MAX];
    if (places != NULL)
        return reach_in_places(path);
    /* Where nothing is allowed the path is not even walked: that may mount things or wait for a server. */
    int fd = allowed[0] == NULL ? -1 : (int)syscall(SYS_openat, dir, path, O_PATH | O_CLOEXEC | flags);
    if (fd < 0)
        return kiln__judge_refuse(dir, path);
    if (!path_of(fd, resolved) || !is_allowed(resolved)) {
        close(fd);
        return kiln__judge_refuse(dir, path);
    }
    note(dir, path, true);
    return fd;
}
