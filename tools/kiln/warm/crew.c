#include "warm/crew.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/progress.h"
#include "kernels/built.h"

typedef struct crew {
    struct worklist *list;
    kiln_service *service;
    atomic_size_t next, done, failed;
    bool lines;
    atomic_uint working; /* threads not yet finished */
    pthread_mutex_t lock;
    pthread_cond_t idle;
} crew;

static atomic_int interrupted; /* set by a signal handler on any thread */

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    atomic_store(&interrupted, 1);
}

static void keep_result(work_item *item, const kiln_program *program)
{
    const void *data = NULL;
    size_t length = 0;
    kiln_program_info info = built_info(program);
    item->origin = info.origin;
    item->origin_name = info.origin_name;
    item->compile_ms = info.compile_ms;
    if (kiln_program_section(&data, &length, program, "cubin") == KILN_OK ||
        kiln_program_section(&data, &length, program, "object") == KILN_OK)
        item->bytes = length;
}

static void compile_item(kiln_service *service, work_item *item)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    item->status = kiln_spec_parse(&spec, service, item->spec, &report);
    if (!item->status)
        item->status = build_spec(&program, service, spec, &report);
    if (!item->status) {
        keep_result(item, program);
    } else {
        item->problem = need_copy(report.message[0] ? report.message : kiln_status_text(item->status));
        item->log = report.log ? need_copy(report.log) : NULL;
    }
    item->done = true;
    kiln_program_release(program);
    kiln_spec_free(spec);
    kiln_report_clear(&report);
}

static void *work(void *data)
{
    crew *team = data;
    for (;;) {
        size_t i = atomic_fetch_add(&team->next, 1);
        if (i >= team->list->count || atomic_load(&interrupted))
            break;
        compile_item(team->service, &team->list->items[i]);
        if (team->list->items[i].status)
            atomic_fetch_add(&team->failed, 1);
        atomic_fetch_add(&team->done, 1);
    }
    pthread_mutex_lock(&team->lock);
    atomic_fetch_sub(&team->working, 1);
    pthread_cond_signal(&team->idle);
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static void watch(crew *team, struct progress *progress)
{
    pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->working) > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&team->idle, &team->lock, &until);
        progress_show(progress, atomic_load(&team->done), atomic_load(&team->failed));
    }
    pthread_mutex_unlock(&team->lock);
}

static void run_threads(crew *team, uint32_t threads)
{
    pthread_t *ids = need_array(NULL, threads, sizeof(*ids));
    struct progress progress;
    uint32_t started = 0;
    progress_start(&progress, team->list->count, team->lines);
    while (started < threads) {
        atomic_fetch_add(&team->working, 1);
        if (pthread_create(&ids[started], NULL, work, team) != 0) {
            atomic_fetch_sub(&team->working, 1);
            break;
        }
        started++;
    }
    if (started == 0) {
        atomic_fetch_add(&team->working, 1);
        work(team);
    }
    watch(team, &progress);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    progress_end();
    free(ids);
}

bool crew_work(struct worklist *list, kiln_service *service, uint32_t threads, bool lines)
{
    crew team = { .list = list, .service = service, .lines = lines };
    struct sigaction once = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART }, old[2];
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.idle, NULL);
    atomic_store(&interrupted, 0);
    sigaction(SIGINT, &once, &old[0]);
    sigaction(SIGTERM, &once, &old[1]);
    run_threads(&team, threads < list->count || list->count == 0 ? threads : (uint32_t)list->count);
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGTERM, &old[1], NULL);
    pthread_cond_destroy(&team.idle);
    pthread_mutex_destroy(&team.lock);
    return atomic_load(&interrupted) != 0;
}

uint32_t crew_processors(void)
{
    for (size_t processors = 1024; processors <= 1 << 20; processors *= 2) {
        cpu_set_t *set = CPU_ALLOC(processors);
        if (!set)
            break;
        int result = sched_getaffinity(0, CPU_ALLOC_SIZE(processors), set);
        int count = result == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(processors), set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return (uint32_t)count;
    }
    return 1;
}
