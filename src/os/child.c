#include "os/child.h"

#include "os/cpu.h"
#include "os/fork.h"
#include "os/spawn.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FDS = 3, REAP_MS = 1000, POLL_NS = 1000000 };

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        kiln__fork_delist_fd(*fd);
    close_fd(fd);
}

static void forget(kiln__child *child)
{
    close_end(&child->socket);
    close_fd(&child->pidfd);
    child->pid = 0;
}

/* waitid on the child, without waiting. 0: nothing of what `flags` names has happened; 1: it has, *info says how; -ECHILD: it is no
 * child of ours any more. */
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

bool kiln__child_is_stopped(const kiln__child *child)
{
    siginfo_t info;
    return ask_kernel(child, WSTOPPED | WNOWAIT, &info) == 1;
}

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
        close_fd(&child->pidfd);
    if (look(child, WNOWAIT, &info) == -ECHILD)
        child->pid = 0;
}

/* The child's descriptors, none of them below FDS: a host may have closed 0, 1 and 2. A forked child of the host keeps no copy of
 * either end: this process and the child see each other's death as the end of the stream. */
static int open_ends(kiln__child *child, int *theirs, int *null)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    child->socket = ends[0];
    *theirs = ends[1];
    int error = kiln__spawn_raise(&child->socket, FDS);
    if (error == 0)
        error = kiln__spawn_raise(theirs, FDS);
    kiln__fork_list_fd(child->socket);
    kiln__fork_list_fd(*theirs);
    *null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (error == 0 && *null < 0)
        error = -errno;
    return error != 0 ? error : kiln__spawn_raise(null, FDS);
}

int kiln__child_start(kiln__child *out, const char *path, char *const *argv)
{
    int theirs = -1, null = -1;
    *out = KILN__CHILD_NONE;
    int error = open_ends(out, &theirs, &null);
    if (error == 0) {
        const int fds[FDS] = { theirs, null, null };
        error = kiln__spawn(&out->pid, path, argv, fds, FDS);
    }
    close_end(&theirs);
    close_fd(&null);
    if (error != 0) {
        out->pid = 0;
        forget(out);
        return error;
    }
    open_pidfd(out);
    return 0;
}

static void kill_child(const kiln__child *child)
{
#ifdef SYS_pidfd_send_signal
    if (child->pidfd >= 0 && syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0) == 0)
        return;
#endif
    kill(child->pid, SIGKILL);
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
    if (child->socket < 0)
        return 0;
    close_end(&child->socket);
    int state = look(child, WNOWAIT, &info);
    if (state == 0)
        kill_child(child);
    int result = state < 0 ? state : reap(child);
    forget(child);
    return result;
}
