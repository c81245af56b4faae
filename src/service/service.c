/* Opening and closing a service, its stores among them, and its counters. */
#include "service/service.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/event.h"
#include "base/table.h"
#include "gpu/cuda.h"
#include "jit/worker/workers.h"
#include "os/cpu.h"
#include "os/fork.h"
#include "os/trust.h"
#include "service/queue.h"
#include "store/pack.h"
#include "store/remote.h"
#include <stdio.h>
#include <string.h>

/* ---- Stores */

void kiln__stores_add(kiln_service *service, kiln__store *store, kiln_origin origin)
{
    if (store == NULL)
        return;
    if (service->tiers.count < KILN__TIERS_MAX)
        service->origins[service->tiers.count] = origin;
    if (origin == KILN_ORIGIN_REMOTE)
        kiln__tiers_add_remote(&service->tiers, store);
    else
        kiln__tiers_add(&service->tiers, store);
    kiln__tiers_borrow_local(&service->local, &service->tiers);
}

/* Lists a pack or the shared directory. Out of memory, which is logged, is NULL. */
static kiln__named_store *add_named(kiln_service *service, const char *path, size_t length, kiln_origin origin)
{
    kiln__named_store *named = kiln__calloc(1, sizeof(*named) + length + 1);
    if (named == NULL) {
        kiln__log_line(&service->log, KILN_LOG_WARN, "out of memory: %.*s is not used", (int)length, path);
        return NULL;
    }
    memcpy(named->path, path, length);
    named->origin = origin;
    LL_APPEND(service->named, named);
    return named;
}

/* A tier stays free for the shared directory, and one for the remote. */
static void open_packs(kiln_service *service, const char *list)
{
    bool told = false;
    for (size_t length; *(list += strspn(list, ":")) != '\0'; list += length) {
        length = strcspn(list, ":");
        kiln__named_store *pack = add_named(service, list, length, KILN_ORIGIN_PACK);
        if (pack != NULL && service->tiers.count < KILN__TIERS_MAX - 2) {
            kiln__pack_store_open(&pack->store, pack->path, &service->log, &service->store_counters, pack->problem,
                                  sizeof(pack->problem));
            kiln__stores_add(service, pack->store, KILN_ORIGIN_PACK);
        } else if (pack != NULL) {
            snprintf(pack->problem, sizeof(pack->problem), "too many packs are named before it");
            if (!told)
                kiln__log_line(&service->log, KILN_LOG_WARN, "too many packs: %s and those after it are not used",
                               pack->path);
            told = true;
        }
    }
}

/* Opens memory, the user's directory, the packs and the shared directory. One that cannot be used is logged, and its
 * problem is kept; the service works without it. Returns the shared directory's store, or NULL. */
static kiln__store *open_stores(kiln_service *service, const kiln_options *options, bool named)
{
    const char *shared_dir = options->shared_dir != NULL ? options->shared_dir : "";
    kiln__stores_add(service, kiln__memory_store_open(options->memory_bytes), KILN_ORIGIN_MEMORY);
    if (options->cache_dir[0] != '\0')
        service->disk = kiln__disk_store_open(options->cache_dir, &service->log, &service->store_counters,
                                              service->cache_problem, sizeof(service->cache_problem));
    else
        kiln__text_copy(service->cache_problem, sizeof(service->cache_problem),
                        named ? "it is switched off, by an empty cache_dir (--cache-dir '')"
                              : kiln__options_no_cache());
    if (service->disk != NULL)
        kiln__disk_store_limit(service->disk, options->cache_bytes, options->cache_files);
    kiln__stores_add(service, service->disk, KILN_ORIGIN_DISK);
    if (options->packs != NULL)
        open_packs(service, options->packs);
    kiln__named_store *shared =
        shared_dir[0] != '\0' ? add_named(service, shared_dir, strlen(shared_dir), KILN_ORIGIN_SHARED) : NULL;
    if (shared == NULL)
        return NULL;
    shared->store = kiln__disk_store_open_shared(shared_dir, &service->log, &service->store_counters, shared->problem,
                                                 sizeof(shared->problem));
    kiln__stores_add(service, shared->store, KILN_ORIGIN_SHARED);
    return shared->store;
}

