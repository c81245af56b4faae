/* Live handles. Their work in the background is a chain of steps, each on whatever thread it comes to. */
#include "tune/live.h"

#include "base/alloc.h"
#include "os/fork.h"
#include "tune/tuner.h"
#include "wisdom/describe.h"
#include <stddef.h>
#include <string.h>
#include <time.h>

static const char cut_short[] = "cancelled: the handle or its service was closed";

/* Drops a reference; the last one frees the handle. */
static void release_live(kiln_live *live)
{
    if (atomic_fetch_sub(&live->refs, 1) != 1)
        return;
    kiln__outcome_fini(&live->outcome);
    pthread_cond_destroy(&live->changed);
    pthread_mutex_destroy(&live->lock);
    kiln__want_release(live->wait.want);
    kiln__spec_release(live->spec);
    kiln__free(live);
}

/* A new reference to the kernel that is launched, or NULL. kiln_live_close may release the handle's own meanwhile. */
static kiln_kernel *retain_now(kiln_live *live)
{
    pthread_mutex_lock(&live->lock);
    kiln_kernel *kernel = atomic_load(&live->given_up) ? NULL : kiln__kernel_retain(atomic_load(&live->now));
    pthread_mutex_unlock(&live->lock);
    return kernel;
}

/* Ends the work: nothing more will come. Uses up the background's reference. The report is taken over. */
static void end_work(kiln_live *live, kiln_status status, kiln_report *report)
{
    kiln_kernel *kernel = status != KILN_OK && status != KILN_ECANCELED ? retain_now(live) : NULL;
    if (kernel != NULL)
        kiln__log_line(&live->service->log, KILN_LOG_WARN, "nothing better than %s: %s", kernel->spec, report->message);
    kiln__kernel_release(kernel);
    pthread_mutex_lock(&live->lock);
    live->outcome.status = status;
    if (status == KILN_OK)
        live->state = KILN_LIVE_SETTLED;
    else
        kiln__report_move(&live->outcome.report, report);
    live->measuring = false;
    live->pool = NULL;
    atomic_store_explicit(&live->ended, true, memory_order_release);
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
    kiln_report_clear(report);
    release_live(live);
}

static bool is_cut_short(const kiln_live *live)
{
    return atomic_load(&live->given_up) || atomic_load(&live->service->closing);
}

/* Ends a handle whose work cannot begin: it was closed, its service closes, or memory is out. */
static void end_undone(kiln_live *live)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = is_cut_short(live)
                             ? kiln__fail(&report, KILN_ECANCELED, KILN__STAGE_COMPILE, 0, "%s", cut_short)
                             : kiln__fail_memory(&report, KILN__STAGE_COMPILE);
    end_work(live, status, &report);
}

/* Takes over the reference. One store makes it the kernel that is launched; the one before stays, for a launch that has
 * read it a moment ago. */
static void install_kernel(kiln_live *live, kiln_kernel *kernel, kiln_live_state state)
{
    pthread_mutex_lock(&live->lock);
    bool better = !atomic_load(&live->given_up) && kernel != atomic_load(&live->now);
    if (better) {
        live->kernels[live->count++] = kernel;
        atomic_store_explicit(&live->now, kernel, memory_order_release);
    }
    live->state = state;
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
    if (!better)
        kiln__kernel_release(kernel);
}

/* Hands the job to a pool, unless the handle is being closed. */
static bool submit_job(kiln_live *live, kiln__workpool *pool, void (*run)(kiln__job *job, bool stopped),
                       kiln__lane lane)
{
    live->job.run = run;
    live->job.lane = lane;
    live->job.priority = live->priority;
    pthread_mutex_lock(&live->lock);
    bool taken = !atomic_load(&live->given_up) && kiln__workpool_submit(pool, &live->job);
    live->pool = taken ? pool : NULL;
    pthread_mutex_unlock(&live->lock);
    return taken;
}

/* ---- The fastest geometry */

/* kiln_live_close waits for a tuning as long as it measures. False if the handle has been closed. */
static bool begin_measuring(kiln_live *live)
{
    pthread_mutex_lock(&live->lock);
    live->measuring = !is_cut_short(live);
    bool goes_on = live->measuring;
    pthread_mutex_unlock(&live->lock);
    return goes_on;
}

