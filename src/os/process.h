/* Programs that the library starts: children that it watches and ends, whatever the host does with its children, and
 * runs of a program to its end. All are started apart from the host (kiln__spawn). Their environment is a known one:
 * LC_ALL=C and, of the host's, PATH, HOME, TMPDIR, LD_LIBRARY_PATH, CUDA_PATH, CUDA_HOME and all that begin with KILN_.
 * In a process with raised rights it is PATH=/usr/bin:/bin and LC_ALL=C. */
#ifndef KILN_OS_PROCESS_H
#define KILN_OS_PROCESS_H

#include "base/text.h"
#include <sys/types.h>

/* KILN__CHILD_NONE before spawn or start. One thread at a time. */
typedef struct kiln__child {
    int socket;  /* this process's end, closed on exec; -1: none */
    int pidfd;   /* -1 where the system has none */
    pid_t pid;   /* 0 once it is known to be no child of this process any more */
    pid_t group; /* its process group, which may outlive it; 0: there is no child */
} kiln__child;

#define KILN__CHILD_NONE          \
    (kiln__child)                 \
    {                             \
        .socket = -1, .pidfd = -1 \
    }

/* Starts the program at `path` with `fds` as its descriptors and without a socket. 0, or a negative errno and no
 * child. */
int kiln__child_spawn(kiln__child *out, const char *path, char *const *argv, const int *fds, int count);

/* The same with one end of a stream socket as its standard input and /dev/null as its two outputs. Its death is seen
 * as the end of the stream, so SIGCHLD is not needed, and the host may ignore it or reap any child. */
int kiln__child_start(kiln__child *out, const char *path, char *const *argv);

/* Whether it has ended, also if the host has already reaped it. Leaves it to be reaped, so that no other process gets
 * its number. */
bool kiln__child_has_ended(const kiln__child *child);

/* Whether a signal has stopped it (SIGSTOP), as far as the kernel tells its parent. It may go on at any time. */
bool kiln__child_is_stopped(const kiln__child *child);

/* Kills the rest of its process group, also if the child has ended. */
void kiln__child_kill_group(const kiln__child *child);

/* Closes the socket, kills the child and reaps it, waiting a second at most. Returns its exit status or 128 + signal,
 * also of an end before the kill; -ECHILD if the host reaped it, so that its status is lost; -ETIMEDOUT if it is still
 * there. Without a child it does nothing and returns 0. */
int kiln__child_end(kiln__child *child);

/* Runs argv (argv[0] searched in kiln__process_path) with `input` on its standard input. Appends both its outputs to
 * `output`, at most 1 MiB (NULL: none). Blocks until it ends, at most `timeout_ms`, after which it and its process
 * group are killed; does not wait for programs that it left behind. Returns its exit status, 128 + signal of a killed
 * one, or a negative errno: -ENOENT (not found), -EACCES (not executable), -ETIMEDOUT, -ECHILD (the shell was killed
 * and its status is lost). It is run by /bin/sh, and its status comes through a pipe, so the host may ignore SIGCHLD or
 * reap any child. It inherits no descriptor but 0, 1 and 2. Any thread. */
int kiln__process_run(const char *const *argv, const char *input, size_t length, int timeout_ms, kiln__text *output);

/* The directories that are searched for programs, colons between them: PATH, or "/usr/bin:/bin" without one and in a
 * process with raised rights, whose user must not choose its programs. Valid until the environment changes. */
const char *kiln__process_path(void);

/* Writes the absolute path, links resolved, to which kiln__process_path leads for `program` (a name with a '/' is the
 * path). 0, -ENOENT, or -EACCES if it was found but may not be executed. */
int kiln__process_find(const char *program, char *out, size_t size);

#endif
