/* Queues: finished requests wait there for the host's thread. */
#ifndef KILN_SERVICE_QUEUE_H
#define KILN_SERVICE_QUEUE_H

#include "service/get.h"

/* A request in a queue. */
typedef struct kiln__submission {
    kiln__wait wait; /* its job also settles the want */
    atomic_uint refs;
    kiln_queue *queue; /* retained */
    int priority;
    kiln_done_fn done;
    void *data;
    kiln_ticket ticket;
    uint64_t deadline; /* kiln__cpu_now_ns, UINT64_MAX for none */
    /* Guarded by the queue's lock. */
    bool pending;                         /* neither due nor called back */
    struct kiln__submission *next, *prev; /* in the pending or the due list */
    kiln__outcome outcome;
} kiln__submission;

typedef struct kiln__queue_uv kiln__queue_uv;

struct kiln_queue {
    atomic_uint refs;
    unsigned generation; /* os/fork.h */
    int fd;              /* an epoll of the two below: readable while something is due */
    int event_fd;        /* results */
    int timer_fd;        /* deadlines */
    kiln_queue_fn closed;
    void *closed_data;
    unsigned depth;     /* dispatches that are running; the dispatching thread's own */
    kiln__queue_uv *uv; /* NULL without a loop */
    /* Guarded by the lock. */
    pthread_mutex_t lock;
    kiln_service *service; /* NULL once it is closed */
    bool closing;
    uint64_t alarm; /* the time that timer_fd is set to, UINT64_MAX for never */
    kiln__submission *pending, *due;
    size_t due_count, live;  /* live: requests that have not been called back */
    kiln_queue *next, *prev; /* in the service's list, whose lock guards it */
};

/* The contracts of these are those of the public functions of the same name. */
kiln_status kiln__queue_open(kiln_queue **out, kiln_service *service, kiln_report *report);
int kiln__queue_dispatch(kiln_queue *queue);
int kiln__queue_wait(kiln_queue *queue, int timeout_ms);
void kiln__queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data);
void kiln__queue_cancel(kiln_queue *queue, kiln_ticket ticket);

/* Requests that have not been called back. */
size_t kiln__queue_live(kiln_queue *queue);

/* The contract is kiln_submit's; request and options are complete. `unlisted` is that of kiln__get. */
kiln_status kiln__queue_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_request *request, bool unlisted,
                               const kiln_submit_options *options, kiln_done_fn done, void *data, kiln_report *report);

/* When the service closes: all waiting requests become due as cancelled, and the queue forgets the service. */
void kiln__queue_orphan(kiln_queue *queue);

/* ---- queue_uv.c */

kiln_status kiln__queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report);

/* Keeps the loop alive while there are live requests. On another thread than the loop's it wakes the loop to do so. */
void kiln__queue_uv_update(kiln_queue *queue);

/* Takes the queue off its loop, and then calls kiln__queue_finish from the loop. */
void kiln__queue_uv_close(kiln_queue *queue);

/* Makes the descriptor readable. */
void kiln__queue_wake(kiln_queue *queue);

/* The end of a closed queue: its callback, then its memory. */
void kiln__queue_finish(kiln_queue *queue);

#endif