static void end_measuring(kiln_live *live)
{
    pthread_mutex_lock(&live->lock);
    live->measuring = false;
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
}

/* kiln_progress_fn. The host's function is not called once the handle is closed. Before its turn a tuning launches
 * nothing, and kiln_live_close waits for this call alone. */
static int show_progress(void *data, const kiln_tuning_info *info)
{
    kiln_live *live = data;
    bool has_turn = info->waiting + info->verified + info->rejected > 0;
    if (is_cut_short(live) || (!live->measuring && !begin_measuring(live)))
        return 1;
    int ends = live->tuning.progress != NULL ? live->tuning.progress(live->tuning.data, info) : 0;
    if (!has_turn)
        end_measuring(live);
    return ends;
}

static kiln_status take_winner(kiln_live *live, const kiln_tuning *tuning, kiln_report *report)
{
    kiln_spec *spec;
    kiln_program *program;
    kiln_status status = kiln__spec_parse(&spec, live->spec->fields.catalog, tuning->table[0].spec, report);
    const kiln_request request = { .spec = spec, .device = live->on };
    if (status == KILN_OK)
        status = kiln__get(&program, live->service, &request, false, NULL, report);
    kiln__spec_release(spec);
    if (status != KILN_OK)
        return status;
    pthread_mutex_lock(&live->lock);
    live->ratio = tuning->table[0].ratio;
    pthread_mutex_unlock(&live->lock);
    install_kernel(live, program->kernels, KILN_LIVE_TUNING);
    return KILN_OK;
}

static kiln_status tune_spec(kiln_live *live, kiln_report *report)
{
    kiln_tuning *tuning;
    kiln_tune_options options = live->tuning;
    options.progress = show_progress;
    options.data = live;
    kiln_status status = kiln__tuning_make(&tuning, live->service, &live->spec->fields, &options, report);
    end_measuring(live); /* getting the winner may take a compile */
    if (status == KILN_OK && is_cut_short(live))
        status = kiln__fail(report, KILN_ECANCELED, KILN__STAGE_DEVICE, 0, "%s", cut_short);
    else if (status == KILN_OK)
        status = take_winner(live, tuning, report);
    kiln__tuning_free(tuning);
    return status;
}

static void run_tuning(kiln__job *job, bool stopped)
{
    kiln_live *live = (kiln_live *)((char *)job - offsetof(kiln_live, job));
    kiln_report report = KILN_INIT(kiln_report);
    if (stopped || is_cut_short(live)) {
        end_undone(live);
        return;
    }
    pthread_mutex_lock(&live->lock);
    live->state = KILN_LIVE_TUNING;
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
    kiln_status status = tune_spec(live, &report);
    end_work(live, status, &report);
}

/* The next step once the handle has the kernel that a get gives. */
static void go_on(kiln_live *live)
{
    kiln_report none = KILN_INIT(kiln_report);
    if (!live->tunes || !kiln__wisdom_is_open(&live->spec->fields))
        end_work(live, KILN_OK, &none);
    else if (!submit_job(live, &live->service->tunings, run_tuning, KILN__LANE_COMPILE))
        end_undone(live);
}

/* ---- The kernel that a get gives, and its stand-in */

static void take_outcome(kiln_live *live, const kiln__outcome *outcome)
{
    kiln_report report = KILN_INIT(kiln_report);
    if (outcome->program == NULL) {
        kiln_status status = kiln__outcome_tell(outcome, &report);
        end_work(live, status, &report);
        return;
    }
    install_kernel(live, kiln__program_retain(outcome->program)->kernels, KILN_LIVE_EXACT);
    go_on(live);
}

static void on_done(kiln__wait *wait, kiln__outcome *outcome)
{
    take_outcome((kiln_live *)((char *)wait - offsetof(kiln_live, wait)), outcome);
}

