#include "os/child.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include "os/fork.h"
#include "os/spawn.h"
#include "os/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FDS = 3, REAP_MS = 1000, POLL_NS = 1000000 };

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#if !defined(__has_feature)
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
    __has_feature(thread_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- Its environment */

/* All that a child gets of the host's environment. Compilers take programs, headers and options from many variables,
 * and what they make is kept for processes that have other ones. */
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
    static char locale[] = "LC_ALL=C", path[] = "PATH=" KILN__CHILD_PATH;
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

/* ---- Its state */

/* Closes an end of a worker's socket, which a forked child of the host closes too. */
static void close_end(int *fd)
{
    if (*fd >= 0)
        kiln__fork_delist_fd(*fd);
    kiln__spawn_close(fd);
}

static void forget(kiln__child *child)
{
    close_end(&child->socket);
    kiln__spawn_close(&child->pidfd);
    child->pid = 0;
    child->group = 0;
}

/* waitid on the child, without waiting. 0: nothing of what `flags` names has happened; 1: it has, *info says how;
 * -ECHILD: it is no child of ours any more. */
static int ask_kernel(const kiln__child *child, int flags, siginfo_t *info)
{
    idtype_t kind = child->pidfd >= 0 ? (idtype_t)P_PIDFD : P_PID;
    id_t id = child->pidfd >= 0 ? (id_t)child->pidfd : (id_t)child->pid;
    info->si_pid = 0;
    if (child->pid == 0 || waitid(kind, id, info, WNOHANG | flags) != 0)
        return -ECHILD;
    return info->si_pid != 0;
}

/* Asks for the child's end, without reaping it where `flags` has WNOWAIT. */
static int look(const kiln__child *child, int flags, siginfo_t *info)
{
    return ask_kernel(child, WEXITED | flags, info);
}

bool kiln__child_has_ended(const kiln__child *child)
{
    siginfo_t info;
    return look(child, WNOWAIT, &info) != 0;
}

bool kiln__child_is_stopped(const kiln__child *child)
{
    siginfo_t info;
    return ask_kernel(child, WSTOPPED | WNOWAIT, &info) == 1;
}

/* ---- Starting it */

/* A child that the host has reaped already may have left its number to a stranger: what is no child of ours is never
 * killed. */
static void open_pidfd(kiln__child *child)
{
    siginfo_t info;
#ifdef SYS_pidfd_open
    child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
#endif
    /* Where the system gives such descriptors and cannot wait for them, the number has to do. */
    if (look(child, WNOWAIT, &info) == -ECHILD && errno != ECHILD)
        kiln__spawn_close(&child->pidfd);
    if (look(child, WNOWAIT, &info) == -ECHILD)
        child->pid = 0;
}

int kiln__child_spawn(kiln__child *out, const char *path, char *const *argv, const int *fds, int count)
{
    char **environment = make_environment();
    const kiln__spawn_options options = { path, argv, environment, fds, count, .apart = true };
    *out = KILN__CHILD_NONE;
    int error = environment ? kiln__spawn(&out->pid, &options) : -ENOMEM;
    kiln__free(environment);
    if (error != 0) {
        *out = KILN__CHILD_NONE;
        return error;
    }
    out->group = out->pid;
    open_pidfd(out);
    return 0;
}

/* None of the three is below FDS: a host may have closed 0, 1 and 2. A forked child of the host keeps no copy of
 * either end: this process and the child see each other's death as the end of the stream. */
static int open_ends(int *ours, int *theirs, int *null)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    *ours = ends[0];
    *theirs = ends[1];
    int error = kiln__spawn_raise(ours, FDS);
    if (error == 0)
        error = kiln__spawn_raise(theirs, FDS);
    kiln__fork_list_fd(*ours);
    kiln__fork_list_fd(*theirs);
    *null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (error == 0 && *null < 0)
        error = -errno;
    return error != 0 ? error : kiln__spawn_raise(null, FDS);
}

int kiln__child_start(kiln__child *out, const char *path, char *const *argv)
{
    int ours = -1, theirs = -1, null = -1;
    *out = KILN__CHILD_NONE;
    int error = open_ends(&ours, &theirs, &null);
    if (error == 0) {
        const int fds[FDS] = { theirs, null, null };
        error = kiln__child_spawn(out, path, argv, fds, FDS);
    }
    close_end(&theirs);
    kiln__spawn_close(&null);
    if (error != 0)
        close_end(&ours);
    out->socket = ours;
    return error;
}

/* ---- Ending it */

static void kill_child(const kiln__child *child)
{
#ifdef SYS_pidfd_send_signal
    if (child->pidfd >= 0 && syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0) == 0)
        return;
#endif
    kill(child->pid, SIGKILL);
}

void kiln__child_kill_group(const kiln__child *child)
{
    if (child->group > 0)
        kill(-child->group, SIGKILL);
}

static void pause_for(const kiln__child *child)
{
    struct timespec pause = { 0, POLL_NS };
    struct pollfd ended = { child->pidfd, POLLIN, 0 };
    if (child->pidfd < 0 || poll(&ended, 1, REAP_MS) < 0)
        nanosleep(&pause, NULL);
}

static int reap(const kiln__child *child)
{
    siginfo_t info;
    uint64_t deadline = kiln__cpu_now_ns() + (uint64_t)REAP_MS * 1000000;
    int state;
    while ((state = look(child, 0, &info)) == 0 && kiln__cpu_now_ns() < deadline)
        pause_for(child);
    if (state <= 0)
        return state == 0 ? -ETIMEDOUT : state;
    return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

int kiln__child_end(kiln__child *child)
{
    siginfo_t info;
    if (child->group == 0)
        return 0;
    close_end(&child->socket);
    int state = look(child, WNOWAIT, &info);
    if (state == 0)
        kill_child(child);
    int result = state < 0 ? state : reap(child);
    forget(child);
    return result;
}
