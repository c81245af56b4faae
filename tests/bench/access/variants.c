#include "bench/access/variants.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { THREADS_OF_SM = 2048, KIB = 1024 };

static const char *const kinds[] = {
#define NAME(id, name) name,
    ACCESS_KINDS(NAME)
#undef NAME
};
static const char *const caches[] = { "plain", "stream" };

/* A geometry: `accesses` per thread, each of `word` bytes; `cache` is the hint of the template's own loads and
 * stores. */
typedef struct shape {
    unsigned block, accesses, word;
    const char *cache;
} shape;

/* Whether the kind is asked for; the template's own kernels always are. */
static bool is_wanted(const access_list *list, access_kind kind)
{
    const size_t length = strlen(kinds[kind]);
    if (list->kinds == NULL || kind == ACCESS_TEMPLATE)
        return true;
    for (const char *at = list->kinds; *at != '\0'; at += *at == ',') {
        const size_t word = strcspn(at, ",");
        if (word == length && memcmp(at, kinds[kind], length) == 0)
            return true;
        at += word;
    }
    return false;
}

static access_code *code_for(access_list *list, const char *spec, const char *defines)
{
    for (size_t i = 0; i < list->code_count; i++)
        if (strcmp(list->codes[i].spec, spec) == 0 && strcmp(list->codes[i].defines, defines) == 0)
            return &list->codes[i];
    access_code *fresh = &list->codes[list->code_count++];
    snprintf(fresh->spec, sizeof(fresh->spec), "%s", spec);
    snprintf(fresh->defines, sizeof(fresh->defines), "%s", defines);
    return fresh;
}

/* How a variant is launched. */
typedef struct way {
    unsigned per_sm, shared;
} way;

/* The format makes what the name says besides kind and geometry. */
__attribute__((format(printf, 6, 7))) static void add(access_list *list, access_kind kind, const shape *s, way launch,
                                                      const char *defines, const char *format, ...)
{
    char spec[ACCESS_TEXT], rest[64];
    va_list arguments;
    unsigned vector = s->word / list->bytes;
    if (!is_wanted(list, kind) || list->count++ >= ACCESS_VARIANTS_MAX)
        return;
    access_variant *fresh = &list->variants[list->count - 1];
    snprintf(spec, sizeof(spec), "op=%s dtype=%s block=%u elems=%u vector=%u cache=%s target=%s", list->op, list->dtype,
             s->block, s->accesses * vector, vector, s->cache, list->target);
    *fresh = (access_variant){ .kind = kind, .block = s->block, .tile = s->block * s->accesses * vector };
    fresh->code = code_for(list, spec, defines);
    fresh->per_sm = launch.per_sm;
    fresh->shared = launch.shared;
    fresh->is_default = kind == ACCESS_TEMPLATE && s->block == 128 && s->accesses == 1 && s->word == ACCESS_WORD &&
                        s->cache == caches[1];
    va_start(arguments, format);
    vsnprintf(rest, sizeof(rest), format, arguments);
    va_end(arguments);
    snprintf(fresh->name, sizeof(fresh->name), "%-8s %4u x%u%s %s", kinds[kind], s->block, s->accesses,
             s->word > ACCESS_WORD ? " 32-byte" : "", rest);
}

static const way one_tile_each = { 0, 0 };

static void list_once(access_list *list, unsigned word)
{
    char defines[ACCESS_TEXT];
    for (unsigned block = 64; block <= 512; block *= 2)
        for (unsigned accesses = 1; accesses <= 4; accesses *= 2)
            for (int c = 0; c < 2; c++) {
                const shape s = { block, accesses, word, caches[c] };
                add(list, ACCESS_TEMPLATE, &s, one_tile_each, "", "%s", caches[c]);
                snprintf(defines, sizeof(defines), "ACCESS_ONCE=1 ACCESS_BOUNDS=%u", block);
                if (accesses <= 2)
                    add(list, ACCESS_WHOLE, &s, one_tile_each, defines, "%s", caches[c]);
            }
}

/* How many blocks a multiprocessor is to hold: at least, by registers. */
static void list_bounds(access_list *list)
{
    char defines[ACCESS_TEXT];
    for (unsigned block = 128; block <= 512; block *= 2)
        for (unsigned accesses = 1; accesses <= 4; accesses *= 2)
            for (unsigned least = 1; least <= 16 && least * block <= THREADS_OF_SM; least *= 2) {
                const shape s = { block, accesses, ACCESS_WORD, caches[0] };
                snprintf(defines, sizeof(defines), "ACCESS_ONCE=1 ACCESS_BOUNDS=%u,%u", block, least);
                add(list, ACCESS_BOUND, &s, one_tile_each, defines, "%s, at least %u blocks", s.cache, least);
            }
}

/* The same at most, by shared memory that nobody uses. */
static void list_fewer(access_list *list)
{
    for (unsigned block = 64; block <= 256; block *= 2)
        for (unsigned accesses = 1; accesses <= 4; accesses *= 2)
            for (unsigned threads = 512; threads < THREADS_OF_SM; threads += 512) {
                const shape s = { block, accesses, ACCESS_WORD, caches[0] };
                const unsigned most = threads / block;
                const way launch = { 0, (ACCESS_SHARED_OF_SM / most / KIB - 1) * KIB };
                add(list, ACCESS_FEWER, &s, launch, "", "%s, at most %u blocks", s.cache, most);
            }
}

