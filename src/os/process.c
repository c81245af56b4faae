/* Programs that the library starts: children, and runs of a program to its end. */
#include "os/process.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include "os/file.h"
#include "os/fork.h"
#include "os/spawn.h"
#include "os/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_PATH "/usr/bin:/bin" /* where programs are looked for without a PATH */

enum { FDS = 3, REAP_MS = 1000, POLL_NS = 1000000, OUTPUT_MAX = 1 << 20, FIRST_FREE_FD = 4, POLL_MS = 100 };

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

/* ---- The environment of a child */

/* The variables of the host that a child gets. Compilers take programs, headers and options from many variables, and
 * their results are kept for processes that have other ones. */
static const char *const passed_on[] = {
    "PATH=",         "HOME=",         "TMPDIR=",       "LD_LIBRARY_PATH=", /* a compiler's own needs */
    "CUDA_PATH=",    "CUDA_HOME=", /* a worker finds the same NVRTC as the host */
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

/* A new array of the host's strings. A process with raised rights passes none of them on. */
static char **make_environment(void)
{
    static char locale[] = "LC_ALL=C", path[] = "PATH=" DEFAULT_PATH;
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

/* ---- Children */

/* Closes an end of a worker's socket, which a forked child of the host closes too. */
static void close_end(int *fd)
{
    if (*fd >= 0)
        kiln__fork_delist_fd(*fd);
    kiln__spawn_close(fd);
}

/* waitid on the child, without waiting. 0: none of the events in `flags` has happened. 1: one has, and *info (may be
 * NULL) describes it. -ECHILD: it is no child of this process any more. */
static int ask_kernel(const kiln__child *child, int flags, siginfo_t *info)
{
    siginfo_t unused;
    idtype_t kind = child->pidfd >= 0 ? (idtype_t)P_PIDFD : P_PID;
    id_t id = child->pidfd >= 0 ? (id_t)child->pidfd : (id_t)child->pid;
    info = info ? info : &unused;
    info->si_pid = 0;
    if (child->pid == 0 || waitid(kind, id, info, WNOHANG | flags) != 0)
        return -ECHILD;
    return info->si_pid != 0;
}

bool kiln__child_has_ended(const kiln__child *child)
{
    return ask_kernel(child, WEXITED | WNOWAIT, NULL) != 0;
}

bool kiln__child_is_stopped(const kiln__child *child)
{
    return ask_kernel(child, WSTOPPED | WNOWAIT, NULL) == 1;
}

/* A number that the host has already reaped may belong to another process: it is forgotten here, and never killed. */
static void open_pidfd(kiln__child *child)
{
#ifdef SYS_pidfd_open
    child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
#endif
    /* Some systems give such descriptors and cannot wait for them: then the number is used. */
    if (ask_kernel(child, WEXITED | WNOWAIT, NULL) == -ECHILD && errno != ECHILD)
        kiln__spawn_close(&child->pidfd);
    if (ask_kernel(child, WEXITED | WNOWAIT, NULL) == -ECHILD)
        child->pid = 0;
}

int kiln__child_spawn(kiln__child *out, const char *path, char *const *argv, const int *fds, int count)
{
    char **environment = make_environment();
    const kiln__spawn_options options = { path, argv, environment, fds, count, .apart = true };
    pid_t pid;
    int error = environment ? kiln__spawn(&pid, &options) : -ENOMEM;
    kiln__free(environment);
    *out = KILN__CHILD_NONE;
    if (error != 0)
        return error;
    out->pid = out->group = pid;
    open_pidfd(out);
    return 0;
}

/* None of the three is below FDS: a host may have closed 0, 1 and 2. A forked child of the host keeps no copy of either
 * end, because this process and the child see each other's death as the end of the stream. */
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

static void pause_for_end(const kiln__child *child)
{
    struct timespec pause = { 0, POLL_NS };
    struct pollfd ended = { child->pidfd, POLLIN, 0 };
    if (child->pidfd < 0 || poll(&ended, 1, REAP_MS) < 0)
        nanosleep(&pause, NULL);
}

static int reap_child(const kiln__child *child)
{
    siginfo_t info;
    uint64_t deadline = kiln__cpu_now_ns() + (uint64_t)REAP_MS * 1000000;
    int state;
    while ((state = ask_kernel(child, WEXITED, &info)) == 0 && kiln__cpu_now_ns() < deadline)
        pause_for_end(child);
    if (state <= 0)
        return state == 0 ? -ETIMEDOUT : state;
    return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

int kiln__child_end(kiln__child *child)
{
    if (child->group == 0)
        return 0;
    close_end(&child->socket);
    int state = ask_kernel(child, WEXITED | WNOWAIT, NULL);
    if (state == 0)
        kill_child(child);
    int result = state < 0 ? state : reap_child(child);
    kiln__spawn_close(&child->pidfd);
    *child = KILN__CHILD_NONE;
    return result;
}

/* ---- Finding programs */

static int check_program(const char *path)
{
    struct stat status;
    if (stat(path, &status) || !S_ISREG(status.st_mode))
        return -ENOENT;
    return access(path, X_OK) ? -EACCES : 0;
}

const char *kiln__process_path(void)
{
    const char *path = kiln__trust_is_elevated() ? NULL : getenv("PATH");
    return path ? path : DEFAULT_PATH;
}

/* As execvp does: links are not resolved, because programs such as ccache look at the name of their call. */
static int locate_program(const char *program, char path[PATH_MAX])
{
    if (strchr(program, '/'))
        return kiln__text_copy(path, PATH_MAX, program) < PATH_MAX ? check_program(path) : -ENOENT;
    int error = -ENOENT;
    for (const char *at = kiln__process_path(); *program && at;) {
        size_t length = strcspn(at, ":");
        int written = snprintf(path, PATH_MAX, "%.*s/%s", length ? (int)length : 1, length ? at : ".", program);
        int found = written < PATH_MAX ? check_program(path) : -ENOENT;
        if (!found)
            return 0;
        if (found == -EACCES)
            error = found;
        at = at[length] ? at + length + 1 : NULL;
    }
    return error;
}

int kiln__process_find(const char *program, char *out, size_t size)
{
    char path[PATH_MAX], resolved[PATH_MAX];
    int error = locate_program(program, path);
    if (error)
        return error;
    if (!realpath(path, resolved) || kiln__text_copy(out, size, resolved) >= size)
        return -ENOENT;
    return 0;
}

/* ---- Running a program to its end */

/* The shell writes the program's status to descriptor 3, which the program does not get. */
static const char wrapper[] = "\"$@\" 3>&-; status=$?; echo $status >&3; exit $status";

typedef struct shell_run {
    kiln__child child;        /* the shell */
    int input;                /* its standard input */
    int output[2], status[2]; /* pipes of both outputs and of the status; the second end is the child's */
    size_t kept;              /* bytes of output */
    char text[16];            /* the bytes of the status pipe */
    size_t text_length;
} shell_run;

static void close_pipe(int ends[2])
{
    kiln__spawn_close(&ends[0]);
    kiln__spawn_close(&ends[1]);
}

static int open_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC))
        return -errno;
    return fcntl(ends[0], F_SETFL, O_NONBLOCK) ? -errno : kiln__spawn_raise(&ends[1], FIRST_FREE_FD);
}

