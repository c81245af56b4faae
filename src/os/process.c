#include "os/process.h"

#include "base/alloc.h"
#include "os/child.h"
#include "os/cpu.h"
#include "os/file.h"
#include "os/spawn.h"
#include "os/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUTPUT_MAX = 1 << 20, FIRST_FREE_FD = 4, POLL_MS = 100 };

/* The shell tells the program's status through descriptor 3, which the program itself does not get. */
static const char wrapper[] = "\"$@\" 3>&-; status=$?; echo $status >&3; exit $status";

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
    return path ? path : KILN__CHILD_PATH;
}

/* As execvp would: the path is not resolved, for programs such as ccache look at the name they were called by. */
static int locate(const char *program, char path[PATH_MAX])
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
    int error = locate(program, path);
    if (error)
        return error;
    if (!realpath(path, resolved) || kiln__text_copy(out, size, resolved) >= size)
        return -ENOENT;
    return 0;
}

typedef struct shell_run {
    kiln__child child;       /* the shell */
    int input;               /* its standard input */
    int output_read, output; /* ends of the pipe of both outputs; the second is the child's */
    int status_read, status; /* the same for the status */
    size_t kept;             /* bytes of output */
    char text[16];           /* what came through the status pipe */
    size_t text_length;
} shell_run;

static void close_ends(shell_run *run)
{
    kiln__spawn_close(&run->input);
    kiln__spawn_close(&run->output_read);
    kiln__spawn_close(&run->output);
    kiln__spawn_close(&run->status_read);
    kiln__spawn_close(&run->status);
}

static int open_pipe(int *read_end, int *write_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -errno;
    *read_end = ends[0];
    *write_end = ends[1];
    return fcntl(ends[0], F_SETFL, O_NONBLOCK) ? -errno : kiln__spawn_raise(write_end, FIRST_FREE_FD);
}

/* A file and not a pipe: it needs no writer and raises no SIGPIPE when the program does not read it. */
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
    const char **all = kiln__calloc(count + 5, sizeof *all);
    if (!all)
        return NULL;
    all[0] = "sh";
    all[1] = "-c";
    all[2] = wrapper;
    all[3] = "sh";
    all[4] = path;
    for (size_t i = 1; i < count; i++)
        all[4 + i] = argv[i];
    return (char **)all;
}

static int start(shell_run *run, const char *const *argv, const char *input, size_t length)
{
    char path[PATH_MAX];
    int error = locate(argv[0], path);
    if (!error)
        error = open_input(run, input, length);
    if (!error)
        error = open_pipe(&run->output_read, &run->output);
    if (!error)
        error = open_pipe(&run->status_read, &run->status);
    if (error)
        return error;
    const int fds[FIRST_FREE_FD] = { run->input, run->output, run->output, run->status };
    char **arguments = make_arguments(path, argv);
    error = arguments ? kiln__child_spawn(&run->child, "/bin/sh", arguments, fds, FIRST_FREE_FD) : -ENOMEM;
    kiln__free(arguments);
    kiln__spawn_close(&run->input);
    kiln__spawn_close(&run->output);
    kiln__spawn_close(&run->status);
    return error;
}

/* Takes what has been written, about a megabyte at most: a program that never stops writing must meet its timeout. */
static void take_output(shell_run *run, kiln__text *output)
{
    char bytes[16384];
    for (int i = 0; i < 64 && run->output_read >= 0; i++) {
        ssize_t count = read(run->output_read, bytes, sizeof bytes);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (count <= 0) {
            kiln__spawn_close(&run->output_read);
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

static void take_status(shell_run *run)
{
    size_t room = sizeof run->text - 1 - run->text_length;
    ssize_t count = read(run->status_read, run->text + run->text_length, room);
    if (count > 0)
        run->text_length += (size_t)count;
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
        kiln__spawn_close(&run->status_read);
}

/* The end of the program, not of its output, ends the wait: a server that it leaves behind may keep the output open. */
static int watch(shell_run *run, uint64_t deadline, kiln__text *output)
{
    for (;;) {
        uint64_t now = kiln__cpu_now_ns();
        if (now >= deadline)
            return -ETIMEDOUT;
        uint64_t left_ms = (deadline - now + 999999) / 1000000;
        struct pollfd fds[3] = { { run->output_read, POLLIN, 0 },
                                 { run->status_read, POLLIN, 0 },
                                 { run->child.pidfd, POLLIN, 0 } };
        int ready = poll(fds, 3, left_ms < POLL_MS ? (int)left_ms : POLL_MS);
        if (ready < 0 && errno != EINTR)
            return -errno;
        bool ended = (ready == 0 || fds[2].revents) && kiln__child_has_ended(&run->child);
        if (fds[1].revents || ended)
            take_status(run);
        if (fds[0].revents || ended || has_status(run))
            take_output(run, output);
        if (ended || has_status(run) || run->status_read < 0)
            return 0;
    }
}

static int finish(shell_run *run, int error)
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
    shell_run run = {
        .child = KILN__CHILD_NONE, .input = -1, .output_read = -1, .output = -1, .status_read = -1, .status = -1
    };
    uint64_t deadline = kiln__cpu_now_ns() + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000 : 0);
    int result = start(&run, argv, input, length);
    if (!result)
        result = finish(&run, watch(&run, deadline, output));
    close_ends(&run);
    return result;
}
