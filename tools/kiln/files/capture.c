#include "files/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/common.h"
#include "files/output.h"
#include "os/spawn.h"

enum { FDS = 3 };

static bool find_in(char **out, const char *directories, const char *name)
{
    while (directories && *directories) {
        size_t length = strcspn(directories, ":");
        *out = need_format("%.*s/%s", (int)length, directories, name);
        if (length > 0 && access(*out, X_OK) == 0)
            return true;
        free(*out);
        directories += length + (directories[length] == ':');
    }
    *out = NULL;
    return false;
}

bool capture_find(char **out, const char *name)
{
    const char *toolkit = getenv("CUDA_PATH");
    char *own = need_format("%s/bin", toolkit ? toolkit : "/usr/local/cuda");
    bool found = find_in(out, getenv("PATH"), name) || find_in(out, own, name) ||
                 find_in(out, "/usr/local/cuda/bin:/opt/cuda/bin", name);
    free(own);
    return found;
}

static char *read_all(int fd, size_t *length)
{
    char *text = NULL;
    size_t room = 0;
    *length = 0;
    for (;;) {
        if (*length + 1 >= room)
            text = need_array(text, room = room ? 2 * room : 1 << 16, 1);
        ssize_t got = read(fd, text + *length, room - *length - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        *length += (size_t)got;
    }
    text[*length] = '\0';
    return text;
}

/* `in` and `err`, not below FDS, become its standard input and error; one that is negative is ours. The read end of
 * its output goes to *output. Returns 0 or a negative errno. */
static int start(pid_t *child, int *output, int in, int err, const char *const *argv)
{
    int ends[2];
    *output = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    int error = kiln__spawn_raise(&ends[1], FDS);
    const int fds[FDS] = { in, ends[1], err };
    /* The words are not written to, the type only dates from before const. */
    const kiln__spawn_options options = { argv[0], (char *const *)(uintptr_t)argv, .fds = fds, .fd_count = FDS };
    if (!error)
        error = kiln__spawn(child, &options);
    kiln__spawn_close(&ends[1]);
    *output = ends[0];
    if (error)
        kiln__spawn_close(output);
    return error;
}

/* Returns 0 and how the program ended in *ended, as waitpid has it, or a negative errno where it could not be
 * started. */
static int run(char **out, size_t *length, int *ended, int in, int err, const char *const *argv)
{
    int output;
    pid_t child = 0;
    *out = NULL;
    int error = start(&child, &output, in, err, argv);
    if (error)
        return error;
    *out = read_all(output, length);
    close(output);
    while (waitpid(child, ended, 0) < 0 && errno == EINTR)
        continue;
    return 0;
}

static bool has_succeeded(int ended)
{
    return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

int capture_run(char **out, size_t *length, const char *const *argv)
{
    int ended = 0, error = run(out, length, &ended, -1, -1, argv);
    if (error)
        return fail(STATUS_FAILED, "%s: cannot be run: %s", argv[0], strerror(-error));
    if (has_succeeded(ended))
        return STATUS_DONE;
    free(*out);
    *out = NULL;
    return fail(STATUS_FAILED, "%s: failed with status %d", argv[0], WIFEXITED(ended) ? WEXITSTATUS(ended) : -1);
}

/* A file in memory with that in it, to be read from its start; negative, with errno, after a failure. Not below FDS. */
static int memory_file(const char *text, size_t length)
{
    struct output file = { .path = "memory", .fd = memfd_create("kiln", MFD_CLOEXEC) };
    if (file.fd >= 0 && kiln__spawn_raise(&file.fd, FDS) != 0)
        kiln__spawn_close(&file.fd);
    if (file.fd < 0 || length == 0)
        return file.fd;
    if (output_write(&file, text, length) == STATUS_DONE && lseek(file.fd, 0, SEEK_SET) == 0)
        return file.fd;
    close(file.fd);
    return -1;
}

/* The last line with anything in it, without the blanks around it; NULL if there is none. */
static char *last_line(int fd)
{
    size_t length = 0;
    lseek(fd, 0, SEEK_SET);
    char *text = read_all(fd, &length), *line = NULL;
    while (length > 0 && strchr(" \t\r\n", text[length - 1]))
        text[--length] = '\0';
    char *start = strrchr(text, '\n');
    start = start ? start + 1 : text;
    start += strspn(start, " \t\r");
    if (*start)
        line = need_copy(start);
    free(text);
    return line;
}

int capture_filter(char **out, size_t *length, char **complaint, const char *const *argv, const char *input,
                   size_t input_length)
{
    int in = memory_file(input, input_length), err = memory_file(NULL, 0), ended = 0;
    int error = in < 0 || err < 0 ? -errno : run(out, length, &ended, in, err, argv);
    *complaint = NULL;
    if (error)
        *complaint = need_copy(strerror(-error));
    else if (WIFSIGNALED(ended))
        *complaint = need_format("killed by signal %d", WTERMSIG(ended));
    else if (!has_succeeded(ended) && !(*complaint = last_line(err)))
        *complaint = need_format("exit status %d", WEXITSTATUS(ended));
    if (in >= 0)
        close(in);
    if (err >= 0)
        close(err);
    if (!*complaint)
        return STATUS_DONE;
    if (!error)
        free(*out);
    *out = NULL;
    return STATUS_FAILED;
}

int capture_file(char **out, const char *suffix, const void *data, size_t length)
{
    const char *directory = getenv("TMPDIR");
    *out = need_format("%s/kiln-XXXXXX%s", directory && *directory ? directory : "/tmp", suffix);
    struct output file = { .path = *out, .fd = mkostemps(*out, (int)strlen(suffix), O_CLOEXEC) };
    int status = STATUS_DONE;
    if (file.fd < 0)
        status = fail(STATUS_FAILED, "%s: cannot be made: %s", *out, strerror(errno));
    else if (output_write(&file, data, length) != STATUS_DONE)
        status = STATUS_FAILED;
    if (file.fd >= 0)
        close(file.fd);
    if (file.fd >= 0 && status)
        unlink(*out);
    if (status) {
        free(*out);
        *out = NULL;
    }
    return status;
}
