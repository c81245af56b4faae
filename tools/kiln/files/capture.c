/* Finds and runs other programs, and collects their output. */
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
#include "files/whole.h"
#include "os/spawn.h"

enum { FDS = 3 };

static char *find_in(const char *directories, const char *name)
{
    while (directories && *directories) {
        size_t length = strcspn(directories, ":");
        char *path = need_format("%.*s/%s", (int)length, directories, name);
        if (length > 0 && access(path, X_OK) == 0)
            return path;
        directories += length + (directories[length] == ':');
    }
    return NULL;
}

char *capture_find(const char *name)
{
    const char *toolkit = getenv("CUDA_PATH");
    char *found = find_in(getenv("PATH"), name);
    if (!found && toolkit)
        found = find_in(need_format("%s/bin", toolkit), name);
    return found ? found : find_in("/usr/local/cuda/bin:/opt/cuda/bin", name);
}

/* `in` and `err`, not below FDS, become the program's standard input and error; it shares the command's where one is
 * negative. *out gets its output, and *ended how it ended, as waitpid tells. Returns 0, or a negative errno where it
 * cannot be started. */
static int run_program(char **out, size_t *length, int *ended, int in, int err, const char *const *argv)
{
    int ends[2];
    pid_t child = 0;
    *out = NULL;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    int error = kiln__spawn_raise(&ends[1], FDS);
    const int fds[FDS] = { in, ends[1], err };
    /* The words are not written to, the type only dates from before const. */
    const kiln__spawn_options options = { argv[0], (char *const *)(uintptr_t)argv, .fds = fds, .fd_count = FDS };
    if (!error)
        error = kiln__spawn(&child, &options);
    kiln__spawn_close(&ends[1]);
    FILE *output = error ? NULL : fdopen(ends[0], "r");
    if (!output) {
        close(ends[0]);
        return error ? error : -errno;
    }
    whole_stream(out, length, output, SIZE_MAX);
    fclose(output);
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
    int ended = 0, error = run_program(out, length, &ended, -1, -1, argv);
    if (error)
        return fail(STATUS_FAILED, "%s: cannot be run: %s", argv[0], strerror(-error));
    if (has_succeeded(ended))
        return STATUS_DONE;
    return fail(STATUS_FAILED, "%s: failed with status %d", argv[0], WIFEXITED(ended) ? WEXITSTATUS(ended) : -1);
}

/* A file in memory with that text, to be read from its start, not below FDS; negative, with errno, after a failure. */
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

/* The last line that is not blank, without the blanks around it; NULL if there is none. Closes the file. */
static char *last_line(int fd)
{
    size_t length = 0;
    char *text = NULL;
    lseek(fd, 0, SEEK_SET);
    FILE *file = fdopen(fd, "r");
    if (!file)
        out_of_memory();
    whole_stream(&text, &length, file, SIZE_MAX);
    fclose(file);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]))
        text[--length] = '\0';
    char *start = strrchr(text, '\n');
    start = start ? start + 1 : text;
    start += strspn(start, " \t\r");
    return *start ? start : NULL;
}

int capture_filter(char **out, size_t *length, char **complaint, const char *const *argv, const char *input,
                   size_t input_length)
{
    int in = memory_file(input, input_length), err = memory_file(NULL, 0), ended = 0;
    int error = in < 0 || err < 0 ? -errno : run_program(out, length, &ended, in, err, argv);
    char *line = err >= 0 ? last_line(err) : NULL;
    if (in >= 0)
        close(in);
    *complaint = NULL;
    if (error)
        *complaint = need_copy(strerror(-error));
    else if (WIFSIGNALED(ended))
        *complaint = need_format("killed by signal %d", WTERMSIG(ended));
    else if (!has_succeeded(ended))
        *complaint = line ? line : need_format("exit status %d", WEXITSTATUS(ended));
    return *complaint ? STATUS_FAILED : STATUS_DONE;
}

int capture_file(char **out, const char *suffix, const void *data, size_t length)
{
    const char *directory = getenv("TMPDIR");
    *out = need_format("%s/kiln-XXXXXX%s", directory && *directory ? directory : "/tmp", suffix);
    struct output file = { .path = *out, .fd = mkostemps(*out, (int)strlen(suffix), O_CLOEXEC) };
    if (file.fd < 0)
        return fail(STATUS_FAILED, "%s: cannot be made: %s", *out, strerror(errno));
    int status = output_write(&file, data, length) == STATUS_DONE ? STATUS_DONE : STATUS_FAILED;
    close(file.fd);
    if (status)
        unlink(*out);
    return status;
}
