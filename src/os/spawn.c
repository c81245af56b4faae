/* posix_spawn with the descriptors and signals of a program. */
#include "os/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

int kiln__spawn_raise(int *fd, int first)
{
    if (*fd >= first)
        return 0;
    int raised = fcntl(*fd, F_DUPFD_CLOEXEC, first);
    if (raised < 0)
        return -errno;
    close(*fd);
    *fd = raised;
    return 0;
}

/* The number is forgotten first. Another thread may fork just then, and its child would close the number once more,
 * when it may be another file's. */
void kiln__spawn_close(int *fd)
{
    int closing = *fd;
    *fd = -1;
    if (closing >= 0)
        close(closing);
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setpgroup(attributes, 0);
    return -posix_spawnattr_setflags(attributes,
                                     POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

static int set_descriptors(posix_spawn_file_actions_t *actions, const int *fds, int count)
{
    int error = 0;
    for (int i = 0; i < count && !error; i++)
        if (fds[i] >= 0)
            error = posix_spawn_file_actions_adddup2(actions, fds[i], i);
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 34)
    if (!error)
        error = posix_spawn_file_actions_addclosefrom_np(actions, count);
#endif
#endif
    return -error;
}

int kiln__spawn(pid_t *out, const kiln__spawn_options *options)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int error = -posix_spawnattr_init(&attributes);
    if (error)
        return error;
    error = -posix_spawn_file_actions_init(&actions);
    if (!error) {
        if (options->apart)
            error = set_attributes(&attributes);
        if (!error)
            error = set_descriptors(&actions, options->fds, options->fd_count);
        if (!error)
            error = -posix_spawn(out, options->path, &actions, &attributes, options->argv,
                                 options->environment ? options->environment : environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return error;
}
