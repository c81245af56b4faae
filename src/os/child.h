/* A long-lived child process that is talked to over a socket. */
#ifndef KILN_OS_CHILD_H
#define KILN_OS_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* Zero-initialise with KILN__CHILD_NONE. One thread at a time. */
typedef struct kiln__child {
    int socket; /* our end, closed on exec; -1: there is no child */
    int pidfd;  /* -1 where the system has none */
    pid_t pid;  /* 0 once it is known to be no child of ours any more */
} kiln__child;

#define KILN__CHILD_NONE          \
    (kiln__child)                 \
    {                             \
        .socket = -1, .pidfd = -1 \
    }

/* Starts the program at `path` (kiln__spawn) with one end of a stream socket as its standard input and /dev/null as its two
 * outputs. Its death is seen as the end of the stream: nothing here needs SIGCHLD, and the host may ignore it or reap any
 * child. 0 or a negative errno, and there is no child then. */
int kiln__child_start(kiln__child *out, const char *path, char *const *argv);

/* Whether something has stopped it (SIGSTOP), as far as the kernel tells its parent. It may go on at any time. */
bool kiln__child_is_stopped(const kiln__child *child);

/* Closes the socket, kills the child and reaps it, waiting a second at most. Returns how it ended, be it before the kill: its
 * exit status, 128 + signal, or -ECHILD if nobody can tell any more (the host reaped it) and -ETIMEDOUT if it is still
 * there. Without a child it does nothing and returns 0. */
int kiln__child_end(kiln__child *child);

#endif
