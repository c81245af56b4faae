#include "service/service.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/table.h"
#include "gpu/cuda.h"
#include "jit/worker/workers.h"
#include "os/cpu.h"
#include "os/fork.h"
#include "service/options.h"
#include "service/queue.h"
#include "service/stores.h"
#include <string.h>

/* What follows the spec in the line that strict mode names: the directory, where only this host knows it. */
static char *warm_options(const kiln__settings *settings)
{
    kiln__text text = { 0 };
    if (settings->cache_dir[0] == '\0') {
        kiln__text_append(&text, " and open the service with a cache_dir");
    } else if (settings->own_cache_dir) {
        kiln__text_append(&text, " --cache-dir ");
        kiln__text_quote(&text, settings->cache_dir);
    }
    return kiln__text_take(&text);
}

static void step_aside(void *data, bool begin)
{
    kiln_service *service = data;
    kiln__workpool_aside(&service->pool, begin);
}

/* CUDA text is compiled in workers, by the same compiler. */
static kiln__compiler *open_in_workers(kiln_service *service, kiln__compiler *inner, const kiln__settings *settings)
{
    const kiln__workers_options options = {
        .isolate = settings->isolate,
        .program = settings->worker,
        .nvrtc = settings->nvrtc,
        .crash_dir = settings->crash_dir,
        .memory_bytes = settings->worker_memory_bytes,
        .time_ms = settings->worker_time_ms,
    };
    service->isolate = settings->isolate;
    return service->workers = kiln__workers_open(inner, &options, &service->log);
}

static kiln__compiler *(*const open_compiler[KILN__BACKEND_END])(const char *compiler, const kiln__log *log) = {
#define ROW(id, name, prefix, numbered, section, twin, words) kiln__##name##_compiler_open,
    KILN__BACKENDS(ROW)
#undef ROW
};

static kiln_status open_builders(kiln_service *service, const kiln__settings *settings, kiln_report *report)
{
    const char *const compilers[KILN__BACKEND_END] = {
        [KILN__BACKEND_CUDA] = settings->nvrtc, [KILN__BACKEND_CPU] = settings->cc
    };
    for (int i = 0; i < KILN__BACKEND_END; i++) {
        kiln__builder *builder = &service->builders[i];
        kiln__compiler *compiler = open_compiler[i](compilers[i], &service->log);
        if (i == KILN__BACKEND_CUDA)
            compiler = open_in_workers(service, compiler, settings);
        if (compiler == NULL)
            return kiln__fail_memory(report, KILN__STAGE_OPEN);
        kiln__builder_init(builder, compiler, &service->tiers, &service->log);
        builder->strict = settings->strict;
        builder->warm_options = service->warm_options;
        builder->hostlock = &service->hostlock;
    }
    return KILN_OK;
}

