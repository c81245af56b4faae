#include "tune/tunecrew.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/options.h"
#include "cli/progress.h"
#include "text/format.h"

enum { LOOK_NS = 100000000 };

typedef struct crew_state crew_state;

typedef struct worker {
    crew_state *state;
    const tune_device *device;
    tune_view *view;
    sandbox box;
    bool busy; /* guarded by the state's lock */
} worker;

/* Guarded by the lock, but for what is constant. */
struct crew_state {
    const tune_crew *crew;
    worker *workers;
    tune_result **results; /* of spec s for model m: s * models + m */
    size_t *next;          /* of each model: the spec that is to be tuned next */
    size_t working;        /* workers that have not ended */
    size_t done;
    bool closing; /* nothing more is begun */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static atomic_int interrupted; /* set by a signal handler on any thread */

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    atomic_store(&interrupted, 1);
}

/* ---- Devices */

static void add_device(tune_crew *crew, const char *name, size_t length)
{
    crew->devices = need_array(crew->devices, crew->device_count + 1, sizeof(*crew->devices));
    crew->devices[crew->device_count++] = (tune_device){ .name = name ? need_format("%.*s", (int)length, name) : NULL };
}

static int add_named(tune_crew *crew, const char *names)
{
    for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t length = strcspn(at, ",");
        for (size_t i = 0; i < crew->device_count; i++)
            if (strlen(crew->devices[i].name) == length && strncmp(crew->devices[i].name, at, length) == 0)
                return fail(STATUS_USAGE, "--device %s names %s twice", names, crew->devices[i].name);
        add_device(crew, at, length);
    }
    return STATUS_DONE;
}

static int add_all(tune_crew *crew, struct session *session)
{
    kiln_status status = KILN_OK;
    for (int i = 0; !status; i++) {
        kiln_device *device = NULL;
        char *name = need_format("cuda:%d", i);
        status = kiln_device_open(&device, session->service, name, &session->report);
        if (!status)
            add_device(crew, name, strlen(name));
        free(name);
    }
    if (status != KILN_ENODEVICE)
        return session_fail(session, status, NULL);
    if (crew->device_count == 0)
        return fail(STATUS_FAILED, "--device all: the driver shows no GPU; see nvidia-smi, or use --device cpu");
    return STATUS_DONE;
}

