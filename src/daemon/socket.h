/* The daemon's socket: one daemon listens at a path, by a lock that the kernel releases when its holder dies. */
#ifndef KILN_DAEMON_SOCKET_H
#define KILN_DAEMON_SOCKET_H

#include "os/lock.h"
#include <kiln/base.h>
#include <stdbool.h>
#include <sys/stat.h>

typedef struct kiln__socket {
    int fd; /* listens; -1: not open, or taken by its owner */
    kiln__lock lock;
    struct stat made; /* the socket's file */
    const char *path; /* borrowed */
    bool given;       /* by systemd, which owns the file */
} kiln__socket;

/* Listens at a path, or takes the socket that systemd gives (LISTEN_PID, LISTEN_FDS). Makes the directory, closed to
 * other users, if it is missing; they must not be able to write one that is there. KILN_EIO: another daemon has the
 * lock (report->native is EAGAIN), another program listens there, or the directory or the path is of no use.
 * KILN_EINVAL: the path is too long. */
kiln_status kiln__socket_open(kiln__socket *out, const char *path, kiln_report *report);

/* Removes the socket's file, if it still is this one's, and gives the lock back. */
void kiln__socket_close(kiln__socket *socket);

#endif
