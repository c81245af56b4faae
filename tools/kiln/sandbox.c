#include "sandbox.h"

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

#include "format.h"
#include "os/spawn.h"

/* The child's descriptors, beside the output and the error that it shares. */
enum { JOB_FD = 0, RESULT_FD = 3, VIEW_FD = 4, FDS = 5 };
enum { MOST_SKIPPED = 8, LOOK_NS = 20000000 };

/* ---- Both sides: what goes over */

/* Files in memory, not pipes: neither side ever waits for the other, or is killed by writing to one that is gone. */
static int memory_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    int error = fd < 0 ? -errno : kiln__spawn_raise(&fd, FDS);
    if (error) {
        fail(STATUS_FAILED, "no file in memory for a child process: %s", strerror(-error));
        exit(STATUS_FAILED);
    }
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
    if (!view) {
        fail(STATUS_FAILED, "out of memory");
        exit(STATUS_FAILED);
    }
    return view;
}

void sandbox_view_free(tune_view *view, int fd)
{
    munmap(view, sizeof(*view));
    close(fd);
}

static json_t *texts_json(const text_list *list)
{
    json_t *texts = json_list();
    for (size_t i = 0; list && i < list->count; i++)
        json_add(texts, json_text(list->items[i]));
    return texts;
}

static json_t *job_json(const sandbox *box, const tune_job *job, json_t *skip)
{
    json_t *object = json_new();
    json_put_text(object, "spec", job->spec);
    json_put(object, "sizes", texts_json(&job->texts.sizes));
    json_put(object, "numbers", texts_json(&job->texts.numbers));
    json_put_count(object, "budget", job->budget);
    json_put_bool(object, "hot", job->hot);
    json_put_bool(object, "no_learn", job->no_learn);
    json_put_bool(object, "verbose", box->common->verbose);
    json_put_count(object, "parent", (uint64_t)getpid());
    if (job->device)
        json_put_text(object, "device", job->device);
    if (box->common->device)
        json_put_text(object, "default_device", box->common->device);
    if (box->common->cache_dir)
        json_put_text(object, "cache_dir", box->common->cache_dir);
    json_put(object, "ops", texts_json(box->common->ops));
    json_put(object, "templates", texts_json(box->common->templates));
    json_put(object, "skip", json_incref(skip));
    return object;
}

/* ---- The child */

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Borrows the texts; the caller frees the items. */
static text_list texts_of(const json_t *order, const char *key)
{
    const json_t *texts = json_object_get(order, key);
    text_list list = { need_array(NULL, json_array_size(texts), sizeof(*list.items)), json_array_size(texts) };
    for (size_t i = 0; i < list.count; i++)
        list.items[i] = json_string_value(json_array_get(texts, i));
    return list;
}

static json_t *tune_for_parent(const json_t *order, tune_view *view)
{
    const text_list ops = texts_of(order, "ops"), templates = texts_of(order, "templates");
    const common_args common = { .ops = &ops,
                                 .templates = &templates,
                                 .cache_dir = text_of(order, "cache_dir"),
                                 .device = text_of(order, "default_device"),
                                 .verbose = json_is_true(json_object_get(order, "verbose")) };
    const tune_job job = { .spec = text_of(order, "spec"),
                           .device = text_of(order, "device"),
                           .texts = { texts_of(order, "sizes"), texts_of(order, "numbers") },
                           .budget = (uint32_t)json_get_count(order, "budget"),
                           .hot = json_is_true(json_object_get(order, "hot")),
                           .no_learn = json_is_true(json_object_get(order, "no_learn")) };
    struct session session;
    json_t *result = session_open(&session, &common)
                         ? tune_failure(KILN_EINVAL, "the child process could not open a service", NULL, NULL)
                         : tune_here(session.service, &job, json_object_get(order, "skip"), view);
    session_close(&session);
    free(ops.items);
    free(templates.items);
    free(job.texts.sizes.items);
    free(job.texts.numbers.items);
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
    if ((uint64_t)getppid() != json_get_count(order, "parent"))
        return STATUS_FAILED; /* it died before that */
    json_t *result = tune_for_parent(order, view);
    int failed = json_dumpfd(result, RESULT_FD, 0);
    json_decref(result);
    json_decref(order);
    return failed ? STATUS_FAILED : STATUS_DONE;
}

/* ---- The parent */

typedef struct child {
    pid_t pid; /* below 0: none could be started, and `error` says why */
    int error;
    int job_fd, result_fd;
} child;

static int spawn(child *self, int view_fd)
{
    char program[] = "kiln", command[] = "tune", flag[] = SANDBOX_FLAG;
    char *const arguments[] = { program, command, flag, NULL };
    const int fds[FDS] = { [JOB_FD] = self->job_fd, -1, -1, [RESULT_FD] = self->result_fd, [VIEW_FD] = view_fd };
    const kiln__spawn_options options = { "/proc/self/exe", arguments, .fds = fds, .fd_count = FDS };
    sigset_t interrupt, before;
    /* Ctrl-C reaches all processes of the terminal; the child, which has our mask, learns of it through the view. */
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &before);
    int error = kiln__spawn(&self->pid, &options);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static child start(const sandbox *box, const tune_job *job, json_t *skip)
{
    child self = { .pid = -1, .job_fd = memory_file("kiln-job"), .result_fd = memory_file("kiln-result") };
    json_t *order = job_json(box, job, skip);
    if (json_dumpfd(order, self.job_fd, 0) != 0 || lseek(self.job_fd, 0, SEEK_SET) != 0)
        self.error = EIO;
    else
        self.error = spawn(&self, box->view_fd);
    if (self.error)
        self.pid = -1;
    json_decref(order);
    return self;
}

