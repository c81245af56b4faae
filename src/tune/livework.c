#include "tune/livework.h"

#include "base/alloc.h"
#include "service/get.h"
#include "tune/tuner.h"
#include <stddef.h>

static const char cut_short[] = "cancelled: the handle or its service was closed";

void kiln__live_release(kiln_live *live)
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

void kiln__live_end_locked(kiln_live *live, kiln_status status, kiln_report *report)
{
    live->outcome.status = status;
    if (status == KILN_OK)
        live->state = KILN_LIVE_SETTLED;
    else
        kiln__report_move(&live->outcome.report, report);
    live->measuring = false;
    live->pool = NULL;
    atomic_store_explicit(&live->ended, true, memory_order_release);
    pthread_cond_broadcast(&live->changed);
}

/* A new reference to the kernel that is launched, or NULL. */
static kiln_kernel *retain_now(kiln_live *live)
{
    pthread_mutex_lock(&live->lock);
    kiln_kernel *kernel = atomic_load(&live->given_up) ? NULL : kiln__kernel_retain(atomic_load(&live->now));
    pthread_mutex_unlock(&live->lock);
    return kernel;
}

/* Nothing more will come. Uses up the background's reference. The report is taken over. */
static void end(kiln_live *live, kiln_status status, kiln_report *report)
{
    kiln_kernel *kernel = status != KILN_OK && status != KILN_ECANCELED ? retain_now(live) : NULL;
    if (kernel != NULL)
        kiln__log_line(&live->service->log, KILN_LOG_WARN, "nothing better than %s: %s", kernel->spec, report->message);
    kiln__kernel_release(kernel);
    pthread_mutex_lock(&live->lock);
    kiln__live_end_locked(live, status, report);
    pthread_mutex_unlock(&live->lock);
    kiln_report_clear(report);
    kiln__live_release(live);
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
    end(live, status, &report);
}

static void reach_locked(kiln_live *live, kiln_live_state state)
{
    live->state = state;
    pthread_cond_broadcast(&live->changed);
}

static void reach(kiln_live *live, kiln_live_state state)
{
    pthread_mutex_lock(&live->lock);
    reach_locked(live, state);
    pthread_mutex_unlock(&live->lock);
}

/* Takes over the reference. One store makes it the kernel that is launched; the one before stays, for a launch that has
 * read it a moment ago. */
static void install(kiln_live *live, kiln_kernel *kernel, kiln_live_state state)
{
    pthread_mutex_lock(&live->lock);
    bool better = !atomic_load(&live->given_up) && kernel != atomic_load(&live->now);
    if (better) {
        live->kernels[live->count++] = kernel;
        atomic_store_explicit(&live->now, kernel, memory_order_release);
    }
    reach_locked(live, state);
    pthread_mutex_unlock(&live->lock);
    if (!better)
        kiln__kernel_release(kernel);
}

/* Hands the job to a pool, unless the handle is being closed. */
static bool submit(kiln_live *live, kiln__workpool *pool, void (*run)(kiln__job *job, bool stopped), kiln__lane lane)
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

/* As long as it measures, a tuning is waited for by who closes the handle. False if that has been done. */
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

/* kiln_progress_fn. The host's own is not called once the handle is closed. Before its turn a
 * tuning only compiles its reference, and kiln_live_close waits for this call alone. */
static int heed(void *data, const kiln_tuning_info *info)
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
    install(live, program->kernels, KILN_LIVE_TUNING);
    return KILN_OK;
}

static kiln_status tune(kiln_live *live, kiln_report *report)
{
    kiln_tuning *tuning;
    kiln_tune_options options = live->tuning;
    options.progress = heed;
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
    reach(live, KILN_LIVE_TUNING);
    kiln_status status = tune(live, &report);
    end(live, status, &report);
}

static bool leaves_something_open(const kiln__fields *spec)
{
    for (uint32_t i = 0; i < spec->template->param_count; i++)
        if (!spec->param_set[i])
            return true;
    return false;
}

/* Once the handle has the kernel that a get gives. */
static void go_on(kiln_live *live)
{
    kiln_report none = KILN_INIT(kiln_report);
    if (!live->tunes || !leaves_something_open(&live->spec->fields))
        end(live, KILN_OK, &none);
    else if (!submit(live, &live->service->tunings, run_tuning, KILN__LANE_COMPILE))
        end_undone(live);
}

/* ---- The kernel that a get gives, and what stands in for it */

static void take_outcome(kiln_live *live, const kiln__outcome *outcome)
{
    kiln_report report = KILN_INIT(kiln_report);
    if (outcome->program == NULL) {
        kiln_status status = kiln__outcome_tell(outcome, &report);
        end(live, status, &report);
        return;
    }
    install(live, kiln__program_retain(outcome->program)->kernels, KILN_LIVE_EXACT);
    go_on(live);
}

static void on_done(kiln__wait *wait, kiln__outcome *outcome)
{
    take_outcome((kiln_live *)((char *)wait - offsetof(kiln_live, wait)), outcome);
}

/* True if what is wanted is loaded. Otherwise a kernel that stands in for it may be in place now. */
static bool find_loaded(kiln_live *live, const kiln__want *want)
{
    kiln_program *program = kiln__obtain_loaded(live->service, want);
    if (program != NULL) {
        install(live, program->kernels, KILN_LIVE_EXACT);
        return true;
    }
    if (atomic_load(&live->now) == NULL && (program = kiln__stand_in_loaded(live->service, want)) != NULL)
        install(live, program->kernels, KILN_LIVE_READY);
    return false;
}

/* Where no kernel is there to be launched, what the stores have is loaded here and now: first what is wanted. */
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
        install(live, program->kernels, KILN_LIVE_READY);
    return false;
}

/* A want of the handle's spec, settled. */
static kiln_status settle(kiln_live *live, kiln__want **out, kiln_report *report)
{
    const kiln_request request = { .spec = live->spec, .device = live->on };
    kiln_status status = kiln__want_make(out, &request, false, report);
    return status == KILN_OK ? kiln__want_settle(live->service, *out, report) : status;
}

static void look(kiln_live *live)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = settle(live, &live->wait.want, &report);
    if (status != KILN_OK)
        end(live, status, &report);
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
        look(live);
}

/* What is loaded already is taken here, where that takes no time. True if it is what is wanted. */
static bool take_loaded(kiln_live *live)
{
    kiln__want *want;
    kiln_program *hit = kiln__obtain_hit(live->service, live->on, live->spec, false);
    if (hit != NULL)
        install(live, hit->kernels, KILN_LIVE_EXACT);
    if (hit != NULL || !kiln__service_is_ready(live->service, live->on, &live->spec->fields))
        return hit != NULL;
    bool exact = settle(live, &want, NULL) == KILN_OK && find_loaded(live, want);
    kiln__want_release(want);
    return exact;
}

void kiln__live_start(kiln_live *live)
{
    live->wait.service = live->service;
    live->wait.done = on_done;
    if (take_loaded(live))
        go_on(live);
    else if (!submit(live, &live->service->pool, run_look, KILN__LANE_QUICK))
        end_undone(live);
}