static kiln_status open_parts(kiln_service *service, const kiln__settings *settings, kiln_report *report)
{
    kiln__log_init(&service->log, settings->log, settings->log_data, settings->log_level);
    const char *const drivers[KILN__BACKEND_END] = { [KILN__BACKEND_CUDA] = settings->libcuda };
    kiln_status status = kiln__catalog_init(&service->catalog, report);
    if (status == KILN_OK)
        status = kiln__runtime_open(&service->runtime, drivers, settings->device, &service->log, report);
    if (status != KILN_OK)
        return status;
    service->cache_dir = kiln__strdup(settings->cache_dir);
    service->warm_options = warm_options(settings);
    if (service->cache_dir == NULL || service->warm_options == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    status = open_builders(service, settings, report);
    if (status != KILN_OK)
        return status;
    if (settings->record != NULL && settings->record[0] != '\0' &&
        (service->record = kiln__record_open(settings->record, &service->log)) == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    kiln__stores_open(service, settings);
    if (settings->isolate == KILN_ISOLATE_NEVER)
        kiln__builder_keep_sources_at_hand(&service->builders[KILN__BACKEND_CUDA]);
    service->wise = settings->wisdom;
    service->programs.most = settings->loaded_max;
    service->wisdom = kiln__wisdom_open(service->disk, kiln__stores_shared(service), KILN__WISDOM_WAIT_MS,
                                        &service->log, &service->store_counters);
    if (service->wisdom == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    service->hostlock.disk = service->disk;
    service->hostlock.wait_ms = settings->lock_wait_ms;
    service->hostlock.aside = step_aside;
    service->hostlock.data = service;
    return KILN_OK;
}

static void init(kiln_service *service)
{
    kiln__program_table_init(&service->programs);
    pthread_mutex_init(&service->native_lock, NULL);
    pthread_mutex_init(&service->define_lock, NULL);
    kiln__workpool_init(&service->pool, kiln__cpu_count());
    kiln__workpool_init(&service->tunings, 1);
    service->tunings.name = "kiln-tune";
    service->tunings.gives_way =
        false; /* it measures; and threads of the cpu backend that it is the first to need inherit this */
    kiln__flights_init(&service->flights, &service->pool);
    kiln__hostlock_init(&service->hostlock, NULL, 0, &service->log);
    pthread_mutex_init(&service->queues_lock, NULL);
    service->generation = kiln__fork_generation();
}

kiln_status kiln__service_open(kiln_service **out, const kiln_options *options, kiln_report *report)
{
    kiln__settings settings;
    *out = NULL;
    kiln_status status = kiln__settings_init(&settings, options, report);
    if (status != KILN_OK)
        return status;
    kiln_service *service = kiln__fork_watch() == 0 ? kiln__calloc(1, sizeof(*service)) : NULL;
    if (service == NULL) {
        status = kiln__fail_memory(report, KILN__STAGE_OPEN);
    } else {
        init(service);
        status = open_parts(service, &settings, report);
    }
    kiln__settings_fini(&settings);
    if (status == KILN_OK)
        *out = service;
    else
        kiln__service_close(service);
    return status;
}

static void close_queues(kiln_service *service)
{
    pthread_mutex_lock(&service->queues_lock);
    kiln_queue *queue, *next;
    DL_FOREACH_SAFE (service->queues, queue, next) {
        DL_DELETE(service->queues, queue);
        kiln__queue_orphan(queue);
    }
    pthread_mutex_unlock(&service->queues_lock);
}

void kiln__service_close(kiln_service *service)
{
    if (service == NULL)
        return;
    atomic_store(&service->closing, true);
    kiln__workpool_stop(&service->tunings); /* first: a tuning has a queue, and waits for compiles */
    close_queues(service);
    kiln__workpool_stop(&service->pool);
    kiln__workpool_fini(&service->tunings);
    kiln__workpool_fini(&service->pool);
    kiln__flights_fini(&service->flights);
    pthread_mutex_destroy(&service->queues_lock);
    kiln__program_table_fini(&service->programs);
    pthread_mutex_destroy(&service->native_lock);
    pthread_mutex_destroy(&service->define_lock);
    for (int i = 0; i < KILN__BACKEND_END; i++)
        if (service->builders[i].tiers != NULL)
            kiln__builder_fini(&service->builders[i]);
    kiln__wisdom_close(service->wisdom);
    kiln__stores_close(service);
    kiln__runtime_release(service->runtime);
    kiln__catalog_fini(&service->catalog);
    kiln__free(service->cache_dir);
    kiln__free(service->warm_options);
    kiln__record_close(service->record);
    kiln__free(service);
}

kiln__builder *kiln__service_builder(kiln_service *service, const kiln__target *target)
{
    return &service->builders[target->backend];
}

void kiln__service_stats(const kiln_service *service, kiln_stats *out)
{
    size_t size = out->size;
    kiln__workers_counts workers;
    kiln__workers_count(service->workers, &workers);
    *out = (kiln_stats){
        .size = size,
        .gets = atomic_load(&service->gets),
        .hits_loaded = atomic_load(&service->hits_loaded),
        .hits_memory = atomic_load(&service->hits[KILN_ORIGIN_MEMORY]),
        .hits_disk = atomic_load(&service->hits[KILN_ORIGIN_DISK]),
        .loads = atomic_load(&service->loads),
        .ptx_loads = atomic_load(&service->ptx_loads),
        .store_damaged = atomic_load(&service->store_counters.damaged),
        .store_untrusted = atomic_load(&service->store_counters.untrusted),
        .store_errors = atomic_load(&service->store_counters.errors),
        .hits_pack = atomic_load(&service->hits[KILN_ORIGIN_PACK]),
        .hits_shared = atomic_load(&service->hits[KILN_ORIGIN_SHARED]),
        .evictions = atomic_load(&service->store_counters.evictions),
        .record_errors = kiln__record_errors(service->record),
        .joined = atomic_load(&service->flights.joined),
        .lock_waits = atomic_load(&service->hostlock.waits),
        .lock_timeouts = atomic_load(&service->hostlock.timeouts),
        .lock_errors = atomic_load(&service->hostlock.errors),
        .cancelled = atomic_load(&service->cancelled),
        .timed_out = atomic_load(&service->timed_out),
        .misses_absent = atomic_load(&service->misses[KILN__MISS_ABSENT]),
        .misses_damaged = atomic_load(&service->misses[KILN__MISS_DAMAGED]),
        .misses_untrusted = atomic_load(&service->misses[KILN__MISS_UNTRUSTED]),
        .misses_error = atomic_load(&service->misses[KILN__MISS_ERROR]),
        .misses_unloadable = atomic_load(&service->refused),
        .load_ns = atomic_load(&service->load_ns),
        .worker_starts = workers.starts,
        .worker_crashes = workers.crashes,
        .worker_timeouts = workers.timeouts,
        .unloads = atomic_load(&service->programs.unloads),
    };
    for (int i = 0; i < KILN__BACKEND_END; i++) {
        const kiln__builder *builder = &service->builders[i];
        out->compiles += atomic_load(&builder->compiles);
        out->compile_failures += atomic_load(&builder->failures);
        out->compile_ns += atomic_load(&builder->compile_ns);
        out->strict_refusals += atomic_load(&builder->refusals);
    }
}
