/* The service's threads, at low priority and never libuv's: they look up and compile for submitted requests, and work
 * for live handles and tunings. */
#ifndef KILN_SERVICE_WORKPOOL_H
#define KILN_SERVICE_WORKPOOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Quick jobs look things up and have one thread more than the compiles, so that a hit never waits for a compile. */
typedef enum kiln__lane { KILN__LANE_QUICK, KILN__LANE_COMPILE } kiln__lane;

/* Embedded in the object that it works on. */
typedef struct kiln__job {
    /* Called once, on a thread of the pool, or with `stopped` on the thread that closes the pool, when it should only
     * clean up. May free or submit the job. */
    void (*run)(struct kiln__job *job, bool stopped);
    kiln__lane lane;
    int priority; /* higher ones first, equal ones in order */
    bool queued;  /* this and the next two are for workpool.c */
    struct kiln__job *next, *prev;
} kiln__job;

/* Embedded in the service. Any thread after init. */
typedef struct kiln__workpool {
    const char *name; /* of its threads; this and the next may be changed before the first job */
    bool gives_way;   /* to other threads */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct {
        kiln__job *jobs;
        size_t count;
    } lanes[2];
    unsigned limit; /* how many compile at once */
    unsigned count; /* threads there are */
    unsigned idle, compiling, aside;
    bool stopping;
    pthread_t *threads; /* limit + 1 and some to stand in for those aside */
} kiln__workpool;

/* Starts no thread. At most `limit` compile jobs run at once. */
void kiln__workpool_init(kiln__workpool *pool, unsigned limit);

/* Waits for the jobs that run, ends the threads and then calls the other jobs with `stopped`. Takes no job from
 * now on. */
void kiln__workpool_stop(kiln__workpool *pool);

/* Only of a pool that was stopped. */
void kiln__workpool_fini(kiln__workpool *pool);

/* Hands a job over, and starts a thread if one is needed. False if the pool has no thread at all, or is being
 * stopped. */
bool kiln__workpool_submit(kiln__workpool *pool, kiln__job *job);

/* Takes back a job that no thread has taken yet; false if one has. */
bool kiln__workpool_remove(kiln__workpool *pool, kiln__job *job);

/* Raises the priority of a job, also of one that will be submitted again. */
void kiln__workpool_promote(kiln__workpool *pool, kiln__job *job, int priority);

/* Whether the calling thread is one of the pool's. */
bool kiln__workpool_is_here(kiln__workpool *pool);

/* Called around a wait inside a job, so that another one can use the processor meanwhile. Does nothing on a thread
 * that is not the pool's. */
void kiln__workpool_aside(kiln__workpool *pool, bool begin);

#endif
