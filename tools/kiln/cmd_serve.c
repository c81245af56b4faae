/* kiln serve: the daemon, in front or in the background, and its end. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/options.h"
#include "commands.h"

enum { WAIT_MS = 60000 }; /* for another daemon to answer, or to end */

typedef struct serve_args {
    common_args common;
    uint32_t idle;
    bool background, stop;
} serve_args;

static const struct usage usage = {
    "kiln serve [options]",
    "Compiles kernels for all processes of this user that have the same cache directory, until it is told to end\n"
    "(SIGTERM). They find it at its socket: KILN_SOCKET, else kiln/socket in XDG_RUNTIME_DIR, else daemon/HOSTNAME in "
    "the\n"
    "cache directory. SIGHUP has it read secrets and libraries anew. It takes a socket of systemd, too.",
    "  kiln serve --background --idle 600\n"
    "  kiln serve --stop",
};

/* Where a daemon in the background says that it listens; -1: in front. */
static void on_ready(void *data, const char *socket)
{
    const int tell = *(const int *)data;
    if (tell < 0) {
        note("serving at %s", socket);
        return;
    }
    const int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2 && nowhere >= 0; fd++)
        dup2(nowhere, fd);
    if (nowhere > 2)
        close(nowhere);
    if (write(tell, "", 1) != 1)
        errno = 0; /* the command has gone, and no process waits */
    close(tell);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Whether a daemon answers. */
static bool is_running(const kiln_options *options)
{
    char *figures = NULL;
    const kiln_status status = kiln_daemon_figures(&figures, options, NULL);
    kiln_text_free(figures);
    return status == KILN_OK;
}

static int stop(const serve_args *args)
{
    kiln_report report = KILN_INIT(kiln_report);
    const kiln_options options = session_options(&args->common);
    const kiln_status status = kiln_daemon_stop(&options, WAIT_MS, &report);
    const int result = status ? fail_report(status, &report, NULL) : STATUS_DONE;
    kiln_report_clear(&report);
    return result;
}

/* Serves. A daemon in the background that finds another one waits until that answers, or has ended: one that has just
 * taken the lock may not listen yet, and on a busy machine it answers late. */
static int serve(const serve_args *args, int tell)
{
    const struct timespec pause = { .tv_nsec = 20000000 };
    const uint64_t until = now_ms() + WAIT_MS;
    kiln_report report = KILN_INIT(kiln_report);
    const kiln_options options = session_options(&args->common);
    kiln_serve_options how = KILN_INIT(kiln_serve_options);
    how.service = &options;
    how.idle_s = args->idle;
    how.ready = on_ready;
    how.data = &tell;
    kiln_status status = kiln_serve(&how, &report);
    while (status == KILN_EIO && report.native == EAGAIN && args->background && now_ms() < until) {
        if (is_running(&options)) {
            kiln_report_clear(&report);
            return STATUS_DONE;
        }
        nanosleep(&pause, NULL);
        status = kiln_serve(&how, &report);
    }
    const int result = status ? fail_report(status, &report, NULL) : STATUS_DONE;
    kiln_report_clear(&report);
    return result;
}

/* Returns once the daemon listens, or with the status with which it ended before. */
static int serve_behind(const serve_args *args)
{
    int ends[2], status = 0;
    char byte;
    if (pipe(ends) != 0)
        return fail(STATUS_FAILED, "cannot make a pipe: %s", strerror(errno));
    while (ends[0] <= 2 || ends[1] <= 2) /* a shell may have closed these */
        if (pipe(ends) != 0)
            return fail(STATUS_FAILED, "cannot make a pipe: %s", strerror(errno));
    const pid_t child = fork();
    if (child < 0)
        return fail(STATUS_FAILED, "cannot start a process: %s", strerror(errno));
    if (child == 0) {
        close(ends[0]);
        fcntl(ends[1], F_SETFD, FD_CLOEXEC);
        setsid();
        return serve(args, ends[1]);
    }
    close(ends[1]);
    const bool listens = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    if (listens)
        return STATUS_DONE;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_FAILED;
}

int command_serve(int argc, char **argv)
{
    serve_args args = { .idle = 0 };
    const option_row rows[] = {
        { "socket", 0, OPTION_TEXT, "PATH", "listen at PATH", &args.common.socket },
        { "idle", 0, OPTION_NUMBER, "SECONDS", "end after so long without a request", &args.idle },
        { "background", 0, OPTION_FLAG, NULL, "return once it listens", &args.background },
        { "stop", 0, OPTION_FLAG, NULL, "have the daemon end, and wait for that", &args.stop },
    };
    options_only(&usage, OPTION_ROWS(rows), &args.common, NULL, argc, argv);
    if (args.stop)
        return stop(&args);
    return args.background ? serve_behind(&args) : serve(&args, -1);
}
