#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "os/spawn.h"
#include "output.h"

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

/* Its standard input and error are ours. The read end of its output goes to *output. Returns 0 or a negative errno. */
static int start(pid_t *child, int *output, const char *const *argv)
{
    int ends[2];
    *output = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    int error = kiln__spawn_raise(&ends[1], FDS);
    const int fds[FDS] = { -1, ends[1], -1 };
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

int capture_run(char **out, size_t *length, const char *const *argv)
{
    int output, status = 0;
    pid_t child = 0;
    *out = NULL;
    int error = start(&child, &output, argv);
    if (error)
        return fail(STATUS_FAILED, "%s: cannot be run: %s", argv[0], strerror(-error));
    *out = read_all(output, length);
    close(output);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return STATUS_DONE;
    free(*out);
    *out = NULL;
    return fail(STATUS_FAILED, "%s: failed with status %d", argv[0], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
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