/* Opens the remote, as the last tier. The log says so if it cannot be used. */
static void open_remote(kiln_service *service, const kiln_options *options)
{
    const kiln__remote_options remote = { .url = options->remote,
                                          .secret = options->remote_secret,
                                          .trust = options->trust_remote == KILN_ON,
                                          .writes = options->push != KILN_PUSH_NONE,
                                          .patient = options->push == KILN_PUSH_ALL };
    if (options->remote != NULL && options->remote[0] != '\0') {
        kiln__store *store = kiln__remote_store_open(&remote, &service->log, &service->store_counters,
                                                     service->remote_problem, sizeof(service->remote_problem));
        if (store == NULL)
            kiln__log_line(&service->log, KILN_LOG_WARN, "the remote is not used: %s", service->remote_problem);
        kiln__stores_add(service, store, KILN_ORIGIN_REMOTE);
    }
}

/* The daemon of the user's store, if that is used. */
static kiln_status open_daemon(kiln_service *service, const kiln_options *options)
{
    char *socket = kiln__options_socket(options);
    bool lacking = socket == NULL;
    if (!lacking && socket[0] != '\0' && service->disk != NULL) {
        service->daemon = kiln__daemon_open(socket, kiln__disk_store_root(service->disk),
                                            options->start_daemon == KILN_ON, &service->log);
        lacking = service->daemon == NULL;
    }
    kiln__free(socket);
    service->builders[KILN__BACKEND_CUDA].daemon = service->daemon;
    return lacking ? KILN_ENOMEM : KILN_OK;
}

kiln_status kiln__service_need_disk(const kiln_service *service, kiln_report *report)
{
    if (service->disk != NULL)
        return KILN_OK;
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "there is no directory store%s%s: %s",
                      service->cache_dir[0] != '\0' ? " in " : "", service->cache_dir, service->cache_problem);
}

kiln_status kiln__service_need_remote(const kiln_service *service, kiln_report *report)
{
    if (service->tiers.remote != NULL)
        return KILN_OK;
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "there is no remote%s%s",
                      service->remote_problem[0] != '\0' ? ": " : "", service->remote_problem);
}

static void close_stores(kiln_service *service)
{
    kiln__tiers_fini(&service->tiers);
    kiln__named_store *named, *next;
    LL_FOREACH_SAFE (service->named, named, next) {
        LL_DELETE(service->named, named);
        kiln__free(named);
    }
}

/* ---- Opening */

/* The end of the kiln warm line that strict mode names: the cache directory, if only this host knows it. */
static char *warm_options(const char *cache_dir, bool named)
{
    kiln__text text = { 0 };
    if (cache_dir[0] == '\0') {
        kiln__text_append(&text, " and open the service with a cache_dir");
    } else if (named) {
        kiln__text_append(&text, " --cache-dir ");
        kiln__text_quote(&text, cache_dir);
    }
    return kiln__text_take(&text);
}

static void step_aside(void *data, bool begin)
{
    kiln_service *service = data;
    kiln__workpool_aside(&service->pool, begin);
}

static kiln__compiler *(*const open_compiler[KILN__BACKEND_END])(const char *compiler, const kiln__log *log) = {
#define ROW(id, name, prefix, numbered, section, twin, words) kiln__##name##_compiler_open,
    KILN__BACKENDS(ROW)
#undef ROW
};

