/* Queues of finished requests, and the requests that are submitted to them. */
#include "service/queue.h"

#include "base/alloc.h"
#include "base/table.h"
#include "os/cancel.h"
#include "os/cpu.h"
#include "os/fork.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* ---- Making and ending a queue */

static int open_descriptors(kiln_queue *queue)
{
    struct epoll_event event = { .events = EPOLLIN };
    queue->fd = epoll_create1(EPOLL_CLOEXEC);
    queue->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    queue->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (queue->fd < 0 || queue->event_fd < 0 || queue->timer_fd < 0 ||
        epoll_ctl(queue->fd, EPOLL_CTL_ADD, queue->event_fd, &event) != 0 ||
        epoll_ctl(queue->fd, EPOLL_CTL_ADD, queue->timer_fd, &event) != 0)
        return -errno;
    return 0;
}

static void release_queue(kiln_queue *queue)
{
    if (atomic_fetch_sub(&queue->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&queue->lock);
    kiln__free(queue);
}

static void close_descriptors(kiln_queue *queue)
{
    int *all[] = { &queue->fd, &queue->event_fd, &queue->timer_fd };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (*all[i] >= 0)
            close(*all[i]);
        *all[i] = -1;
    }
}

kiln_status kiln__queue_open(kiln_queue **out, kiln_service *service, kiln_report *report)
{
    kiln_queue *queue = kiln__calloc(1, sizeof(*queue));
    *out = NULL;
    if (queue == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    atomic_init(&queue->refs, 1);
    pthread_mutex_init(&queue->lock, NULL);
    queue->generation = kiln__fork_generation();
    queue->service = service;
    queue->alarm = UINT64_MAX;
    int error = open_descriptors(queue);
    if (error != 0) {
        close_descriptors(queue);
        release_queue(queue);
        return kiln__fail(report, KILN_EIO, KILN__STAGE_OPEN, -error,
                          "no descriptors for a queue (%s): it needs three; raise the limit of open files",
                          strerrordesc_np(-error));
    }
    pthread_mutex_lock(&service->queues_lock);
    DL_APPEND(service->queues, queue);
    pthread_mutex_unlock(&service->queues_lock);
    *out = queue;
    return KILN_OK;
}

void kiln__queue_finish(kiln_queue *queue)
{
    /* kiln_close may not run at the same time, so the service stays while this runs. */
    if (queue->service != NULL) {
        pthread_mutex_lock(&queue->service->queues_lock);
        DL_DELETE(queue->service->queues, queue);
        pthread_mutex_unlock(&queue->service->queues_lock);
    }
    close_descriptors(queue);
    if (queue->closed != NULL)
        queue->closed(queue->closed_data);
    release_queue(queue);
}

void kiln__queue_wake(kiln_queue *queue)
{
    uint64_t one = 1;
    ssize_t written = write(queue->event_fd, &one, sizeof(one));
    (void)written; /* it can only fail with EAGAIN, when the descriptor is readable all the more */
}

/* ---- Results */

/* With the lock held. The descriptor is readable whenever something is due. */
static void make_due(kiln_queue *queue, kiln__submission *submission)
{
    DL_DELETE(queue->pending, submission);
    DL_APPEND(queue->due, submission);
    submission->pending = false;
    if (queue->due_count++ == 0)
        kiln__queue_wake(queue);
}

/* With the lock held. */
static void end_early(kiln__submission *submission, kiln_status status, const char *why)
{
    kiln_queue *queue = submission->queue;
    kiln__fail(&submission->outcome.report, status, KILN__STAGE_COMPILE, 0, "%s", why);
    submission->outcome.status = status;
    if (queue->service != NULL)
        atomic_fetch_add(status == KILN_ETIMEDOUT ? &queue->service->timed_out : &queue->service->cancelled, 1);
    make_due(queue, submission);
}

static void cancel_all(kiln_queue *queue, const char *why)
{
    while (queue->pending != NULL) {
        atomic_store(&queue->pending->wait.gone, true);
        end_early(queue->pending, KILN_ECANCELED, why);
    }
}

static void release_submission(kiln__submission *submission)
{
    if (atomic_fetch_sub(&submission->refs, 1) != 1)
        return;
    kiln__outcome_fini(&submission->outcome);
    release_queue(submission->queue);
    kiln__want_release(submission->wait.want);
    kiln__free(submission);
}

/* Copies the outcome and makes the request due. Does nothing to a request that has ended. Uses up the caller's
 * reference. Any thread. */
static void deliver_outcome(kiln__submission *submission, const kiln__outcome *outcome)
{
    kiln_queue *queue = submission->queue;
    pthread_mutex_lock(&queue->lock);
    if (submission->pending) {
        submission->outcome.status = kiln__outcome_tell(outcome, &submission->outcome.report);
        submission->outcome.program = kiln__program_retain(outcome->program);
        make_due(queue, submission);
    }
    pthread_mutex_unlock(&queue->lock);
    release_submission(submission);
}

/* The same with a program, whose reference it takes. */
static void deliver_program(kiln__submission *submission, kiln_program *program)
{
    kiln__outcome outcome;
    kiln__outcome_init(&outcome);
    outcome.program = program;
    deliver_outcome(submission, &outcome);
    kiln__outcome_fini(&outcome);
}

/* The same with a failure, whose report it takes over; NULL: out of memory. */
static void deliver_failure(kiln__submission *submission, kiln_status status, kiln_report *report)
{
    kiln__outcome outcome;
    kiln__outcome_init(&outcome);
    outcome.status = status;
    if (report != NULL)
        outcome.report = *report;
    else
        kiln__fail_memory(&outcome.report, KILN__STAGE_COMPILE);
    deliver_outcome(submission, &outcome);
    kiln__outcome_fini(&outcome);
}

void kiln__queue_cancel(kiln_queue *queue, kiln_ticket ticket)
{
    pthread_mutex_lock(&queue->lock);
    kiln__submission *submission;
    DL_SEARCH_SCALAR(queue->pending, submission, ticket, ticket);
    if (submission != NULL) {
        atomic_store(&submission->wait.gone, true);
        end_early(submission, KILN_ECANCELED, "cancelled by kiln_cancel");
    }
    pthread_mutex_unlock(&queue->lock);
}

void kiln__queue_orphan(kiln_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    cancel_all(queue, KILN__SERVICE_CLOSED);
    queue->service = NULL;
    pthread_mutex_unlock(&queue->lock);
}

/* ---- Requests */

/* With the lock held: sets the timer to the first deadline, if that is earlier than its time. */
static void set_alarm(kiln_queue *queue, uint64_t deadline)
{
    if (deadline >= queue->alarm)
        return;
    queue->alarm = deadline;
    struct itimerspec when = { .it_value = { .tv_sec = (time_t)(deadline / 1000000000),
                                             .tv_nsec = (long)(deadline % 1000000000) } };
    timerfd_settime(queue->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Lets a request wait in its queue. *ticket (may be NULL) is set before another thread
 * sees the request. False: the queue or its service is closed. */
static bool enlist_submission(kiln__submission *submission, kiln_ticket *ticket)
{
    kiln_queue *queue = submission->queue;
    pthread_mutex_lock(&queue->lock);
    bool open = !queue->closing && queue->service != NULL;
    if (open) {
        submission->wait.service = queue->service;
        submission->pending = true;
        atomic_fetch_add(&queue->refs, 1);
        if (ticket != NULL)
            *ticket = submission->ticket;
        DL_APPEND(queue->pending, submission);
        queue->live++;
        set_alarm(queue, submission->deadline);
    }
    pthread_mutex_unlock(&queue->lock);
    return open;
}

static void on_obtained(kiln__wait *wait, kiln__outcome *outcome)
{
    deliver_outcome((kiln__submission *)((char *)wait - offsetof(kiln__submission, wait)), outcome);
}

/* Finds the program, or the flight that will bring it. Waits for no compile. Uses up the caller's reference. */
static void start_submission(kiln__submission *submission)
{
    kiln_service *service = submission->wait.service;
    kiln__want *want = submission->wait.want;
    kiln_report report = KILN_INIT(kiln_report);
    kiln__outcome outcome;
    kiln_status status = kiln__want_settle(service, want, &report);
    kiln_program *loaded = status == KILN_OK ? kiln__obtain_loaded(service, want) : NULL;
    if (status != KILN_OK) {
        deliver_failure(submission, status, &report);
    } else if (loaded != NULL) {
        deliver_program(submission, loaded);
    } else if (!want->strict && kiln__obtain_join(&submission->wait, submission->priority)) {
        return;
    } else if (kiln__obtain_stored(service, want, &outcome)) {
        deliver_outcome(submission, &outcome);
        kiln__outcome_fini(&outcome);
    } else if (!kiln__obtain_later(&submission->wait, submission->priority)) {
        deliver_failure(submission, KILN_ENOMEM, NULL);
    }
}

/* A request that was given up is recorded too, because the host will want it again. */
static void drop_submission(kiln__submission *submission)
{
    const kiln__want *want = submission->wait.want;
    if (submission->wait.service->record != NULL && want->asked != NULL && !want->unlisted)
        kiln__want_settle(submission->wait.service, submission->wait.want, NULL);
    release_submission(submission);
}

static void run_submission(kiln__job *job, bool stopped)
{
    kiln__submission *submission = (kiln__submission *)((char *)job - offsetof(kiln__submission, wait.job));
    if (stopped)
        release_submission(submission);
    else if (atomic_load(&submission->wait.gone))
        drop_submission(submission);
    else
        start_submission(submission);
}

/* Settles the want on a thread of the service, because that may read files and open a driver. Takes over the want. */
static void begin_submission(kiln__submission *submission, kiln__want *want)
{
    submission->wait.want = want;
    submission->wait.done = on_obtained;
    submission->wait.job =
        (kiln__job){ .run = run_submission, .lane = KILN__LANE_QUICK, .priority = submission->priority };
    if (!kiln__workpool_submit(&submission->wait.service->pool, &submission->wait.job))
        deliver_failure(submission, KILN_ENOMEM, NULL);
}

kiln_status kiln__queue_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_request *request, bool unlisted,
                               const kiln_submit_options *options, kiln_done_fn done, void *data, kiln_report *report)
{
    static atomic_uint_least64_t tickets;
    uint64_t timeout_ns = (uint64_t)options->timeout_ms * 1000000;
    kiln__want *want;
    kiln_report problem = KILN_INIT(kiln_report);
    kiln__submission *submission = kiln__calloc(1, sizeof(*submission));
    if (submission == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    atomic_init(&submission->refs, 2); /* the queue's, and one for the thread that will deliver */
    kiln__outcome_init(&submission->outcome);
    submission->queue = queue;
    submission->priority = options->priority;
    submission->done = done;
    submission->data = data;
    submission->ticket = atomic_fetch_add(&tickets, 1) + 1;
    submission->deadline = timeout_ns > 0 ? kiln__cpu_now_ns() + timeout_ns : UINT64_MAX;
    if (!enlist_submission(submission, ticket)) {
        kiln__free(submission);
        return kiln__fail(report, KILN_ECANCELED, KILN__STAGE_COMPILE, 0, "the queue or its service is closed");
    }
    kiln_service *service = submission->wait.service;
    atomic_fetch_add(&service->gets, 1);
    kiln_program *hit = request->spec != NULL && request->goal == KILN_LOAD
                            ? kiln__obtain_hit(service, request->device, request->spec, false)
                            : NULL;
    kiln_status status = hit == NULL ? kiln__want_make(&want, request, true, &problem) : KILN_OK;
    if (hit != NULL) {
        deliver_program(submission, hit);
    } else if (status != KILN_OK) {
        deliver_failure(submission, status, &problem);
    } else {
        want->unlisted = unlisted;
        begin_submission(submission, want);
    }
    if (queue->uv != NULL)
        kiln__queue_uv_update(queue);
    return KILN_OK;
}

/* ---- Dispatching */

/* With the lock held: requests past their deadline become due, and the timer is set anew. */
static void expire(kiln_queue *queue)
{
    uint64_t now = kiln__cpu_now_ns(), next = UINT64_MAX;
    if (now < queue->alarm)
        return;
    kiln__submission *submission, *after;
    DL_FOREACH_SAFE (queue->pending, submission, after) {
        if (submission->deadline <= now)
            end_early(submission, KILN_ETIMEDOUT, "not done by its deadline; the compile may go on: ask again later");
        else if (submission->deadline < next)
            next = submission->deadline;
    }
    uint64_t expirations;
    ssize_t count = read(queue->timer_fd, &expirations, sizeof(expirations));
    (void)count; /* only to make it unreadable */
    queue->alarm = UINT64_MAX;
    set_alarm(queue, next);
}

/* Calls back for the first request that is due. False: there is none. */
static bool call_back(kiln_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    kiln__submission *submission = queue->due;
    if (submission != NULL) {
        DL_DELETE(queue->due, submission);
        queue->due_count--;
        queue->live--;
    }
    pthread_mutex_unlock(&queue->lock);
    if (submission == NULL)
        return false;
    kiln__outcome *outcome = &submission->outcome;
    kiln_program *program = outcome->program;
    outcome->program = NULL;
    submission->done(submission->data, outcome->status, program, &outcome->report);
    release_submission(submission);
    return true;
}

/* Clears the descriptor and says how many callbacks are due. */
static size_t begin_round(kiln_queue *queue)
{
    uint64_t events;
    pthread_mutex_lock(&queue->lock);
    ssize_t count = read(queue->event_fd, &events, sizeof(events));
    (void)count; /* only to make it unreadable */
    expire(queue);
    size_t due = queue->due_count;
    pthread_mutex_unlock(&queue->lock);
    return due;
}

/* Requests that became due meanwhile wait for the next round, so that callbacks that ask again cannot keep the loop
 * here for ever. */
static bool end_round(kiln_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool more = queue->due_count > 0, closing = queue->closing;
    if (more)
        kiln__queue_wake(queue);
    pthread_mutex_unlock(&queue->lock);
    return closing && !more;
}

int kiln__queue_dispatch(kiln_queue *queue)
{
    KILN__NO_CANCEL;
    int called = 0;
    queue->depth++;
    size_t due = begin_round(queue);
    bool finished;
    do {
        for (; due > 0 && called < INT_MAX && call_back(queue); due--)
            called++;
        finished = end_round(queue);
        /* A queue that is being closed takes nothing new, so this ends. */
        due = queue->closing && !finished ? begin_round(queue) : 0;
    } while (due > 0);
    queue->depth--;
    if (queue->uv != NULL)
        kiln__queue_uv_update(queue);
    if (!finished || queue->depth > 0)
        return called;
    if (queue->uv != NULL)
        kiln__queue_uv_close(queue);
    else
        kiln__queue_finish(queue);
    return called;
}

size_t kiln__queue_live(kiln_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    size_t count = queue->live;
    pthread_mutex_unlock(&queue->lock);
    return count;
}

static int left_ms(uint64_t deadline)
{
    uint64_t now = kiln__cpu_now_ns();
    if (deadline == UINT64_MAX)
        return -1;
    if (now >= deadline)
        return 0;
    uint64_t left = (deadline - now + 999999) / 1000000;
    return left < INT_MAX ? (int)left : INT_MAX;
}

int kiln__queue_wait(kiln_queue *queue, int timeout_ms)
{
    uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : kiln__cpu_now_ns() + (uint64_t)timeout_ms * 1000000;
    while (kiln__queue_live(queue) > 0) {
        struct pollfd ready = { .fd = queue->fd, .events = POLLIN };
        int left = left_ms(deadline);
        int count = poll(&ready, 1, left);
        int called = count > 0 ? kiln__queue_dispatch(queue) : 0;
        if (called > 0 || left == 0 || (count < 0 && errno != EINTR))
            return called;
    }
    return 0;
}

void kiln__queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data)
{
    pthread_mutex_lock(&queue->lock);
    bool first = !queue->closing;
    if (first) {
        queue->closing = true;
        queue->closed = fn;
        queue->closed_data = data;
        cancel_all(queue, "cancelled: its queue was closed");
        kiln__queue_wake(queue);
    }
    pthread_mutex_unlock(&queue->lock);
    if (!first)
        return;
    if (queue->uv != NULL)
        kiln__queue_uv_update(queue);
    else if (queue->depth == 0)
        kiln__queue_dispatch(queue);
}
