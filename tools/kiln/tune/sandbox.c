/* Starts and watches child processes that tune. Orders and results go over as JSON in files in memory. */
#include "tune/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/spawn.h"
#include "text/format.h"

/* The child's descriptors, beside the output and the error that it shares. */
enum { JOB_FD = 0, RESULT_FD = 3, VIEW_FD = 4, FDS = 5 };
enum { MOST_SKIPPED = 8, LOOK_NS = 20000000 };

/* ---- Both sides */

/* Files in memory, not pipes: neither side ever waits for the other, or is killed by a write to one that has ended. */
static int memory_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    int error = fd < 0 ? -errno : kiln__spawn_raise(&fd, FDS);
    if (error)
        exit(fail(STATUS_FAILED, "no file in memory for a child process: %s", strerror(-error)));
    return fd;
}

static tune_view *map_view(int fd)
{
    tune_view *view = mmap(NULL, sizeof(*view), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return view != MAP_FAILED ? view : NULL;
}

tune_view *sandbox_view(int *fd)
{
    *fd = memory_file("kiln-view");
    tune_view *view = ftruncate(*fd, sizeof(*view)) == 0 ? map_view(*fd) : NULL;
    if (!view)
        out_of_memory();
    return view;
}

void sandbox_view_free(tune_view *view, int fd)
{
    munmap(view, sizeof(*view));
    close(fd);
}

static json_t *texts_json(const text_list *list)
{
    json_t *texts = json_array();
    for (size_t i = 0; list && i < list->count; i++)
        json_add(texts, json_text(list->items[i]));
    return texts;
}

static json_t *order_json(const sandbox *box, const tune_job *job)
{
    const common_args *common = box->common;
    json_t *skips = json_array();
    for (size_t i = 0; i < job->skip_count; i++)
        json_add(skips, json_new("spec", json_text(job->skip[i].spec), "reason", json_text(job->skip[i].reason), NULL));
    return json_new("spec", json_text(job->spec), "sizes", texts_json(&job->texts.sizes), "numbers",
                    texts_json(&job->texts.numbers), "budget", json_count(job->budget), "hot", json_boolean(job->hot),
                    "no_learn", json_boolean(job->no_learn), "verbose", json_boolean(common->verbose), "parent",
                    json_count((uint64_t)getpid()), "device", json_text(job->device), "default_device",
                    json_text(common->device), "cache_dir", json_text(common->cache_dir), "ops",
                    texts_json(common->ops), "templates", texts_json(common->templates), "skip", skips, NULL);
}

/* ---- The child */

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static uint64_t count_of(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static text_list texts_of(const json_t *order, const char *key)
{
    const json_t *texts = json_object_get(order, key);
    text_list list = { NULL, 0 };
    for (size_t i = 0; i < json_array_size(texts); i++)
        text_list_add(&list, json_string_value(json_array_get(texts, i)));
    return list;
}

static json_t *tune_for_parent(const json_t *order, tune_view *view)
{
    const json_t *list = json_object_get(order, "skip");
    kiln_skip *skips = need_array(NULL, json_array_size(list), sizeof(*skips));
    const text_list ops = texts_of(order, "ops"), templates = texts_of(order, "templates");
    const common_args common = { .ops = &ops,
                                 .templates = &templates,
                                 .cache_dir = text_of(order, "cache_dir"),
                                 .device = text_of(order, "default_device"),
                                 .verbose = json_is_true(json_object_get(order, "verbose")) };
    const tune_job job = { .spec = text_of(order, "spec"),
                           .device = text_of(order, "device"),
                           .texts = { texts_of(order, "sizes"), texts_of(order, "numbers") },
                           .budget = (uint32_t)count_of(order, "budget"),
                           .hot = json_is_true(json_object_get(order, "hot")),
                           .no_learn = json_is_true(json_object_get(order, "no_learn")),
                           .skip = skips,
                           .skip_count = json_array_size(list) };
    for (size_t i = 0; i < job.skip_count; i++) {
        const json_t *skip = json_array_get(list, i);
        skips[i] = (kiln_skip){ text_of(skip, "spec"), text_of(skip, "reason") };
    }
    struct session session;
    json_t *result = session_open(&session, &common)
                         ? tune_failure(KILN_EINVAL, "the child process could not open a service", NULL, NULL)
                         : tune_here(session.service, &job, view);
    session_close(&session);
    return result;
}

int sandbox_child(void)
{
    fcntl(RESULT_FD, F_SETFD, FD_CLOEXEC);
    fcntl(VIEW_FD, F_SETFD, FD_CLOEXEC);
    json_t *order = json_loadf(stdin, 0, NULL);
    tune_view *view = map_view(VIEW_FD);
    if (!order || !view || !text_of(order, "spec"))
        return fail(STATUS_USAGE, "%s is for kiln itself", SANDBOX_FLAG);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((uint64_t)getppid() != count_of(order, "parent"))
        return STATUS_FAILED; /* it died before that */
    return json_dumpfd(tune_for_parent(order, view), RESULT_FD, 0) ? STATUS_FAILED : STATUS_DONE;
}

/* ---- The parent */

/* Starts a child with an order and a file for its result. Returns 0 or an errno. */
static int start_child(pid_t *out, int job_fd, int result_fd, int view_fd)
{
    char program[] = "kiln", command[] = "tune", flag[] = SANDBOX_FLAG;
    char *const arguments[] = { program, command, flag, NULL };
    const int fds[FDS] = { [JOB_FD] = job_fd, -1, -1, [RESULT_FD] = result_fd, [VIEW_FD] = view_fd };
    const kiln__spawn_options options = { "/proc/self/exe", arguments, .fds = fds, .fd_count = FDS };
    sigset_t interrupt, before;
    /* Ctrl-C reaches all processes of the terminal. The child has this mask, and learns of it through the view. */
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    int error = kiln__spawn(out, &options);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

/* Waits for the child's end, and ends it if a launch takes too long. Returns its wait status; *hung tells. */
static int watch_child(pid_t child, const tune_view *view, uint32_t hang_s, bool *hung)
{
    const struct timespec look = { 0, LOOK_NS };
    unsigned tries = atomic_load(&view->tries);
    double since = now_seconds();
    int status = 0;
    *hung = false;
    while (waitpid(child, &status, WNOHANG) == 0) {
        unsigned now = atomic_load(&view->tries);
        if (now != tries || now % 2 == 0)
            since = now_seconds();
        tries = now;
        if (!*hung && now_seconds() - since > hang_s) {
            *hung = true;
            kill(child, SIGKILL);
        }
        nanosleep(&look, NULL);
    }
    return status;
}

/* A result for a child that gave none: how it ended, and the variant that it was trying. */
static json_t *explain_end(const tune_view *view, int status, bool hung, uint32_t hang_s, const char *question)
{
    const char *suspect = atomic_load(&view->tries) % 2 == 1 ? view->variant : NULL;
    const char *ask = suspect && question ? need_format("; %s", question) : "";
    const char *message = hung ? need_format("did not end within %u s", (unsigned)hang_s)
                          : WIFSIGNALED(status)
                              ? need_format("ended its process: %s%s", strsignal(WTERMSIG(status)), ask)
                              : need_format("ended its process with status %d", WEXITSTATUS(status));
    return tune_failure(KILN_ECRASHED, message, NULL, suspect);
}

/* Tunes in one child. *out is the result, read. */
static json_t *tune_once(tune_result *out, const sandbox *box, const tune_job *job, tune_view *view)
{
    int job_fd = memory_file("kiln-job"), result_fd = memory_file("kiln-result");
    pid_t child = 0;
    json_t *result = NULL;
    atomic_store(&view->tries, 0);
    atomic_store(&view->began_ms, 0);
    bool ordered = json_dumpfd(order_json(box, job), job_fd, 0) == 0 && lseek(job_fd, 0, SEEK_SET) == 0;
    int error = ordered ? start_child(&child, job_fd, result_fd, box->view_fd) : EIO;
    if (error) {
        result = tune_failure(KILN_EIO, need_format("cannot start a child process: %s", strerror(error)), NULL, NULL);
    } else {
        bool hung = false;
        int status = watch_child(child, view, box->hang_s, &hung);
        if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_DONE && lseek(result_fd, 0, SEEK_SET) == 0)
            result = json_loadfd(result_fd, 0, NULL);
        if (!result || !tune_read(out, result))
            result = explain_end(view, status, hung, box->hang_s, job->question);
    }
    tune_read(out, result);
    close(job_fd);
    close(result_fd);
    return result;
}

/* The message of a failure without the variant behind it, which the list of variants names anyway. */
static char *reason_of(const tune_result *failure)
{
    char *reason = need_copy(failure->message);
    char *name = strstr(reason, "; this was being tried: ");
    if (name)
        *name = '\0';
    return reason;
}

json_t *sandbox_tune(const sandbox *box, const tune_job *job, tune_view *view)
{
    kiln_skip skips[MOST_SKIPPED];
    tune_result found;
    tune_job rest = *job;
    rest.skip = skips;
    json_t *result = tune_once(&found, box, &rest, view);
    while (found.suspect && rest.skip_count < MOST_SKIPPED && !atomic_load(&view->stop)) {
        kiln_status earlier = found.status;
        skips[rest.skip_count++] = (kiln_skip){ found.suspect, reason_of(&found) };
        result = tune_once(&found, box, &rest, view);
        /* A child refuses to skip the default geometry. Its message says so; the status stays that of the culprit. */
        if (found.status == KILN_EINVAL)
            return tune_failure(earlier, found.message, NULL, NULL);
    }
    if (!found.suspect)
        return result;
    /* A crash does not name its variant. */
    const char *after = rest.skip_count == MOST_SKIPPED
                            ? need_format(", after %zu variants that had to be left out", rest.skip_count)
                            : "";
    return tune_failure(found.status,
                        need_format("%s%s; this was being tried: %s", reason_of(&found), after, found.suspect), NULL,
                        NULL);
}
