#include "daemon/socket.h"

#include "base/number.h"
#include "base/report.h"
#include "jit/daemon/client.h"
#include "os/file.h"
#include "os/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FAIL(report, error, ...) kiln__fail(report, KILN_EIO, KILN__STAGE_OPEN, error, __VA_ARGS__)

enum { BACKLOG = 4096, GIVEN_FD = 3 };

/* Whether the environment's variable is this number. */
static bool names(const char *variable, uint64_t wanted)
{
    const char *text = kiln__trust_is_elevated() ? NULL : getenv(variable);
    uint64_t value;
    return text != NULL && kiln__number_parse_uint(text, strlen(text), &value) && value == wanted;
}

static bool is_listening(int fd)
{
    int listening = 0;
    socklen_t size = sizeof(listening);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

/* Opens the directory of a path. A descriptor, or -1 with a failure in *status. */
static int open_directory(const char *path, kiln_status *status, kiln_report *report)
{
    char directory[KILN__DAEMON_PATH_SIZE], buffer[128];
    struct stat facts;
    kiln__text_copy(directory, sizeof(directory), path);
    *strrchr(directory, '/') = '\0';
    int fd = kiln__file_make_directory(directory[0] != '\0' ? directory : "/");
    const char *why = fd < 0                   ? strerror(-fd)
                      : fstat(fd, &facts) != 0 ? strerror(errno)
                                               : kiln__trust_refuse_directory(&facts, 0, buffer, sizeof(buffer));
    if (why == NULL)
        return fd;
    *status = FAIL(report, fd < 0 ? -fd : 0, "the directory of the socket %s is of no use: %s", path, why);
    if (fd >= 0)
        close(fd);
    return -1;
}

static kiln_status take_lock(kiln__socket *out, int directory, kiln_report *report)
{
    char name[KILN__DAEMON_PATH_SIZE + 8];
    kiln__text_copy(name, sizeof(name), strrchr(out->path, '/') + 1);
    strcat(name, ".lock");
    int error = kiln__lock_open(&out->lock, kiln__file_open_private(directory, name));
    if (error >= 0)
        error = kiln__lock_try(&out->lock, 0);
    if (error == 0)
        return KILN_OK;
    return error == -EAGAIN ? FAIL(report, EAGAIN, "a daemon serves at %s already, or is about to end", out->path)
                            : FAIL(report, -error, "cannot lock %s.lock: %s", out->path, strerror(-error));
}

/* The lock is held: no daemon of Kiln listens. Another program may. */
static kiln_status bind_path(kiln__socket *out, kiln_report *report)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct stat before;
    kiln__text_copy(address.sun_path, sizeof(address.sun_path), out->path);
    out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (out->fd < 0)
        return FAIL(report, errno, "cannot make a socket: %s", strerror(errno));
    if (lstat(out->path, &before) == 0) {
        if (!S_ISSOCK(before.st_mode))
            return FAIL(report, 0, "%s is no socket: remove it, or name another path", out->path);
        if (connect(out->fd, (const struct sockaddr *)&address, sizeof(address)) == 0 || errno != ECONNREFUSED)
            return FAIL(report, 0, "another program listens at %s: name another path", out->path);
        unlink(out->path);
        close(out->fd);
        out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    const mode_t mask = umask(077);
    const bool bound = out->fd >= 0 && bind(out->fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
                       lstat(out->path, &out->made) == 0 && listen(out->fd, BACKLOG) == 0;
    const int error = errno;
    umask(mask);
    return bound ? KILN_OK : FAIL(report, error, "cannot listen at %s: %s", out->path, strerror(error));
}

kiln_status kiln__socket_open(kiln__socket *out, const char *path, kiln_report *report)
{
    *out = (kiln__socket){ .fd = -1, .lock = { .fd = -1 }, .path = path };
    if (path[0] != '/' || strlen(path) >= KILN__DAEMON_PATH_SIZE)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0,
                          "'%s' cannot be the path of a socket: name an absolute one of at most 107 bytes in "
                          "KILN_SOCKET",
                          path);
    kiln_status status = KILN_OK;
    int directory = open_directory(path, &status, report);
    if (directory >= 0) {
        out->given = names("LISTEN_PID", (uint64_t)getpid()) && names("LISTEN_FDS", 1) && is_listening(GIVEN_FD);
        status = take_lock(out, directory, report);
        if (status == KILN_OK && out->given) {
            out->fd = GIVEN_FD;
            fcntl(GIVEN_FD, F_SETFD, FD_CLOEXEC);
        } else if (status == KILN_OK) {
            status = bind_path(out, report);
        }
        close(directory);
    }
    if (status != KILN_OK)
        kiln__socket_close(out);
    return status;
}

void kiln__socket_close(kiln__socket *socket)
{
    struct stat now;
    if (socket->fd >= 0)
        close(socket->fd);
    socket->fd = -1;
    if (!socket->given && socket->made.st_ino != 0 && lstat(socket->path, &now) == 0 &&
        now.st_ino == socket->made.st_ino && now.st_dev == socket->made.st_dev)
        unlink(socket->path);
    kiln__lock_close(&socket->lock);
}
