/* The daemon, which compiles for all processes of a user on a machine, and its figures. docs/daemon.md is the guide. */
#ifndef KILN_DAEMON_H
#define KILN_DAEMON_H

#include <kiln/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_serve_options {
    size_t size;
    const kiln_options *service; /* of the daemon's service, and kiln_options.socket, where it listens; NULL: defaults.
                                    isolate is KILN_ISOLATE_ALWAYS where it is not set */
    uint32_t idle_s;             /* it ends after so many seconds without a request other than for figures; 0: never */
    void (*ready)(void *data, const char *socket); /* called once it listens; may be NULL */
    void *data;
} kiln_serve_options;

/* Serves the processes of this user until SIGTERM or SIGINT comes, or it was idle for idle_s. Blocks until then, and
 * until what was asked is answered. SIGHUP has it read its options' files anew. Of one process it is the last call of
 * Kiln: it handles these signals, ignores SIGPIPE and raises the limit of open files. Hosts of this user that have the
 * same store ask it by themselves (kiln_options.socket).
 * Errors: those of kiln_open, KILN_EIO (a daemon serves there, or is about to end: report.native is EAGAIN; another
 * program listens there; the directory of the socket is of no use), KILN_EINVAL (no path for a socket), KILN_ENOENT (no
 * store on disk). */
KILN_API KILN_MUST_USE kiln_status kiln_serve(const kiln_serve_options *options, kiln_report *report);

/* Has the daemon at kiln_options.socket end once what was asked of it is answered. Blocks until then, at most for
 * wait_ms. Opens no service. `options` may be NULL.
 * Errors: as kiln_daemon_figures. */
KILN_API KILN_MUST_USE kiln_status kiln_daemon_stop(const kiln_options *options, uint32_t wait_ms, kiln_report *report);

/* Gives the figures of the daemon at kiln_options.socket as JSON, which the caller frees with kiln_text_free. Opens no
 * service. Blocks for 5 s at most. docs/daemon.md lists the figures. `options` may be NULL.
 * Errors: KILN_ENOENT (no daemon answers there), KILN_EIO (one of another user, or of another version), KILN_ETIMEDOUT,
 * KILN_ENOMEM, and those of kiln_open's options. */
KILN_API KILN_MUST_USE kiln_status kiln_daemon_figures(char **out, const kiln_options *options, kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