static void add_grid(access_list *list, const shape *s, unsigned ahead)
{
    char defines[ACCESS_TEXT];
    snprintf(defines, sizeof(defines), "ACCESS_GRID=1 ACCESS_BOUNDS=%u ACCESS_AHEAD=%u", s->block, ahead);
    for (unsigned per_sm = 1; per_sm <= 16 && per_sm * s->block <= 2 * THREADS_OF_SM; per_sm *= 2) {
        const way launch = { per_sm, 0 };
        add(list, ahead ? ACCESS_AHEAD : ACCESS_GRID, s, launch, defines, "%s, %u blocks per SM", s->cache, per_sm);
    }
}

static void list_grid(access_list *list)
{
    for (unsigned block = 256; block <= 1024; block *= 2)
        for (unsigned accesses = 1; accesses <= 4; accesses *= 2)
            for (int c = 0; c < 2; c++) {
                const shape s = { block, accesses, ACCESS_WORD, caches[c] };
                add_grid(list, &s, 0);
                if (accesses < 4)
                    add_grid(list, &s, 1);
            }
}

/* How a hint is written in patterns.cu. */
typedef struct hint {
    const char *name, *text;
    int policy;
} hint;

static const hint loads[] = { { "plain", "", 0 },
                              { "cs", ".cs", 0 },
                              { "nc", ".nc", 0 },
                              { "no L1", ".nc.L1::no_allocate", 0 },
                              { "no L1 256B", ".nc.L1::no_allocate.L2::256B", 0 },
                              { "256B", ".L2::256B", 0 },
                              { "evict first", ".nc.L1::no_allocate", 1 } };
static const hint stores[] = {
    { "plain", "", 0 }, { "cs", ".cs", 0 }, { "no L1", ".L1::no_allocate", 0 }, { "evict first", "", 1 }
};
enum { LOADS = sizeof(loads) / sizeof(loads[0]), STORES = sizeof(stores) / sizeof(stores[0]) };

static void list_hints(access_list *list)
{
    static const shape shapes[] = { { 64, 2, ACCESS_WORD, "plain" },
                                    { 128, 1, ACCESS_WORD, "plain" },
                                    { 256, 1, ACCESS_WORD, "plain" } };
    char defines[ACCESS_TEXT];
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (int l = 0; l < LOADS; l++)
            for (int t = 0; t < STORES; t++) {
                snprintf(defines, sizeof(defines),
                         "ACCESS_ONCE=1 ACCESS_BOUNDS=%u ACCESS_LOAD=\"%s\" ACCESS_POLICY_LOAD=%d "
                         "ACCESS_STORE=\"%s\" ACCESS_POLICY_STORE=%d",
                         shapes[s].block, loads[l].text, loads[l].policy, stores[t].text, stores[t].policy);
                add(list, ACCESS_HINTS, &shapes[s], one_tile_each, defines, "load %s, store %s", loads[l].name,
                    stores[t].name);
            }
}

/* `how` has a bit for stores from shared memory and one for the policy "evict first" (or streaming stores). */
static void add_bulk(access_list *list, unsigned kib, unsigned block, unsigned stages, unsigned per_sm, unsigned how)
{
    char defines[ACCESS_TEXT];
    const unsigned from_shared = how & 1, policy = how >> 1;
    const shape s = { block, kib * KIB / ACCESS_WORD / block, ACCESS_WORD, caches[policy] };
    const way launch = { per_sm, stages * list->inputs * kib * KIB };
    snprintf(defines, sizeof(defines),
             "ACCESS_BULK=1 ACCESS_BOUNDS=%u ACCESS_STAGES=%u ACCESS_STORE_BULK=%u ACCESS_POLICY_LOAD=%u", block,
             stages, from_shared, policy);
    const char *stores_say = from_shared ? ", bulk stores" : "", *policy_says = policy ? ", evict first" : "";
    if (stages == 1)
        add(list, ACCESS_BULK, &s, launch, defines, "%u KiB%s%s", kib, stores_say, policy_says);
    else
        add(list, ACCESS_RING, &s, launch, defines, "%u x %u KiB%s%s, %u per SM", stages, kib, stores_say, policy_says,
            per_sm);
}

static void list_bulk(access_list *list, unsigned kib, unsigned how)
{
    for (unsigned block = 128; block <= 256; block *= 2)
        add_bulk(list, kib, block, 1, 0, how);
    for (unsigned stages = 2; stages <= 4; stages++)
        for (unsigned per_sm = 1; per_sm <= 16; per_sm *= 2) {
            const unsigned block = kib == 4 ? 128 : 256, held = per_sm * (stages * list->inputs * kib + 1) * KIB;
            if (held >= 32 * KIB && held <= ACCESS_SHARED_OF_SM && per_sm * block <= THREADS_OF_SM)
                add_bulk(list, kib, block, stages, per_sm, how);
        }
}

bool access_list_make(access_list *list)
{
    list_once(list, ACCESS_WORD);
    if (list->sm >= 100)
        list_once(list, 2 * ACCESS_WORD);
    list_bounds(list);
    list_fewer(list);
    list_grid(list);
    list_hints(list);
    for (unsigned how = 0; how < 4 && list->sm >= 90; how++)
        for (unsigned kib = 4; kib <= 16; kib *= 2)
            list_bulk(list, kib, how);
    return list->count <= ACCESS_VARIANTS_MAX;
}
