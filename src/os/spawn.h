/* Starting programs, by posix_spawn, which does not copy a large host as fork does. Only this file calls it. The
 * command is built with this file as well, so it uses nothing else of src/. */
#ifndef KILN_OS_SPAWN_H
#define KILN_OS_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct kiln__spawn_options {
    const char *path; /* not searched in PATH */
    char *const *argv;
    char *const *environment; /* NULL: the caller's */
    const int *fds;           /* fds[i] becomes its descriptor i; -1: it has the caller's i */
    int fd_count;             /* it inherits no others */
    /* In a new process group, with default signal dispositions and an empty signal mask. Else it shares the caller's
     * group, so that the terminal's signals reach it, the caller's ignored signals and the calling thread's mask. */
    bool apart;
} kiln__spawn_options;

/* Starts a program, with the priority of the calling thread. No descriptor of `fds` may be from 0 to fd_count - 1
 * (kiln__spawn_raise). 0 or a negative errno. Any thread. */
int kiln__spawn(pid_t *out, const kiln__spawn_options *options);

/* Moves a descriptor, keeping it closed on exec, to `first` or above if it is below: a host may have closed 0, 1 and
 * 2. 0 or a negative errno; *fd stays open then. */
int kiln__spawn_raise(int *fd, int first);

/* Closes a descriptor if there is one and makes it -1. */
void kiln__spawn_close(int *fd);

#endif
