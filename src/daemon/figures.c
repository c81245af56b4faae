#include "daemon/figures.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kiln__histogram_add(kiln__histogram *histogram, uint64_t ns)
{
    unsigned bucket = 0;
    while (bucket + 1 < KILN__FIGURES_BUCKETS && ns > (uint64_t)1000 << bucket)
        bucket++;
    histogram->count++;
    histogram->sum_ns += ns;
    histogram->buckets[bucket]++;
}

void kiln__figures_fini(kiln__figures *figures)
{
    kiln__spec_figures *spec, *next;
    HASH_ITER (hh, figures->specs, spec, next) {
        HASH_DEL(figures->specs, spec);
        kiln__free(spec);
    }
}

/* NULL: there are too many, or no memory. */
static kiln__spec_figures *find_spec(kiln__figures *figures, const uint8_t *key, const char *text)
{
    kiln__spec_figures *spec;
    bool added = false;
    HASH_FIND(hh, figures->specs, key, KILN__DIGEST_SIZE, spec);
    if (spec != NULL || HASH_COUNT(figures->specs) >= KILN__FIGURES_SPECS)
        return spec;
    const size_t length = strlen(text);
    spec = kiln__calloc(1, sizeof(*spec) + length + 1);
    if (spec == NULL)
        return NULL;
    memcpy(spec->key, key, sizeof(spec->key));
    memcpy(spec->text, text, length + 1);
    KILN__TABLE_ADD(figures->specs, spec->key, sizeof(spec->key), spec, added);
    if (!added)
        kiln__free(spec);
    return added ? spec : NULL;
}

/* A hit saves a compile: that of its spec, where it is known, else the mean one. */
static uint64_t compile_of(const kiln__figures *figures, const kiln__spec_figures *spec)
{
    const kiln__histogram *compiled = &figures->found[KILN_ORIGIN_COMPILED];
    if (spec != NULL && spec->compile_ns > 0)
        return spec->compile_ns;
    return compiled->count > 0 ? compiled->sum_ns / compiled->count : 0;
}

void kiln__figures_found(kiln__figures *figures, const uint8_t key[KILN__DIGEST_SIZE], const char *spec,
                         kiln_origin origin, uint64_t ns, uint64_t compile_ns)
{
    kiln__spec_figures *of_spec = find_spec(figures, key, spec);
    kiln__histogram_add(&figures->found[origin], ns);
    if (of_spec != NULL)
        of_spec->requests++;
    if (of_spec != NULL && compile_ns > 0)
        of_spec->compile_ns = compile_ns;
    if (origin != KILN_ORIGIN_COMPILED)
        figures->saved_ns += compile_of(figures, of_spec);
}

/* ---- JSON */

static json_t *histogram_json(const kiln__histogram *histogram)
{
    json_t *buckets = json_array();
    uint64_t below = 0;
    for (unsigned k = 0; k + 1 < KILN__FIGURES_BUCKETS; k++) {
        below += histogram->buckets[k];
        json_array_append_new(buckets, json_pack("{s:I,s:I}", "us", (json_int_t)1 << k, "count", (json_int_t)below));
    }
    return json_pack("{s:I,s:f,s:o}", "count", (json_int_t)histogram->count, "seconds", (double)histogram->sum_ns / 1e9,
                     "at_most", buckets);
}

static int by_requests(const void *a, const void *b)
{
    const kiln__spec_figures *x = *(kiln__spec_figures *const *)a, *y = *(kiln__spec_figures *const *)b;
    return (x->requests < y->requests) - (x->requests > y->requests);
}

static int by_compile(const void *a, const void *b)
{
    const kiln__spec_figures *x = *(kiln__spec_figures *const *)a, *y = *(kiln__spec_figures *const *)b;
    return (x->compile_ns < y->compile_ns) - (x->compile_ns > y->compile_ns);
}

/* The first specs in an order. */
static json_t *specs_json(const kiln__figures *figures, int (*order)(const void *, const void *))
{
    const size_t count = HASH_COUNT(figures->specs);
    kiln__spec_figures **all = kiln__calloc(count + 1, sizeof(*all)), *spec, *next;
    json_t *list = json_array();
    size_t i = 0;
    if (all == NULL)
        return list;
    HASH_ITER (hh, figures->specs, spec, next)
        all[i++] = spec;
    qsort(all, count, sizeof(*all), order); /* NOLINT(bugprone-sizeof-expression): of pointers */
    for (i = 0; i < count && i < KILN__FIGURES_SHOWN; i++)
        json_array_append_new(list,
                              json_pack("{s:s,s:I,s:f}", "spec", all[i]->text, "requests", (json_int_t)all[i]->requests,
                                        "compile_ms", (double)all[i]->compile_ns / 1e6));
    kiln__free(all);
    return list;
}

static json_t *refused_json(const kiln__figures *figures)
{
    return json_pack("{s:I,s:I,s:I,s:I}", "users", (json_int_t)figures->refused_users, "frames",
                     (json_int_t)figures->refused_frames, "slow", (json_int_t)figures->refused_slow, "crowd",
                     (json_int_t)figures->refused_crowd);
}

static json_t *remote_json(const kiln_stats *stats)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I}", "gets", (json_int_t)stats->remote_gets, "skipped",
                     (json_int_t)stats->remote_skipped, "failures", (json_int_t)stats->remote_failures, "refused",
                     (json_int_t)stats->remote_refused, "pushes", (json_int_t)stats->remote_pushes, "push_failures",
                     (json_int_t)stats->remote_push_failures);
}

static json_t *found_json(const kiln__figures *figures)
{
    static const char *const names[] = { "compiled", "memory", "disk", "pack", "shared", "remote" };
    json_t *found = json_object();
    for (int i = 0; i < KILN__FIGURES_ORIGINS; i++)
        json_object_set_new(found, names[i], histogram_json(&figures->found[i]));
    return found;
}

char *kiln__figures_json(const kiln__figures *figures, const kiln__figures_now *now)
{
    json_t *all =
        json_pack("{s:s,s:I,s:s,s:s,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:I,s:I}", "version", kiln_version(), "pid",
                  (json_int_t)getpid(), "socket", now->socket, "directory", now->directory, "uptime_s",
                  (double)(now->now_ns - figures->started_ns) / 1e9, "resident_bytes", (json_int_t)now->resident_bytes,
                  "clients", (json_int_t)now->clients, "running", (json_int_t)now->running, "connections",
                  (json_int_t)figures->connections, "requests", (json_int_t)figures->requests, "absent",
                  (json_int_t)figures->absent, "failed", (json_int_t)figures->failed, "reloads",
                  (json_int_t)figures->reloads, "saved_s", (double)figures->saved_ns / 1e9, "evictions",
                  (json_int_t)now->stats->evictions, "worker_crashes", (json_int_t)now->stats->worker_crashes);
    json_object_set_new(all, "found", found_json(figures));
    json_object_set_new(all, "refused", refused_json(figures));
    json_object_set_new(all, "remote", remote_json(now->stats));
    json_object_set_new(all, "most_requested", specs_json(figures, by_requests));
    json_object_set_new(all, "slowest", specs_json(figures, by_compile));
    char *text = all != NULL ? json_dumps(all, JSON_COMPACT) : NULL, *copy = text != NULL ? kiln__strdup(text) : NULL;
    free(text);
    json_decref(all);
    return copy;
}
