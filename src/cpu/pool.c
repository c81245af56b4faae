/* The thread pool that runs kernels on the cpu. */
#include "cpu/cpu.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "os/cancel.h"
#include "os/fork.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

struct job {
    uint64_t n, chunk, chunks;
    kiln__pool_fn fn;
    void *data;
    _Atomic uint64_t next; /* the first chunk that no thread has taken */
};

struct kiln__pool {
    unsigned users, generation; /* of a shared pool; guarded by its lock */
    unsigned wanted;            /* threads besides the caller */
    pthread_mutex_t turn;       /* held throughout a run that uses the threads */
    bool started;               /* guarded by turn */
    unsigned helpers;           /* threads there are; guarded by turn */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake, idle;
    uint64_t round; /* counts jobs */
    bool open;      /* the job may be joined */
    bool closing;
    unsigned active; /* helpers at work on the job */
    struct job job;
    pthread_t threads[];
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
    kiln__pool *pool = data;
    uint64_t seen = 0;
    pthread_setname_np(pthread_self(), "kiln-cpu");
    kiln__fpenv_reset();
    pthread_mutex_lock(&pool->lock);
    while (!pool->closing) {
        if (!pool->open || pool->round == seen) {
            pthread_cond_wait(&pool->wake, &pool->lock);
            continue;
        }
        seen = pool->round;
        pool->active++;
        unsigned workers = pool->helpers + 1;
        pthread_mutex_unlock(&pool->lock);
        work(&pool->job, workers);
        pthread_mutex_lock(&pool->lock);
        if (--pool->active == 0)
            pthread_cond_signal(&pool->idle);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* The host's signals are for the host's threads. A fault is a thread's: blocked, it would end the process past the
 * host's handler, which may report crashes. */
static void start_threads(kiln__pool *pool)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->helpers < pool->wanted && pthread_create(&pool->threads[pool->helpers], NULL, help, pool) == 0)
        pool->helpers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->started = true;
}

kiln__pool *kiln__pool_open(unsigned helpers)
{
    kiln__pool *pool = kiln__calloc(1, sizeof(*pool) + helpers * sizeof(pthread_t));
    if (pool == NULL)
        return NULL;
    pool->wanted = helpers;
    pthread_mutex_init(&pool->turn, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->idle, NULL);
    return pool;
}

void kiln__pool_close(kiln__pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->helpers; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_mutex_destroy(&pool->turn);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->idle);
    kiln__free(pool);
}

/* ---- The shared pool */

static kiln__pool *shared_pool;
static atomic_uint shared_holder; /* of its lock: the generation of forks plus one; 0: it is free */

/* A thread of the parent may have held the lock at a fork: the child takes it over. */
static void lock_shared(void)
{
    unsigned mine = kiln__fork_generation() + 1, holder = 0;
    while (!atomic_compare_exchange_weak_explicit(&shared_holder, &holder, mine, memory_order_acquire,
                                                  memory_order_relaxed)) {
        if (holder != mine)
            continue;
        holder = 0;
        sched_yield();
    }
}

static void unlock_shared(void)
{
    atomic_store_explicit(&shared_holder, 0, memory_order_release);
}

kiln__pool *kiln__pool_share(unsigned helpers)
{
    lock_shared();
    kiln__pool *pool = shared_pool;
    if (pool == NULL || kiln__is_forked(pool->generation) || pool->wanted != helpers)
        pool = kiln__pool_open(helpers);
    if (pool != NULL) {
        pool->generation = kiln__fork_generation();
        pool->users++;
        shared_pool = pool;
    }
    unlock_shared();
    return pool;
}

void kiln__pool_release(kiln__pool *pool)
{
    if (pool == NULL)
        return;
    lock_shared();
    bool last = --pool->users == 0;
    if (last && shared_pool == pool)
        shared_pool = NULL;
    unlock_shared();
    if (last)
        kiln__pool_close(pool);
}

/* ---- Runs */

static void run_shared(kiln__pool *pool, uint64_t n, uint64_t chunk, kiln__pool_fn fn, void *data)
{
    KILN__NO_CANCEL;
    struct job *job = &pool->job;
    pthread_mutex_lock(&pool->turn);
    pthread_mutex_lock(&pool->lock);
    if (!pool->started)
        start_threads(pool);
    *job = (struct job){ .n = n, .chunk = chunk, .chunks = (n - 1) / chunk + 1, .fn = fn, .data = data };
    pool->open = true;
    pool->round++;
    if (job->chunks > pool->helpers)
        pthread_cond_broadcast(&pool->wake);
    for (uint64_t i = 1; i < job->chunks && job->chunks <= pool->helpers; i++)
        pthread_cond_signal(&pool->wake);
    unsigned workers = pool->helpers + 1;
    pthread_mutex_unlock(&pool->lock);

    work(job, workers);

    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    while (pool->active > 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->turn);
}

void kiln__pool_run(kiln__pool *pool, uint64_t n, uint64_t chunk, kiln__pool_fn fn, void *data)
{
    kiln__fpenv host;
    kiln__fpenv_enter_simd(&host);
    bool shared = n > chunk && pool->wanted > 0;
    if (shared)
        run_shared(pool, n, chunk, fn, data);
    for (uint64_t begin = 0, end; begin < n && !shared; begin = end) {
        end = n - begin < chunk ? n : begin + chunk;
        fn(data, begin, end);
    }
    kiln__fpenv_leave_simd(&host);
}
