#include "tune/live.h"

#include "base/alloc.h"
#include "os/fork.h"
#include "tune/livework.h"
#include <string.h>
#include <time.h>

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Copies the host's work, which is borrowed for the call. Of the arguments it copies the numbers: tuning makes the
 * arrays. The counts stay as they are, so that the tuning can refuse wrong ones before it reads what they count. */
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

static kiln_live *new_live(kiln_service *service, const kiln_spec *spec, const kiln_live_options *options,
                           const kiln_tune_options *tuning)
{
    kiln_live *live = kiln__calloc(1, sizeof(*live));
    if (live == NULL)
        return NULL;
    atomic_init(&live->refs, 2);
    live->service = service;
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
    return live;
}

kiln_status kiln__live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                            const kiln_live_options *options, const kiln_tune_options *tuning, kiln_report *report)
{
    *out = NULL;
    kiln_status status = kiln__service_check_device(service, options->device, report);
    if (status != KILN_OK)
        return status;
    kiln_live *live = new_live(service, spec, options, tuning);
    if (live == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    atomic_fetch_add(&service->gets, 1);
    *out = live;
    kiln__live_start(live);
    return KILN_OK;
}

static const char *state_name(kiln_live_state state)
{
    static const char *const names[] = {
        [KILN_LIVE_PENDING] = "pending", [KILN_LIVE_READY] = "ready",     [KILN_LIVE_EXACT] = "exact",
        [KILN_LIVE_TUNING] = "tuning",   [KILN_LIVE_SETTLED] = "settled", [KILN_LIVE_FAILED] = "failed"
    };
    return names[state];
}

void kiln__live_info(kiln_live *live, kiln_live_info *out)
{
    pthread_mutex_lock(&live->lock);
    bool failed = live->outcome.status != KILN_OK;
    kiln_live_state state = failed ? KILN_LIVE_FAILED : live->state;
    *out = (kiln_live_info){ .size = sizeof(*out),
                             .state = state,
                             .state_name = state_name(state),
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

/* Gives up what the background does. True if it had not begun and its reference is the caller's now. The pool is the
 * service's, which is there as long as the background has not ended. */
static bool give_up(kiln_live *live)
{
    pthread_mutex_lock(&live->lock);
    atomic_store(&live->given_up, true);
    atomic_store(&live->wait.gone, true);
    bool removed = live->pool != NULL && kiln__workpool_remove(live->pool, &live->job);
    while (live->measuring)
        pthread_cond_wait(&live->changed, &live->lock);
    pthread_mutex_unlock(&live->lock);
    return removed;
}

void kiln__live_close(kiln_live *live)
{
    if (live == NULL)
        return;
    if (give_up(live))
        kiln__live_release(live);
    for (unsigned i = 0; i < live->count; i++)
        kiln__kernel_release(live->kernels[i]);
    kiln__live_release(live);
}