/* A file and not a pipe: it needs no writer, and raises no SIGPIPE if the program does not read it. */
static int open_input(shell_run *run, const char *input, size_t length)
{
    run->input = length ? memfd_create("kiln-input", MFD_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (run->input < 0)
        return -errno;
    int error = length ? kiln__file_write(run->input, input, length) : 0;
    if (!error && length && lseek(run->input, 0, SEEK_SET) < 0)
        error = -errno;
    return error ? error : kiln__spawn_raise(&run->input, FIRST_FREE_FD);
}

static char **make_arguments(const char *path, const char *const *argv)
{
    size_t count = 0;
    while (argv[count])
        count++;
    const char *const prefix[] = { "sh", "-c", wrapper, "sh", path };
    const char **all = kiln__calloc(count + 5, sizeof *all);
    if (!all)
        return NULL;
    memcpy(all, prefix, sizeof prefix);
    memcpy(all + 5, argv + 1, (count - 1) * sizeof *all);
    return (char **)all;
}

static int start_shell(shell_run *run, const char *const *argv, const char *input, size_t length)
{
    char path[PATH_MAX];
    int error = locate_program(argv[0], path);
    if (!error)
        error = open_input(run, input, length);
    if (!error)
        error = open_pipe(run->output);
    if (!error)
        error = open_pipe(run->status);
    if (error)
        return error;
    const int fds[FIRST_FREE_FD] = { run->input, run->output[1], run->output[1], run->status[1] };
    char **arguments = make_arguments(path, argv);
    error = arguments ? kiln__child_spawn(&run->child, "/bin/sh", arguments, fds, FIRST_FREE_FD) : -ENOMEM;
    kiln__free(arguments);
    kiln__spawn_close(&run->input);
    kiln__spawn_close(&run->output[1]);
    kiln__spawn_close(&run->status[1]);
    return error;
}

/* Reads about a megabyte at most, so that a program that never stops writing meets its timeout. */
static void read_output(shell_run *run, kiln__text *output)
{
    char bytes[16384];
    for (int i = 0; i < 64 && run->output[0] >= 0; i++) {
        ssize_t count = read(run->output[0], bytes, sizeof bytes);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (count <= 0) {
            kiln__spawn_close(&run->output[0]);
            return;
        }
        size_t room = OUTPUT_MAX - run->kept;
        size_t taken = (size_t)count < room ? (size_t)count : room;
        if (output)
            kiln__text_append_bytes(output, bytes, taken);
        run->kept += taken;
    }
}

static bool has_status(const shell_run *run)
{
    return run->text_length > 0 && run->text[run->text_length - 1] == '\n';
}

static void read_status(shell_run *run)
{
    size_t room = sizeof run->text - 1 - run->text_length;
    ssize_t count = read(run->status[0], run->text + run->text_length, room);
    if (count > 0)
        run->text_length += (size_t)count;
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
        kiln__spawn_close(&run->status[0]);
}

/* The end of the program ends the wait, not that of its output, which a server that it leaves behind may keep open. */
static int watch_shell(shell_run *run, uint64_t deadline, kiln__text *output)
{
    for (;;) {
        uint64_t now = kiln__cpu_now_ns();
        if (now >= deadline)
            return -ETIMEDOUT;
        uint64_t left_ms = (deadline - now + 999999) / 1000000;
        struct pollfd fds[3] = { { run->output[0], POLLIN, 0 },
                                 { run->status[0], POLLIN, 0 },
                                 { run->child.pidfd, POLLIN, 0 } };
        int ready = poll(fds, 3, left_ms < POLL_MS ? (int)left_ms : POLL_MS);
        if (ready < 0 && errno != EINTR)
            return -errno;
        bool ended = (ready == 0 || fds[2].revents) && kiln__child_has_ended(&run->child);
        if (fds[1].revents || ended)
            read_status(run);
        if (fds[0].revents || ended || has_status(run))
            read_output(run, output);
        if (ended || has_status(run) || run->status[0] < 0)
            return 0;
    }
}

static int end_shell(shell_run *run, int error)
{
    /* Without a status the shell itself was killed and may have left the program running. */
    if (error || !has_status(run))
        kiln__child_kill_group(&run->child);
    int ended = kiln__child_end(&run->child);
    if (error)
        return error;
    return has_status(run) ? atoi(run->text) : ended;
}

int kiln__process_run(const char *const *argv, const char *input, size_t length, int timeout_ms, kiln__text *output)
{
    shell_run run = { .child = KILN__CHILD_NONE, .input = -1, .output = { -1, -1 }, .status = { -1, -1 } };
    uint64_t deadline = kiln__cpu_now_ns() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000 : 0);
    int result = start_shell(&run, argv, input, length);
    if (!result)
        result = end_shell(&run, watch_shell(&run, deadline, output));
    kiln__spawn_close(&run.input);
    close_pipe(run.output);
    close_pipe(run.status);
    return result;
}
