/* Prints the counters of a service by a table of their names. */
#include "warm/counters.h"

#include <inttypes.h>
#include <string.h>

#include "text/format.h"

/* A counter of kiln_stats. Rows of a group are one line. */
struct counter {
    const char *group, *name;
    size_t offset;
    const char *words; /* after its number; NULL: it is a time */
};

#define ROW(group, name, words)                         \
    {                                                   \
        group, #name, offsetof(kiln_stats, name), words \
    }
/* The JSON output calls a few otherwise. */
#define NAMED(group, field, name, words)                \
    {                                                   \
        group, name, offsetof(kiln_stats, field), words \
    }

static const struct counter counters[] = {
    ROW("asked", gets, "gets and builds"),
    ROW("asked", joined, "joined to one in progress"),
    ROW("asked", cancelled, "cancelled"),
    ROW("asked", timed_out, "too late"),
    NAMED("hits", hits_loaded, "hits_kernel", "loaded already"),
    ROW("hits", hits_memory, "in memory"),
    ROW("hits", hits_disk, "in the directory"),
    ROW("hits", hits_pack, "in packs"),
    ROW("hits", hits_shared, "in the shared directory"),
    ROW("hits", hits_remote, "on the remote"),
    ROW("misses", misses_absent, "absent"),
    ROW("misses", misses_damaged, "damaged"),
    ROW("misses", misses_untrusted, "untrusted"),
    ROW("misses", misses_error, "unreadable"),
    NAMED("misses", misses_unloadable, "misses_refused", "refused when loaded"),
    ROW("compiles", compiles, "done"),
    ROW("compiles", compile_failures, "failed"),
    ROW("compiles", strict_refusals, "refused by strict mode"),
    ROW("compiles", compile_ns, NULL),
    ROW("workers", worker_starts, "started"),
    ROW("workers", worker_crashes, "crashed"),
    ROW("workers", worker_timeouts, "stopped"),
    ROW("loads", loads, "done"),
    ROW("loads", ptx_loads, "from PTX"),
    ROW("loads", unloads, "undone"),
    ROW("loads", load_ns, NULL),
    ROW("waits", lock_waits, "for another process"),
    ROW("waits", lock_timeouts, "given up"),
    ROW("waits", lock_errors, "without a lock"),
    ROW("stores", store_damaged, "files damaged"),
    ROW("stores", store_untrusted, "untrusted"),
    ROW("stores", store_errors, "errors"),
    ROW("stores", evictions, "evicted"),
    ROW("stores", record_errors, "not recorded"),
    ROW("daemon", daemon_found, "had or made"),
    ROW("daemon", daemon_failures, "failed"),
    ROW("daemon", daemon_lost, "not answered"),
    ROW("daemon", daemon_refused, "refused"),
    ROW("remote", remote_gets, "entries asked for"),
    ROW("remote", remote_skipped, "questions not asked"),
    ROW("remote", remote_failures, "not answered"),
    ROW("remote", remote_refused, "entries refused"),
    ROW("pushes", remote_pushes, "done"),
    ROW("pushes", remote_push_failures, "failed"),
    ROW("leases", remote_leases, "taken"),
    ROW("leases", remote_lease_waits, "found taken"),
    ROW("leases", remote_wait_ns, NULL),
};

_Static_assert(COUNT_OF(counters) * sizeof(uint64_t) == sizeof(kiln_stats) - offsetof(kiln_stats, gets),
               "a counter of kiln_stats has no row");

static uint64_t value_of(const kiln_stats *stats, const struct counter *counter)
{
    uint64_t value;
    memcpy(&value, (const char *)stats + counter->offset, sizeof(value));
    return value;
}

void counters_print(const kiln_service *service, FILE *stream)
{
    kiln_stats stats = KILN_INIT(kiln_stats);
    kiln_stats_get(service, &stats);
    for (size_t i = 0; i < COUNT_OF(counters); i++) {
        if (i == 0 || strcmp(counters[i].group, counters[i - 1].group) != 0)
            fprintf(stream, "%s%-9s ", i ? "\n" : "", counters[i].group);
        else
            fputs(", ", stream);
        uint64_t value = value_of(&stats, &counters[i]);
        if (counters[i].words)
            fprintf(stream, "%" PRIu64 " %s", value, counters[i].words);
        else
            fputs(format_ms((double)value / 1e6), stream);
    }
    fputc('\n', stream);
}

json_t *counters_json(const kiln_service *service)
{
    kiln_stats stats = KILN_INIT(kiln_stats);
    json_t *object = json_object();
    kiln_stats_get(service, &stats);
    for (size_t i = 0; i < COUNT_OF(counters); i++)
        json_put(object, counters[i].name, json_count(value_of(&stats, &counters[i])), NULL);
    return object;
}