/* Waits for the child's end, and ends it if a launch takes too long. Returns its wait status; *hung tells. */
static int watch(const child *self, const tune_view *view, uint32_t hang_s, bool *hung)
{
    const struct timespec look = { 0, LOOK_NS };
    unsigned tries = atomic_load(&view->tries);
    double since = now_seconds();
    int status = 0;
    *hung = false;
    while (waitpid(self->pid, &status, WNOHANG) == 0) {
        unsigned now = atomic_load(&view->tries);
        if (now != tries || now % 2 == 0)
            since = now_seconds();
        tries = now;
        if (!*hung && now_seconds() - since > hang_s) {
            *hung = true;
            kill(self->pid, SIGKILL);
        }
        nanosleep(&look, NULL);
    }
    return status;
}

static json_t *read_result(const child *self)
{
    if (lseek(self->result_fd, 0, SEEK_SET) != 0)
        return NULL;
    return json_loadfd(self->result_fd, 0, NULL);
}

/* A result for a child that gave none: what ended it, and the variant that it was trying. */
static json_t *explain(const tune_view *view, int status, bool hung, uint32_t hang_s)
{
    const char *suspect = atomic_load(&view->tries) % 2 == 1 ? view->variant : NULL;
    char *message = NULL;
    if (hung)
        message = need_format("did not end within %u s", (unsigned)hang_s);
    else if (WIFSIGNALED(status))
        message = need_format("ended its process: %s", strsignal(WTERMSIG(status)));
    else
        message = need_format("ended its process with status %d", WEXITSTATUS(status));
    json_t *result = tune_failure(KILN_ECRASHED, message, NULL, suspect);
    free(message);
    return result;
}

static json_t *tune_once(const sandbox *box, const tune_job *job, json_t *skip, tune_view *view)
{
    bool hung = false;
    atomic_store(&view->tries, 0);
    atomic_store(&view->began_ms, 0);
    child self = start(box, job, skip);
    json_t *result = NULL;
    if (self.pid > 0) {
        int status = watch(&self, view, box->hang_s, &hung);
        if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_DONE)
            result = read_result(&self);
        if (!result)
            result = explain(view, status, hung, box->hang_s);
    } else {
        char *message = need_format("cannot start a child process: %s", strerror(self.error));
        result = tune_failure(KILN_EIO, message, NULL, NULL);
        free(message);
    }
    close(self.job_fd);
    close(self.result_fd);
    return result;
}

/* The report names the variant behind what happened; the list of variants does so anyway. */
static char *reason_of(const json_t *result)
{
    char *reason = need_copy(json_string_value(tune_error(result, "message")));
    char *name = strstr(reason, "; this was being tried: ");
    if (name)
        *name = '\0';
    return reason;
}

static void add_skip(json_t *skip, const char *suspect, const char *reason)
{
    json_t *entry = json_new();
    json_put_text(entry, "spec", suspect);
    json_put_text(entry, "reason", reason);
    json_add(skip, entry);
}

/* A crash says nothing of itself. Takes over the result. */
static json_t *name_suspect(json_t *result, const char *suspect, const char *reason, size_t skipped)
{
    char *message = skipped == MOST_SKIPPED
                        ? need_format("%s, after %zu variants that had to be left out; this was being tried: %s",
                                      reason, skipped, suspect)
                        : need_format("%s; this was being tried: %s", reason, suspect);
    json_t *named = tune_failure((kiln_status)json_integer_value(tune_error(result, "status")), message, NULL, suspect);
    free(message);
    json_decref(result);
    return named;
}

/* Where the default geometry is the culprit the next child refuses to skip it: that is what to say, but what happened decides
 * the status. Takes over the result. */
static json_t *keep_status(json_t *result, kiln_status earlier)
{
    const char *message = json_string_value(tune_error(result, "message"));
    if (!message || !earlier || json_integer_value(tune_error(result, "status")) != KILN_EINVAL)
        return result;
    json_t *kept = tune_failure(earlier, message, NULL, NULL);
    json_decref(result);
    return kept;
}

json_t *sandbox_tune(const sandbox *box, const tune_job *job, tune_view *view)
{
    json_t *skip = json_list();
    json_t *result = tune_once(box, job, skip, view);
    kiln_status earlier = KILN_OK;
    const char *suspect = json_string_value(tune_error(result, "suspect"));
    while (suspect) {
        char *reason = reason_of(result), *spec = need_copy(suspect);
        result = name_suspect(result, spec, reason, json_array_size(skip));
        bool again = json_array_size(skip) < MOST_SKIPPED && !atomic_load(&view->stop);
        if (again) {
            earlier = (kiln_status)json_integer_value(tune_error(result, "status"));
            add_skip(skip, spec, reason);
            json_decref(result);
            result = keep_status(tune_once(box, job, skip, view), earlier);
        }
        suspect = again ? json_string_value(tune_error(result, "suspect")) : NULL;
        free(reason);
        free(spec);
    }
    json_decref(skip);
    return result;
}