/* The compiler of CUDA text is wrapped, so that it compiles in workers, too. */
static kiln_status open_builders(kiln_service *service, const kiln_options *options, kiln_report *report)
{
    const char *const compilers[KILN__BACKEND_END] = {
        [KILN__BACKEND_CUDA] = options->nvrtc, [KILN__BACKEND_CPU] = options->cc
    };
    const kiln__workers_options workers = {
        .isolate = options->isolate,
        .program = options->worker,
        .nvrtc = options->nvrtc,
        .crash_dir = options->crash_dir,
        .memory_bytes = options->worker_memory_bytes,
        .time_ms = options->worker_time_ms,
    };
    service->isolate = options->isolate;
    for (int i = 0; i < KILN__BACKEND_END; i++) {
        kiln__builder *builder = &service->builders[i];
        kiln__compiler *compiler = open_compiler[i](compilers[i], &service->log);
        if (i == KILN__BACKEND_CUDA)
            compiler = service->workers = kiln__workers_open(compiler, &workers, &service->log);
        if (compiler == NULL)
            return kiln__fail_memory(report, KILN__STAGE_OPEN);
        kiln__builder_init(builder, compiler, i == KILN__BACKEND_CUDA ? &service->tiers : &service->local,
                           &service->local, &service->log);
        builder->push = options->push == KILN_PUSH_ALL;
        builder->strict = options->strict == KILN_ON;
        builder->warm_options = service->warm_options;
        builder->keylock = &service->keylock;
    }
    return KILN_OK;
}

/* The options are complete. `named`: the host named its cache directory. After a failure the service is closed as
 * far as it is open. */
