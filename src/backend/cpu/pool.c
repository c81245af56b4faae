#include "backend/cpu/pool.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "os/cancel.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

struct job {
    uint64_t n, chunk, chunks;
    kiln__pool_fn fn;
    void *data;
    _Atomic uint64_t next; /* the first chunk that nobody has taken */
};

/* The threads of one process and what they share. */
struct crew {
    pid_t pid;
    struct crew *before;  /* the parent process's */
    pthread_mutex_t turn; /* held throughout a run that uses the threads */
    bool started;         /* guarded by turn */
    unsigned helpers;     /* threads there are; guarded by turn */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake, idle;
    uint64_t round; /* counts jobs */
    bool open;      /* the job may be joined */
    bool closing;
    unsigned active; /* helpers at work on the job */
    struct job job;
    pthread_t threads[];
};

struct kiln__pool {
    unsigned helpers;
    struct crew *_Atomic crew;
};

/* Several chunks are taken at a time while many are left, one at a time near the end, so that neither the counter nor
 * the slowest thread decides how long a run takes. */
static void work(struct job *job, unsigned workers)
{
    for (;;) {
        uint64_t next = atomic_load_explicit(&job->next, memory_order_relaxed);
        if (next >= job->chunks)
            return;
        uint64_t batch = (job->chunks - next) / ((uint64_t)workers * 4);
        if (batch == 0)
            batch = 1;
        next = atomic_fetch_add_explicit(&job->next, batch, memory_order_relaxed);
        for (uint64_t i = next; i < job->chunks && i - next < batch; i++) {
            uint64_t begin = i * job->chunk;
            uint64_t left = job->n - begin;
            job->fn(job->data, begin, begin + (left < job->chunk ? left : job->chunk));
        }
    }
}

static void *help(void *data)
{
    struct crew *crew = data;
    uint64_t seen = 0;
    pthread_setname_np(pthread_self(), "kiln-cpu");
    kiln__fpenv_reset();
    pthread_mutex_lock(&crew->lock);
    while (!crew->closing) {
        if (!crew->open || crew->round == seen) {
            pthread_cond_wait(&crew->wake, &crew->lock);
            continue;
        }
        seen = crew->round;
        crew->active++;
        unsigned workers = crew->helpers + 1;
        pthread_mutex_unlock(&crew->lock);
        work(&crew->job, workers);
        pthread_mutex_lock(&crew->lock);
        if (--crew->active == 0)
            pthread_cond_signal(&crew->idle);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

/* The host's signals are for the host's threads. */
static void start(struct crew *crew, unsigned wanted)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (crew->helpers < wanted && pthread_create(&crew->threads[crew->helpers], NULL, help, crew) == 0)
        crew->helpers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    crew->started = true;
}

static struct crew *crew_new(unsigned helpers)
{
    struct crew *crew = kiln__calloc(1, sizeof(*crew) + helpers * sizeof(pthread_t));
    if (crew == NULL)
        return NULL;
    crew->pid = getpid();
    pthread_mutex_init(&crew->turn, NULL);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->wake, NULL);
    pthread_cond_init(&crew->idle, NULL);
    return crew;
}

static void crew_free(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->closing = true;
    pthread_cond_broadcast(&crew->wake);
    pthread_mutex_unlock(&crew->lock);
    for (unsigned i = 0; i < crew->helpers; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_mutex_destroy(&crew->turn);
    pthread_mutex_destroy(&crew->lock);
    pthread_cond_destroy(&crew->wake);
    pthread_cond_destroy(&crew->idle);
    kiln__free(crew);
}

/* This process's crew; NULL when out of memory. A forked child finds its parent's, whose threads are not here and
 * whose locks may be held for ever, and puts a new one in its place. The old one stays until the pool is closed,
 * because another thread of the child may just be looking at it. */
static struct crew *crew_here(kiln__pool *pool)
{
    struct crew *now = atomic_load_explicit(&pool->crew, memory_order_acquire);
    while (now == NULL || now->pid != getpid()) {
        struct crew *fresh = crew_new(pool->helpers);
        if (fresh == NULL)
            return NULL;
        fresh->before = now;
        if (atomic_compare_exchange_strong_explicit(&pool->crew, &now, fresh, memory_order_acq_rel,
                                                    memory_order_acquire))
            return fresh;
        crew_free(fresh);
    }
    return now;
}

kiln__pool *kiln__pool_open(unsigned helpers)
{
    kiln__pool *pool = kiln__calloc(1, sizeof(*pool));
    if (pool != NULL)
        pool->helpers = helpers;
    return pool;
}

void kiln__pool_close(kiln__pool *pool)
{
    if (pool == NULL)
        return;
    struct crew *next = NULL;
    for (struct crew *crew = atomic_load(&pool->crew); crew != NULL; crew = next) {
        next = crew->before;
        if (crew->pid == getpid())
            crew_free(crew);
        else
            kiln__free(crew);
    }
    kiln__free(pool);
}

static void run_shared(struct crew *crew, unsigned helpers, uint64_t n, uint64_t chunk, kiln__pool_fn fn, void *data)
{
    KILN__NO_CANCEL;
    struct job *job = &crew->job;
    pthread_mutex_lock(&crew->turn);
    pthread_mutex_lock(&crew->lock);
    if (!crew->started)
        start(crew, helpers);
    job->n = n;
    job->chunk = chunk;
    job->chunks = (n - 1) / chunk + 1;
    job->fn = fn;
    job->data = data;
    atomic_store_explicit(&job->next, 0, memory_order_relaxed);
    crew->open = true;
    crew->round++;
    if (job->chunks > crew->helpers) {
        pthread_cond_broadcast(&crew->wake);
    } else {
        for (uint64_t i = 1; i < job->chunks; i++)
            pthread_cond_signal(&crew->wake);
    }
    unsigned workers = crew->helpers + 1;
    pthread_mutex_unlock(&crew->lock);

    work(job, workers);

    pthread_mutex_lock(&crew->lock);
    crew->open = false;
    while (crew->active > 0)
        pthread_cond_wait(&crew->idle, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
    pthread_mutex_unlock(&crew->turn);
}

static void run_alone(uint64_t n, uint64_t chunk, kiln__pool_fn fn, void *data)
{
    for (uint64_t begin = 0; begin < n;) {
        uint64_t end = n - begin < chunk ? n : begin + chunk;
        fn(data, begin, end);
        begin = end;
    }
}

void kiln__pool_run(kiln__pool *pool, uint64_t n, uint64_t chunk, kiln__pool_fn fn, void *data)
{
    kiln__fpenv host;
    struct crew *crew = n > chunk && pool->helpers > 0 ? crew_here(pool) : NULL;
    kiln__fpenv_enter_simd(&host);
    if (crew != NULL)
        run_shared(crew, pool->helpers, n, chunk, fn, data);
    else
        run_alone(n, chunk, fn, data);
    kiln__fpenv_leave_simd(&host);
}
