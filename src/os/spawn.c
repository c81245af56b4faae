#include "os/spawn.h"

#include "base/alloc.h"
#include "os/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#if !defined(__has_feature)
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
    __has_feature(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

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

/* All that a child gets of the host's environment. Compilers take programs, headers and options from many variables, and what they make
 * is kept for processes that have other ones. */
static const char *const passed_on[] = {
    "PATH=",         "HOME=",         "TMPDIR=",       "LD_LIBRARY_PATH=", /* a compiler's own needs */
    "CUDA_PATH=",    "CUDA_HOME=", /* a worker finds the NVRTC that the host would */
    "KILN_",                       /* no compiler reads these; a wrapper named in KILN_CC may */
#if SANITIZED
    "ASAN_OPTIONS=", "LSAN_OPTIONS=", "TSAN_OPTIONS=", "UBSAN_OPTIONS=",
#endif
};

static bool is_passed_on(const char *variable)
{
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        if (!strncmp(variable, passed_on[i], strlen(passed_on[i])))
            return true;
    return false;
}

/* The array is new, its strings are the host's. With raised rights nothing of the host's. */
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
        if (is_passed_on(environ[i]))
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
