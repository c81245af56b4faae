/* A child process: how the library starts programs, and sees and ends them whatever the host does with its children. */
#ifndef KILN_OS_CHILD_H
#define KILN_OS_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* Zero-initialise with KILN__CHILD_NONE. One thread at a time. */
typedef struct kiln__child {
    int socket;  /* our end, closed on exec; -1: it has none */
    int pidfd;   /* -1 where the system has none */
    pid_t pid;   /* 0 once it is known to be no child of ours any more */
    pid_t group; /* its process group, which may outlive it; 0: there is no child */
} kiln__child;

#define KILN__CHILD_NONE          \
    (kiln__child)                 \
    {                             \
        .socket = -1, .pidfd = -1 \
    }

/* Where programs are looked for without a PATH. */
#define KILN__CHILD_PATH "/usr/bin:/bin"

/* Starts the program at `path` apart from the host (kiln__spawn) with `fds` as its descriptors and without a socket.
 * Its environment is a known one: LC_ALL=C and, of the host's, PATH, HOME, TMPDIR, LD_LIBRARY_PATH, CUDA_PATH,
 * CUDA_HOME and what begins with KILN_; in a process with raised rights only PATH=KILN__CHILD_PATH and LC_ALL=C. 0
 * or a negative errno, and there is no child then. */
int kiln__child_spawn(kiln__child *out, const char *path, char *const *argv, const int *fds, int count);

/* The same with one end of a stream socket as its standard input and /dev/null as its two outputs. Its death is seen
 * as the end of the stream: nothing here needs SIGCHLD, and the host may ignore it or reap any child. */
int kiln__child_start(kiln__child *out, const char *path, char *const *argv);

/* Whether it has ended, be it that the host has already reaped it. Leaves it to be reaped, so that its number stays
 * its own. */
bool kiln__child_has_ended(const kiln__child *child);

/* Whether something has stopped it (SIGSTOP), as far as the kernel tells its parent. It may go on at any time. */
bool kiln__child_is_stopped(const kiln__child *child);

/* Kills what is left of its process group, be it that the child itself has ended. */
void kiln__child_kill_group(const kiln__child *child);

/* Closes the socket, kills the child and reaps it, waiting a second at most. Returns how it ended, be it before the
 * kill: its exit status, 128 + signal, or -ECHILD if nobody can tell any more (the host reaped it) and -ETIMEDOUT if
 * it is still there. Without a child it does nothing and returns 0. */
int kiln__child_end(kiln__child *child);

#endif
