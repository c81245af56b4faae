#include "os/spawn.h"

#include "base/alloc.h"
#include "os/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
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

/* The host's environment with LC_ALL=C; the array is new, the strings are not. With raised rights nothing of it: a
 * compiler takes programs and libraries from variables such as COMPILER_PATH. */
static char **make_environment(void)
{
    static char locale[] = "LC_ALL=C", path[] = "PATH=" KILN__SPAWN_PATH;
    bool elevated = kiln__trust_is_elevated();
    size_t count = 0, kept = 0;
    while (!elevated && environ && environ[count])
        count++;
    char **copy = kiln__calloc(count + 3, sizeof *copy);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LC_ALL=", 7))
            copy[kept++] = environ[i];
    if (elevated)
        copy[kept++] = path;
    copy[kept] = locale;
    return copy;
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
        error = posix_spawn_file_actions_adddup2(actions, fds[i], i);
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 34)
    if (!error)
        error = posix_spawn_file_actions_addclosefrom_np(actions, count);
#endif
#endif
    return -error;
}

static int spawn_with(pid_t *out, const char *path, char *const *argv, const int *fds, int count, char **environment)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int error = -posix_spawnattr_init(&attributes);
    if (error)
        return error;
    error = -posix_spawn_file_actions_init(&actions);
    if (!error) {
        error = set_attributes(&attributes);
        if (!error)
            error = set_descriptors(&actions, fds, count);
        if (!error)
            error = -posix_spawn(out, path, &actions, &attributes, argv, environment);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return error;
}

int kiln__spawn(pid_t *out, const char *path, char *const *argv, const int *fds, int count)
{
    char **environment = make_environment();
    int error = environment ? spawn_with(out, path, argv, fds, count, environment) : -ENOMEM;
    kiln__free(environment);
    return error;
}
