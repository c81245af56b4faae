/* The thread pool: a queue by priority for each lane, and threads that are started when a job finds none. */
#include "service/workpool.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "base/table.h"
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ASIDE_MAX = 64, NICE = 10 };
#define SLICE_NS   100000000u        /* the longest time slice there is */
#define STACK_SIZE ((size_t)8 << 20) /* a compiler's parser recurses */

/* The kernel's struct sched_attr, which C libraries have had only of late. */
typedef struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} scheduling;

/* A low priority alone gives a thread less of a processor, but not later: a running thread keeps the processor
 * until its slice is over, unless the thread that wakes has asked for shorter slices. */
static void lengthen_slice(void)
{
    scheduling wanted = { .size = sizeof(wanted) };
    if (syscall(SYS_sched_getattr, 0, &wanted, sizeof(wanted), 0) != 0)
        return;
    wanted.runtime = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &wanted, 0);
}

/* Lets the calling thread, and what it starts from then on, give way to others: nice 10, and time slices so long
 * that any thread that wakes up takes the processor from it at once. Long slices need Linux 6.12; before that a
 * thread that wakes may wait for the scheduler's next tick. A system that refuses either is left as it is. */
static void give_way(void)
{
    id_t self = (id_t)gettid();
    if (getpriority(PRIO_PROCESS, self) < NICE)
        setpriority(PRIO_PROCESS, self, NICE);
    lengthen_slice();
}

void kiln__workpool_init(kiln__workpool *pool, unsigned limit)
{
    memset(pool, 0, sizeof(*pool));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->name = "kiln-compile";
    pool->gives_way = true;
    pool->limit = limit > 0 ? limit : 1;
}

/* The search starts at the end, because most jobs have the usual priority. */
static void insert_job(kiln__workpool *pool, kiln__job *job)
{
    kiln__job **jobs = &pool->lanes[job->lane].jobs, *after = *jobs != NULL ? (*jobs)->prev : NULL;
    while (after != NULL && after->priority < job->priority)
        after = after != *jobs ? after->prev : NULL;
    DL_APPEND_ELEM(*jobs, after, job);
    job->queued = true;
    pool->lanes[job->lane].count++;
}

static void cut_job(kiln__workpool *pool, kiln__job *job)
{
    DL_DELETE(pool->lanes[job->lane].jobs, job);
    job->queued = false;
    pool->lanes[job->lane].count--;
}

/* The next job that a thread may take now. */
static kiln__job *take_job(kiln__workpool *pool)
{
    kiln__job *job = pool->lanes[KILN__LANE_QUICK].jobs;
    if (job == NULL && pool->compiling < pool->limit)
        job = pool->lanes[KILN__LANE_COMPILE].jobs;
    if (job != NULL)
        cut_job(pool, job);
    return job;
}

/* Whether the job of this thread is a compile. */
static _Thread_local bool is_compiling;

static void *run_thread(void *data)
{
    kiln__workpool *pool = data;
    pthread_setname_np(pthread_self(), pool->name);
    kiln__fpenv_reset();
    if (pool->gives_way)
        give_way();
    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        kiln__job *job = take_job(pool);
        if (job == NULL) {
            pool->idle++;
            pthread_cond_wait(&pool->wake, &pool->lock);
            pool->idle--;
            continue;
        }
        bool compiles = is_compiling = job->lane == KILN__LANE_COMPILE;
        pool->compiling += compiles;
        pthread_mutex_unlock(&pool->lock);
        job->run(job, false);
        pthread_mutex_lock(&pool->lock);
        pool->compiling -= compiles;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* The host's signals are for the host's threads. */
static bool start_thread(kiln__workpool *pool)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    if (pool->threads == NULL)
        pool->threads = kiln__calloc(pool->limit + 1 + ASIDE_MAX, sizeof(*pool->threads));
    if (pool->threads == NULL || pthread_attr_init(&attributes) != 0)
        return false;
    sigfillset(&all);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&pool->threads[pool->count], &attributes, run_thread, pool) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    pool->count += started;
    return started;
}

/* Wakes a thread for a job that has become ready, and starts one if too few are idle. */
static void wake_thread(kiln__workpool *pool)
{
    size_t room = pool->limit > pool->compiling ? pool->limit - pool->compiling : 0;
    size_t compiles = pool->lanes[KILN__LANE_COMPILE].count;
    size_t ready = pool->lanes[KILN__LANE_QUICK].count + (compiles < room ? compiles : room);
    unsigned aside = pool->aside < ASIDE_MAX ? pool->aside : ASIDE_MAX;
    if (ready > pool->idle && pool->count < pool->limit + 1 + aside && !pool->stopping)
        start_thread(pool);
    if (ready > 0 && pool->idle > 0)
        pthread_cond_signal(&pool->wake);
}

bool kiln__workpool_submit(kiln__workpool *pool, kiln__job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool taken = !pool->stopping;
    if (taken) {
        insert_job(pool, job);
        wake_thread(pool);
        taken = pool->count > 0;
        if (!taken)
            cut_job(pool, job);
    }
    pthread_mutex_unlock(&pool->lock);
    return taken;
}

bool kiln__workpool_remove(kiln__workpool *pool, kiln__job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool queued = job->queued;
    if (queued)
        cut_job(pool, job);
    pthread_mutex_unlock(&pool->lock);
    return queued;
}

void kiln__workpool_promote(kiln__workpool *pool, kiln__job *job, int priority)
{
    pthread_mutex_lock(&pool->lock);
    bool queued = job->queued && priority > job->priority;
    if (queued)
        cut_job(pool, job);
    if (priority > job->priority)
        job->priority = priority;
    if (queued)
        insert_job(pool, job);
    pthread_mutex_unlock(&pool->lock);
}

static bool is_pool_thread(const kiln__workpool *pool)
{
    for (unsigned i = 0; i < pool->count; i++)
        if (pthread_equal(pool->threads[i], pthread_self()))
            return true;
    return false;
}

void kiln__workpool_aside(kiln__workpool *pool, bool begin)
{
    pthread_mutex_lock(&pool->lock);
    if (is_pool_thread(pool)) {
        pool->aside += begin ? 1 : -1u;
        if (is_compiling)
            pool->compiling += begin ? -1u : 1;
        if (begin)
            wake_thread(pool);
    }
    pthread_mutex_unlock(&pool->lock);
}

bool kiln__workpool_is_here(kiln__workpool *pool)
{
    pthread_mutex_lock(&pool->lock);
    bool ours = is_pool_thread(pool);
    pthread_mutex_unlock(&pool->lock);
    return ours;
}

void kiln__workpool_stop(kiln__workpool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->count; i++)
        pthread_join(pool->threads[i], NULL);
    pool->count = 0;
    for (int lane = 0; lane < 2; lane++)
        while (pool->lanes[lane].jobs != NULL) {
            kiln__job *job = pool->lanes[lane].jobs;
            cut_job(pool, job);
            job->run(job, true);
        }
}

void kiln__workpool_fini(kiln__workpool *pool)
{
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    kiln__free(pool->threads);
}
