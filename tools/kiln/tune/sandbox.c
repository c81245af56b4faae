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

static json_t *skips_json(const tune_job *job)
{
    json_t *list = json_list();
    for (size_t i = 0; i < job->skip_count; i++) {
        json_t *skip = json_new();
        json_put_text(skip, "spec", job->skip[i].spec);
        json_put_text(skip, "reason", job->skip[i].reason);
        json_add(list, skip);
    }
    return list;
}

static json_t *job_json(const sandbox *box, const tune_job *job)
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
    json_put(object, "skip", skips_json(job));
    return object;
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

/* Borrows the texts; the caller frees the items. */
static text_list texts_of(const json_t *order, const char *key)
{
    const json_t *texts = json_object_get(order, key);
    text_list list = { need_array(NULL, json_array_size(texts), sizeof(*list.items)), json_array_size(texts) };
    for (size_t i = 0; i < list.count; i++)
        list.items[i] = json_string_value(json_array_get(texts, i));
    return list;
}

/* As texts_of. */
static kiln_skip *skips_of(const json_t *order, size_t *count)
{
    const json_t *list = json_object_get(order, "skip");
    *count = json_array_size(list);
    kiln_skip *skips = need_array(NULL, *count, sizeof(*skips));
    for (size_t i = 0; i < *count; i++) {
        const json_t *skip = json_array_get(list, i);
        skips[i] = (kiln_skip){ text_of(skip, "spec"), text_of(skip, "reason") };
    }
    return skips;
}

static tune_result *tune_for_parent(const json_t *order, tune_view *view)
{
    size_t skip_count;
    kiln_skip *skips = skips_of(order, &skip_count);
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
                           .skip_count = skip_count };
    struct session session;
    tune_result *result = session_open(&session, &common)
                              ? tune_result_fail(KILN_EINVAL, "the child process could not open a service", NULL, NULL)
                              : tune_here(session.service, &job, view);
    session_close(&session);
    free(ops.items);
    free(templates.items);
    free(job.texts.sizes.items);
    free(job.texts.numbers.items);
    free(skips);
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
    tune_result *result = tune_for_parent(order, view);
    json_t *object = tune_result_json(result);
    int failed = json_dumpfd(object, RESULT_FD, 0);
    json_decref(object);
    tune_result_free(result);
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

static child start(const sandbox *box, const tune_job *job)
{
    child self = { .pid = -1, .job_fd = memory_file("kiln-job"), .result_fd = memory_file("kiln-result") };
    json_t *order = job_json(box, job);
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

static tune_result *read_result(const child *self)
{
    if (lseek(self->result_fd, 0, SEEK_SET) != 0)
        return NULL;
    json_t *object = json_loadfd(self->result_fd, 0, NULL);
    tune_result *result = tune_result_read(object);
    json_decref(object);
    return result;
}

/* A result for a child that gave none: what ended it, and the variant that it was trying. */
static tune_result *explain(const tune_view *view, int status, bool hung, uint32_t hang_s)
{
    const char *suspect = atomic_load(&view->tries) % 2 == 1 ? view->variant : NULL;
    char *message = NULL;
    if (hung)
        message = need_format("did not end within %u s", (unsigned)hang_s);
    else if (WIFSIGNALED(status))
        message = need_format("ended its process: %s", strsignal(WTERMSIG(status)));
    else
        message = need_format("ended its process with status %d", WEXITSTATUS(status));
    tune_result *result = tune_result_fail(KILN_ECRASHED, message, NULL, suspect);
    free(message);
    return result;
}

static tune_result *tune_once(const sandbox *box, const tune_job *job, tune_view *view)
{
    bool hung = false;
    atomic_store(&view->tries, 0);
    atomic_store(&view->began_ms, 0);
    child self = start(box, job);
    tune_result *result = NULL;
    if (self.pid > 0) {
        int status = watch(&self, view, box->hang_s, &hung);
        if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_DONE)
            result = read_result(&self);
        if (!result)
            result = explain(view, status, hung, box->hang_s);
    } else {
        char *message = need_format("cannot start a child process: %s", strerror(self.error));
        result = tune_result_fail(KILN_EIO, message, NULL, NULL);
        free(message);
    }
    close(self.job_fd);
    close(self.result_fd);
    return result;
}

/* The report names the variant behind what happened; the list of variants does so anyway. */
static char *reason_of(const tune_result *failure)
{
    char *reason = need_copy(failure->message);
    char *name = strstr(reason, "; this was being tried: ");
    if (name)
        *name = '\0';
    return reason;
}

/* A failure in place of another, which is freed. */
static tune_result *replace(tune_result *old, kiln_status status, const char *message)
{
    tune_result *fresh = tune_result_fail(status, message, NULL, NULL);
    tune_result_free(old);
    return fresh;
}

/* A crash says nothing of itself. Takes over the failure. */
static tune_result *name_suspect(tune_result *failure, size_t skipped)
{
    char *reason = reason_of(failure);
    char *message = skipped == MOST_SKIPPED
                        ? need_format("%s, after %zu variants that had to be left out; this was being tried: %s",
                                      reason, skipped, failure->suspect)
                        : need_format("%s; this was being tried: %s", reason, failure->suspect);
    tune_result *named = replace(failure, failure->status, message);
    free(message);
    free(reason);
    return named;
}

tune_result *sandbox_tune(const sandbox *box, const tune_job *job, tune_view *view)
{
    kiln_skip skips[MOST_SKIPPED];
    tune_job rest = *job;
    rest.skip = skips;
    tune_result *result = tune_once(box, &rest, view);
    while (result->suspect && rest.skip_count < MOST_SKIPPED && !atomic_load(&view->stop)) {
        kiln_status earlier = result->status;
        skips[rest.skip_count++] = (kiln_skip){ need_copy(result->suspect), reason_of(result) };
        tune_result_free(result);
        result = tune_once(box, &rest, view);
        /* A child refuses to skip the default geometry. Its message says so; the status stays that of the culprit. */
        if (result->status == KILN_EINVAL)
            result = replace(result, earlier, result->message);
    }
    if (result->suspect)
        result = name_suspect(result, rest.skip_count);
    for (size_t i = 0; i < rest.skip_count; i++) {
        free((char *)(uintptr_t)skips[i].spec);
        free((char *)(uintptr_t)skips[i].reason);
    }
    return result;
}