/* Two devices of one model find the same. */
static int find_models(tune_crew *crew, struct session *session)
{
    kiln_device_info *infos = need_array(NULL, crew->device_count, sizeof(*infos));
    kiln_status status = KILN_OK;
    crew->model_count = 0;
    for (size_t i = 0; i < crew->device_count && !status; i++) {
        kiln_device *device = NULL;
        infos[i].size = sizeof(infos[i]);
        status = kiln_device_open(&device, session->service, crew->devices[i].name, &session->report);
        if (status)
            break;
        kiln_device_get_info(device, &infos[i]);
        size_t same = 0;
        while (same < i && (strcmp(infos[same].model, infos[i].model) != 0 ||
                            infos[same].multiprocessors != infos[i].multiprocessors))
            same++;
        crew->devices[i].model = same < i ? crew->devices[same].model : crew->model_count++;
    }
    free(infos);
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

int tune_crew_devices(tune_crew *crew, struct session *session, const char *names)
{
    bool all = names && strcmp(names, "all") == 0;
    crew->model_count = 1;
    if (!all && (!names || !strchr(names, ','))) {
        add_device(crew, NULL, 0);
        return STATUS_DONE;
    }
    int status = all ? add_all(crew, session) : add_named(crew, names);
    return status ? status : find_models(crew, session);
}

void tune_crew_free(tune_crew *crew)
{
    for (size_t i = 0; i < crew->device_count; i++)
        free(crew->devices[i].name);
    for (size_t i = 0; i < crew->spec_count; i++)
        free(crew->specs[i]);
    free(crew->devices);
    free(crew->specs);
    free(crew->boxed);
}

/* ---- Workers */

/* The number of the next result that this worker is to make, or SIZE_MAX. */
static size_t take(worker *self)
{
    crew_state *state = self->state;
    size_t model = self->device->model, result = SIZE_MAX;
    pthread_mutex_lock(&state->lock);
    self->busy = !state->closing && !atomic_load(&interrupted) && state->next[model] < state->crew->spec_count;
    if (self->busy) {
        result = state->next[model]++ * state->crew->model_count + model;
        memset(self->view, 0, sizeof(*self->view));
    }
    pthread_mutex_unlock(&state->lock);
    return result;
}

static void put(worker *self, size_t number, tune_result *result)
{
    crew_state *state = self->state;
    pthread_mutex_lock(&state->lock);
    state->results[number] = result;
    state->done++;
    state->closing = state->closing || result->status;
    self->busy = false;
    pthread_cond_signal(&state->changed);
    pthread_mutex_unlock(&state->lock);
}

static void *work(void *data)
{
    worker *self = data;
    const tune_crew *crew = self->state->crew;
    for (size_t number = take(self); number != SIZE_MAX; number = take(self)) {
        tune_job job = crew->like;
        job.spec = crew->specs[number / crew->model_count];
        job.device = self->device->name;
        put(self, number,
            crew->boxed[number / crew->model_count] ? sandbox_tune(&self->box, &job, self->view)
                                                    : tune_here(crew->service, &job, self->view));
    }
    pthread_mutex_lock(&self->state->lock);
    self->state->working--;
    pthread_cond_signal(&self->state->changed);
    pthread_mutex_unlock(&self->state->lock);
    return NULL;
}

static void start(crew_state *state, pthread_t *threads)
{
    const tune_crew *crew = state->crew;
    for (size_t i = 0; i < crew->device_count; i++) {
        worker *self = &state->workers[i];
        *self = (worker){ .state = state, .device = &crew->devices[i], .box = crew->box };
        self->view = sandbox_view(&self->box.view_fd);
        state->working++;
    }
    for (size_t i = 0; i < crew->device_count; i++)
        if (pthread_create(&threads[i], NULL, work, &state->workers[i]) != 0) {
            fail(STATUS_FAILED, "cannot start a thread");
            exit(STATUS_FAILED);
        }
}

/* ---- The calling thread */

/* Seconds that a tuning may still take, by its budget; all of it before it has begun. */
static double left_of(const tune_view *view, double budget)
{
    double began = (double)atomic_load(&view->began_ms) / 1e3, now = (double)atomic_load(&view->now_ms) / 1e3;
    double left = began > 0 ? budget - (now - began) : budget;
    return left > 0 ? left : 0;
}

/* Seconds for what is not begun: a model's devices take it in rounds. */
static double waiting_of(const crew_state *state, double budget)
{
    const tune_crew *crew = state->crew;
    size_t most = 0;
    for (size_t m = 0; m < crew->model_count; m++) {
        size_t devices = 0;
        for (size_t i = 0; i < crew->device_count; i++)
            devices += crew->devices[i].model == m;
        size_t rounds = devices > 0 ? (crew->spec_count - state->next[m] + devices - 1) / devices : 0;
        most = rounds > most ? rounds : most;
    }
    return (double)most * budget;
}

static char *describe(const tune_view *view)
{
    uint64_t ready = atomic_load(&view->ready), out = atomic_load(&view->out);
    return need_format("%" PRIu64 " of %" PRIu64 " variants checked, %" PRIu64 " out, %" PRIu64 " samples", ready + out,
                       (uint64_t)atomic_load(&view->variants), out, (uint64_t)atomic_load(&view->samples));
}

/* What is at work, and at most how long: by the budget, for nobody knows before when a search will be sure. */
static void show(crew_state *state, struct progress *progress)
{
    const tune_crew *crew = state->crew;
    double budget = crew->like.budget ? crew->like.budget : TUNE_BUDGET_S, left = 0;
    size_t all = crew->spec_count * crew->model_count, busy = 0;
    const tune_view *view = NULL;
    char clock[FORMAT_ROOM];
    for (size_t i = 0; i < crew->device_count; i++)
        if (state->workers[i].busy) {
            view = state->workers[i].view;
            left = left_of(view, budget) > left ? left_of(view, budget) : left;
            busy++;
        }
    if (!view)
        return;
    char *place = all > 1 ? need_format("%zu of %zu tuned, ", state->done, all) : need_copy("");
    char *now = busy > 1 ? need_format("%zu devices at work", busy) : describe(view);
    char *words =
        need_format("%s%s; at most %s left", place, now, format_clock(clock, left + waiting_of(state, budget)));
    progress_say(progress, all > 1 ? (double)state->done / (double)all : 1 - left / budget, words);
    free(place);
    free(now);
    free(words);
}

static void pass_on_interrupt(crew_state *state)
{
    for (size_t i = 0; atomic_load(&interrupted) && i < state->crew->device_count; i++)
        if (state->workers[i].busy)
            atomic_store(&state->workers[i].view->stop, 1);
}

/* Hands out what is there, in order, and waits for the rest. */
static void attend(crew_state *state, tune_result_fn fn, void *data)
{
    size_t all = state->crew->spec_count * state->crew->model_count, next = 0;
    struct progress progress;
    progress_start(&progress, all, false);
    pthread_mutex_lock(&state->lock);
    for (;;) {
        while (next < all && state->results[next]) {
            progress_end();
            if (!fn(data, state->results[next++]))
                state->closing = true;
        }
        if (state->working == 0)
            break;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&state->changed, &state->lock, &until);
        pass_on_interrupt(state);
        show(state, &progress);
    }
    pthread_mutex_unlock(&state->lock);
    progress_end();
    for (; next < all; next++) /* behind one that was not begun any more */
        if (state->results[next])
            fn(data, state->results[next]);
}

void tune_crew_work(const tune_crew *crew, tune_result_fn fn, void *data)
{
    struct sigaction once = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART }, old;
    size_t all = crew->spec_count * crew->model_count;
    crew_state state = { .crew = crew, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    pthread_t *threads = need_array(NULL, crew->device_count, sizeof(*threads));
    state.workers = need_array(NULL, crew->device_count, sizeof(*state.workers));
    state.results = need_alloc(all * sizeof(*state.results));
    state.next = need_alloc(crew->model_count * sizeof(*state.next));
    sigaction(SIGINT, &once, &old);
    start(&state, threads);
    attend(&state, fn, data);
    for (size_t i = 0; i < crew->device_count; i++) {
        pthread_join(threads[i], NULL);
        sandbox_view_free(state.workers[i].view, state.workers[i].box.view_fd);
    }
    sigaction(SIGINT, &old, NULL);
    for (size_t i = 0; i < all; i++)
        tune_result_free(state.results[i]);
    free(state.results);
    free(state.next);
    free(state.workers);
    free(threads);
}