/* True if the wanted kernel is loaded. Otherwise a stand-in may be in place now. */
static bool find_loaded(kiln_live *live, const kiln__want *want)
{
    kiln_program *program = kiln__obtain_loaded(live->service, want);
    if (program != NULL) {
        install_kernel(live, program->kernels, KILN_LIVE_EXACT);
        return true;
    }
    if (atomic_load(&live->now) == NULL && (program = kiln__stand_in_loaded(live->service, want)) != NULL)
        install_kernel(live, program->kernels, KILN_LIVE_READY);
    return false;
}

/* Where the handle has no kernel, one is loaded from the stores here and now: the wanted one, else a stand-in. True if
 * the wanted kernel was there. */
static bool find_stored(kiln_live *live, kiln__want *want)
{
    kiln__outcome outcome;
    if (atomic_load(&live->now) != NULL)
        return false;
    bool taken = kiln__obtain_stored(live->service, want, &outcome);
    if (taken) {
        take_outcome(live, &outcome);
        kiln__outcome_fini(&outcome);
        return true;
    }
    kiln_program *program = kiln__stand_in_stored(live->service, want);
    if (program != NULL)
        install_kernel(live, program->kernels, KILN_LIVE_READY);
    return false;
}

/* A want of the handle's spec, settled. */
static kiln_status settle_want(kiln_live *live, kiln__want **out, kiln_report *report)
{
    const kiln_request request = { .spec = live->spec, .device = live->on };
    kiln_status status = kiln__want_make(out, &request, false, report);
    return status == KILN_OK ? kiln__want_settle(live->service, *out, report) : status;
}

static void look_around(kiln_live *live)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = settle_want(live, &live->wait.want, &report);
    if (status != KILN_OK)
        end_work(live, status, &report);
    else if (find_loaded(live, live->wait.want))
        go_on(live);
    else if (!find_stored(live, live->wait.want) && !kiln__obtain_later(&live->wait, live->priority))
        end_undone(live);
}

static void run_look(kiln__job *job, bool stopped)
{
    kiln_live *live = (kiln_live *)((char *)job - offsetof(kiln_live, job));
    if (stopped || is_cut_short(live))
        end_undone(live);
    else
        look_around(live);
}

/* Takes a loaded kernel where that takes no time. True if it is the wanted one. */
static bool take_loaded(kiln_live *live)
{
    kiln__want *want;
    kiln_program *hit = kiln__obtain_hit(live->service, live->on, live->spec, false);
    if (hit != NULL)
        install_kernel(live, hit->kernels, KILN_LIVE_EXACT);
    if (hit != NULL || !kiln__service_is_ready(live->service, live->on, &live->spec->fields))
        return hit != NULL;
    bool exact = settle_want(live, &want, NULL) == KILN_OK && find_loaded(live, want);
    kiln__want_release(want);
    return exact;
}

/* Takes a loaded kernel, if that takes no time, and lets threads of the service do the rest. A failure ends the
 * handle. */
static void start_work(kiln_live *live)
{
    if (take_loaded(live))
        go_on(live);
    else if (!submit_job(live, &live->service->pool, run_look, KILN__LANE_QUICK))
        end_undone(live);
}

/* ---- The handle */

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Copies the host's work, which is borrowed for the call. Of the arguments it copies the numbers: tuning makes the
 * arrays. The counts stay as they are, so that the tuning can refuse wrong ones before it reads the arrays. */
static void keep_work(kiln_live *live, const kiln_work *work)
{
    live->work = *work;
    live->work.device = live->on;
    live->tuning.work = &live->work;
    live->work.sizes = work->sizes != NULL ? live->sizes : NULL;
    live->work.args = work->args != NULL ? live->args : NULL;
    for (size_t i = 0; i < work->size_count && i < KILN__SIZES_MAX && work->sizes != NULL; i++)
        live->sizes[i] = work->sizes[i];
    for (size_t i = 0; i < work->arg_count && i < KILN__ARGS_MAX && work->args != NULL; i++) {
        const kiln_arg *given = &work->args[i];
        if (given->kind != KILN_ARG_VALUE || given->data == NULL || given->bytes > sizeof(*live->numbers))
            continue;
        memcpy(&live->numbers[i], given->data, given->bytes);
        live->args[i] = (kiln_arg){ KILN_ARG_VALUE, given->bytes, &live->numbers[i] };
    }
}

