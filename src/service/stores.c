#include "service/stores.h"

#include "base/alloc.h"
#include "base/table.h"
#include "store/memory.h"
#include "store/pack.h"
#include <stdio.h>
#include <string.h>

void kiln__stores_add(kiln_service *service, kiln__store *store, kiln_origin origin)
{
    if (store == NULL)
        return;
    service->origins[service->tiers.count] = origin;
    kiln__tiers_add(&service->tiers, store);
}

static void open_disk(kiln_service *service, const kiln__settings *settings)
{
    service->disk = kiln__disk_store_open(settings->cache_dir, &service->log, &service->store_counters,
                                          service->cache_problem, sizeof(service->cache_problem));
    if (service->disk != NULL)
        kiln__disk_store_limit(service->disk, settings->cache_bytes, settings->cache_files);
    kiln__stores_add(service, service->disk, KILN_ORIGIN_DISK);
}

/* At the end of the list. NULL when out of memory, which is logged. */
static kiln__named_store *add_named(kiln_service *service, const char *path, kiln_origin origin)
{
    size_t length = strlen(path) + 1;
    kiln__named_store *named = kiln__calloc(1, sizeof(*named) + length);
    if (named == NULL) {
        kiln__log_line(&service->log, KILN_LOG_WARN, "out of memory: %s is not used", path);
        return NULL;
    }
    memcpy(named->path, path, length);
    named->origin = origin;
    LL_APPEND(service->named, named);
    return named;
}

static void open_pack(kiln_service *service, kiln__named_store *pack)
{
    kiln__pack_store_open(&pack->store, pack->path, &service->log, &service->store_counters, pack->problem,
                          sizeof(pack->problem));
    kiln__stores_add(service, pack->store, KILN_ORIGIN_PACK);
}

/* One tier stays free for the shared directory. */
static void open_packs(kiln_service *service, char *list)
{
    enum { TIERS = KILN__TIERS_MAX - 1 };
    bool told = false;
    char *rest = NULL;
    for (char *path = strtok_r(list, ":", &rest); path != NULL; path = strtok_r(NULL, ":", &rest)) {
        kiln__named_store *pack = add_named(service, path, KILN_ORIGIN_PACK);
        if (pack != NULL && service->tiers.count < TIERS) {
            open_pack(service, pack);
        } else if (pack != NULL) {
            snprintf(pack->problem, sizeof(pack->problem), "too many packs are named before it");
            if (!told)
                kiln__log_line(&service->log, KILN_LOG_WARN, "too many packs: %s and those after it are not used",
                               path);
            told = true;
        }
    }
}

static void open_shared(kiln_service *service, const char *path)
{
    kiln__named_store *shared = add_named(service, path, KILN_ORIGIN_SHARED);
    if (shared == NULL)
        return;
    shared->store = kiln__disk_store_open_shared(path, &service->log, &service->store_counters, shared->problem,
                                                 sizeof(shared->problem));
    kiln__stores_add(service, shared->store, KILN_ORIGIN_SHARED);
}

void kiln__stores_open(kiln_service *service, const kiln__settings *settings)
{
    kiln__stores_add(service, kiln__memory_store_open(settings->memory_bytes), KILN_ORIGIN_MEMORY);
    if (settings->cache_dir[0] != '\0')
        open_disk(service, settings);
    if (settings->packs != NULL)
        open_packs(service, settings->packs);
    if (settings->shared_dir != NULL && settings->shared_dir[0] != '\0')
        open_shared(service, settings->shared_dir);
}

kiln__store *kiln__stores_shared(const kiln_service *service)
{
    kiln__named_store *named;
    LL_SEARCH_SCALAR(service->named, named, origin, KILN_ORIGIN_SHARED);
    return named != NULL ? named->store : NULL;
}

void kiln__stores_close(kiln_service *service)
{
    kiln__tiers_fini(&service->tiers);
    kiln__named_store *named, *next;
    LL_FOREACH_SAFE (service->named, named, next) {
        LL_DELETE(service->named, named);
        kiln__free(named);
    }
}