static kiln_status open_parts(kiln_service *service, const kiln_options *options, bool named, kiln_report *report)
{
    kiln__log_init(&service->log, options->log, options->log_data, options->log_level);
    kiln__event_init(&service->log, options->event, options->event_data);
    const char *const drivers[KILN__BACKEND_END] = { [KILN__BACKEND_CUDA] = options->libcuda };
    const char *record = options->record != NULL ? options->record : "";
    kiln_status status = kiln__catalog_init(&service->catalog, report);
    if (status == KILN_OK)
        status = kiln__runtime_open(&service->runtime, drivers, options->device, &service->log, report);
    if (status != KILN_OK)
        return status;
    service->cache_dir = kiln__strdup(options->cache_dir);
    service->warm_options = warm_options(options->cache_dir, named);
    if (service->cache_dir == NULL || service->warm_options == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    status = open_builders(service, options, report);
    if (status != KILN_OK)
        return status;
    if (record[0] != '\0' && (service->record = kiln__record_open(record, &service->log)) == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    service->store_counters.trust = options->trust == KILN_TRUST_GROUP ? KILN__TRUST_GROUP : 0;
    kiln__store *shared = open_stores(service, options, named);
    if (open_daemon(service, options) != KILN_OK)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    open_remote(service, options);
    if (options->isolate == KILN_ISOLATE_NEVER)
        kiln__builder_keep_sources_at_hand(&service->builders[KILN__BACKEND_CUDA]);
    service->wise = options->wisdom == KILN_ON;
    service->programs.most = options->loaded_max;
    service->applied.most = options->loaded_max;
    service->wisdom =
        kiln__wisdom_open(service->disk, shared, KILN__WISDOM_WAIT_MS, &service->log, &service->store_counters);
    if (service->wisdom == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    service->keylock.disk = service->disk;
    service->keylock.wait_ms = options->lock_wait_ms;
    service->keylock.aside = step_aside;
    service->keylock.data = service;
    return KILN_OK;
}

static void init(kiln_service *service)
{
    kiln__program_table_init(&service->programs);
    kiln__apply_table_init(&service->applied);
    pthread_mutex_init(&service->native_lock, NULL);
    pthread_mutex_init(&service->define_lock, NULL);
    kiln__workpool_init(&service->pool, kiln__cpu_count());
    kiln__workpool_init(&service->tunings, 1);
    service->tunings.name = "kiln-tune";
    service->tunings.gives_way =
        false; /* it measures; and threads of the cpu backend that it is the first to need inherit this */
    pthread_mutex_init(&service->flights_lock, NULL);
    kiln__keylock_init(&service->keylock, NULL, 0, &service->log);
    pthread_mutex_init(&service->queues_lock, NULL);
    service->generation = kiln__fork_generation();
}

kiln_status kiln__service_open(kiln_service **out, kiln_options *options, kiln_report *report)
{
    bool named = options->cache_dir != NULL;
    char *directory;
    kiln_service *service = NULL;
    kiln_status status = kiln__options_complete(options, &directory, report);
    if (status == KILN_OK && kiln__fork_watch() == 0)
        service = kiln__calloc(1, sizeof(*service));
    if (service != NULL) {
        init(service);
        status = open_parts(service, options, named, report);
    } else if (status == KILN_OK) {
        status = kiln__fail_memory(report, KILN__STAGE_OPEN);
    }
    kiln__free(directory);
    *out = status == KILN_OK ? service : NULL;
    if (status != KILN_OK)
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
    /* The jobs of the pools use all the rest. Programs use devices, and builders use stores. */
    atomic_store(&service->closing, true);
    kiln__workpool_stop(&service->tunings); /* first: a tuning has a queue, and waits for compiles */
    close_queues(service);
    kiln__workpool_stop(&service->pool);
    kiln__workpool_fini(&service->tunings);
    kiln__workpool_fini(&service->pool);
    pthread_mutex_destroy(&service->flights_lock);
    pthread_mutex_destroy(&service->queues_lock);
    kiln__apply_table_fini(&service->applied);
    kiln__program_table_fini(&service->programs);
    pthread_mutex_destroy(&service->native_lock);
    pthread_mutex_destroy(&service->define_lock);
    for (int i = 0; i < KILN__BACKEND_END; i++)
        if (service->builders[i].tiers != NULL)
            kiln__builder_fini(&service->builders[i]);
    kiln__wisdom_close(service->wisdom);
    close_stores(service);
    kiln__daemon_close(service->daemon);
    kiln__runtime_release(service->runtime);
    kiln__catalog_fini(&service->catalog);
    kiln__free(service->cache_dir);
    kiln__free(service->warm_options);
    kiln__record_close(service->record);
    kiln__free(service);
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
        .hits_remote = atomic_load(&service->hits[KILN_ORIGIN_REMOTE]),
        .evictions = atomic_load(&service->store_counters.evictions),
        .record_errors = kiln__record_errors(service->record),
        .joined = atomic_load(&service->joined),
        .lock_waits = atomic_load(&service->keylock.waits),
        .lock_timeouts = atomic_load(&service->keylock.timeouts),
        .lock_errors = atomic_load(&service->keylock.errors),
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
    if (service->daemon != NULL) {
        kiln__daemon_counts daemon;
        kiln__daemon_count(service->daemon, &daemon);
        out->daemon_found = daemon.found;
        out->daemon_failures = daemon.failures;
        out->daemon_lost = daemon.lost;
        out->daemon_refused = daemon.refused;
    }
    if (service->tiers.remote != NULL) {
        kiln__remote_counts remote;
        kiln__remote_count(service->tiers.remote, &remote);
        out->remote_gets = remote.gets;
        out->remote_skipped = remote.skipped;
        out->remote_failures = remote.failures;
        out->remote_refused = remote.refused;
        out->remote_pushes = remote.pushes;
        out->remote_push_failures = remote.push_failures;
        out->remote_leases = remote.leases;
        out->remote_lease_waits = remote.lease_waits;
        out->remote_wait_ns = remote.wait_ns;
    }
    for (int i = 0; i < KILN__BACKEND_END; i++) {
        const kiln__builder *builder = &service->builders[i];
        out->compiles += atomic_load(&builder->compiles);
        out->compile_failures += atomic_load(&builder->failures);
        out->compile_ns += atomic_load(&builder->compile_ns);
        out->strict_refusals += atomic_load(&builder->refusals);
    }
}