kiln_status kiln__live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                            const kiln_live_options *options, const kiln_tune_options *tuning, kiln_report *report)
{
    *out = NULL;
    kiln_status status = kiln__service_check_device(service, options->device, report);
    if (status != KILN_OK)
        return status;
    kiln_live *live = kiln__calloc(1, sizeof(*live));
    if (live == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    atomic_init(&live->refs, 2);
    live->service = live->wait.service = service;
    live->wait.done = on_done;
    live->on = options->device;
    live->spec = kiln__spec_retain(spec);
    live->priority = options->priority;
    live->tunes = tuning != NULL;
    if (tuning != NULL) {
        live->tuning = *tuning;
        keep_work(live, tuning->work);
    }
    live->state = KILN_LIVE_PENDING;
    pthread_mutex_init(&live->lock, NULL);
    init_condition(&live->changed);
    kiln__outcome_init(&live->outcome);
    live->generation = kiln__fork_generation();
    atomic_fetch_add(&service->gets, 1);
    *out = live;
    start_work(live);
    return KILN_OK;
}

void kiln__live_info(kiln_live *live, kiln_live_info *out)
{
    static const char *const names[] = {
        [KILN_LIVE_PENDING] = "pending", [KILN_LIVE_READY] = "ready",     [KILN_LIVE_EXACT] = "exact",
        [KILN_LIVE_TUNING] = "tuning",   [KILN_LIVE_SETTLED] = "settled", [KILN_LIVE_FAILED] = "failed"
    };
    pthread_mutex_lock(&live->lock);
    bool failed = live->outcome.status != KILN_OK;
    kiln_live_state state = failed ? KILN_LIVE_FAILED : live->state;
    *out = (kiln_live_info){ .size = sizeof(*out),
                             .state = state,
                             .state_name = names[state],
                             .spec = live->count > 0 ? live->kernels[live->count - 1]->spec : "",
                             .swaps = live->count > 0 ? live->count - 1 : 0,
                             .ratio = live->ratio,
                             .status = live->outcome.status,
                             .problem = failed ? live->outcome.report.message : "" };
    pthread_mutex_unlock(&live->lock);
}

static struct timespec time_in(int timeout_ms)
{
    struct timespec when;
    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_sec += timeout_ms / 1000;
    when.tv_nsec += timeout_ms % 1000 * 1000000L;
    when.tv_sec += when.tv_nsec / 1000000000;
    when.tv_nsec %= 1000000000;
    return when;
}

kiln_status kiln__live_wait(kiln_live *live, kiln_live_state state, int timeout_ms, kiln_report *report)
{
    struct timespec deadline = time_in(timeout_ms < 0 ? 0 : timeout_ms);
    int error = 0;
    pthread_mutex_lock(&live->lock);
    while (live->state < state && !atomic_load(&live->ended) && error == 0)
        error = timeout_ms < 0 ? pthread_cond_wait(&live->changed, &live->lock)
                               : pthread_cond_timedwait(&live->changed, &live->lock, &deadline);
    bool reached = live->state >= state, ended = atomic_load(&live->ended);
    pthread_mutex_unlock(&live->lock);
    if (reached)
        return KILN_OK;
    if (ended)
        return kiln__outcome_tell(&live->outcome, report);
    return kiln__fail(report, KILN_ETIMEDOUT, KILN__STAGE_COMPILE, 0, "not there after %d ms; the work goes on",
                      timeout_ms);
}

/* The pool is the service's, which is there as long as the background has not ended. Where the job has not begun, its
 * reference is released here, too. */
void kiln__live_close(kiln_live *live)
{
    if (live == NULL)
        return;
    pthread_mutex_lock(&live->lock);
    atomic_store(&live->given_up, true);
    atomic_store(&live->wait.gone, true);
    bool removed = live->pool != NULL && kiln__workpool_remove(live->pool, &live->job);
    while (live->measuring)
        pthread_cond_wait(&live->changed, &live->lock);
    pthread_mutex_unlock(&live->lock);
    if (removed)
        release_live(live);
    for (unsigned i = 0; i < live->count; i++)
        kiln__kernel_release(live->kernels[i]);
    release_live(live);
}
