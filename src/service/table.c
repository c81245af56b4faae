/* The table of loaded programs: names in shards, claims, and unloading programs of which there are too many. */
#include "service/table.h"

#include "base/table.h"
#include "os/cancel.h"
#include <string.h>

enum { FIRST_ROOM = 16 };

struct kiln__name_node {
    kiln__name_node *next; /* in the bucket */
    kiln__name_node *more; /* of the same program */
    kiln__held *held;
    uint64_t hash;   /* of all of the name but its generation */
    kiln__name name; /* its text is the one below */
    char text[];
};

struct kiln__held {
    kiln__held *next, *prev;
    kiln_program *program;
    kiln__name_node *names;
    atomic_uint_least64_t used; /* the table's clock at the last hit */
};

void kiln__program_table_init(kiln__program_table *table)
{
    memset(table, 0, sizeof(*table));
    table->most = SIZE_MAX;
    pthread_mutex_init(&table->lock, NULL);
    pthread_cond_init(&table->settled, NULL);
    for (int i = 0; i < KILN__TABLE_SHARDS; i++)
        pthread_mutex_init(&table->shards[i].lock, NULL);
}

static void free_held(kiln__held *held)
{
    for (kiln__name_node *node = held->names, *more; node != NULL; node = more) {
        more = node->more;
        kiln__free(node);
    }
    kiln__free(held);
}

void kiln__program_table_fini(kiln__program_table *table)
{
    kiln__held *held, *next;
    DL_FOREACH_SAFE (table->first, held, next) {
        held->program->held = NULL;
        kiln__program_release(held->program);
        free_held(held);
    }
    for (int i = 0; i < KILN__TABLE_SHARDS; i++) {
        kiln__free(table->shards[i].buckets);
        pthread_mutex_destroy(&table->shards[i].lock);
    }
    pthread_cond_destroy(&table->settled);
    pthread_mutex_destroy(&table->lock);
}

/* ---- Names in their shards */

/* Of all but the generation. */
static bool is_same(const kiln__name *a, const kiln__name *b)
{
    return a->hash == b->hash && a->length == b->length && a->kind == b->kind && a->size == b->size &&
           a->cols == b->cols && a->device == b->device && memcmp(a->text, b->text, a->length) == 0;
}

static uint64_t hash_of(const kiln__name *name)
{
    uint64_t rest = (uint64_t)(uintptr_t)name->device + (uint64_t)name->kind * 256 + name->size + name->cols * 1024;
    return name->hash ^ rest * 0x9e3779b97f4a7c15u;
}

static kiln__name_shard *shard_of(kiln__program_table *table, uint64_t hash)
{
    return &table->shards[hash >> 59];
}

static kiln__name_node **bucket_of(const kiln__name_shard *shard, uint64_t hash)
{
    return &shard->buckets[hash & (shard->room - 1)];
}

/* The caller holds the table's lock or the shard's. */
static inline kiln__name_node *find_name(const kiln__name_shard *shard, const kiln__name *name, uint64_t hash)
{
    kiln__name_node *node = shard->room > 0 ? *bucket_of(shard, hash) : NULL;
    while (node != NULL && (node->hash != hash || !is_same(&node->name, name)))
        node = node->next;
    return node;
}

/* The program of a name of the same generation, with a new reference and the time of its use, or NULL. */
static inline kiln_program *use_program(kiln__program_table *table, const kiln__name_shard *shard,
                                        const kiln__name *name, uint64_t hash)
{
    uint64_t now = atomic_load_explicit(&table->clock, memory_order_relaxed);
    const kiln__name_node *node = find_name(shard, name, hash);
    if (node == NULL || node->name.generation != name->generation)
        return NULL;
    if (atomic_load_explicit(&node->held->used, memory_order_relaxed) != now)
        atomic_store_explicit(&node->held->used, now, memory_order_relaxed);
    return kiln__program_retain(node->held->program);
}

kiln_program *kiln__program_table_find(kiln__program_table *table, const kiln__name *name)
{
    uint64_t hash = hash_of(name);
    kiln__name_shard *shard = shard_of(table, hash);
    pthread_mutex_lock(&shard->lock);
    kiln_program *program = use_program(table, shard, name, hash);
    pthread_mutex_unlock(&shard->lock);
    return program;
}

/* Doubles the buckets of a shard whose lock and the table's are held. False: out of memory. */
static bool grow_shard(kiln__name_shard *shard)
{
    kiln__name_shard larger = { .room = shard->room > 0 ? 2 * shard->room : FIRST_ROOM };
    larger.buckets = kiln__calloc(larger.room, sizeof(*larger.buckets));
    if (larger.buckets == NULL)
        return false;
    for (size_t i = 0; i < shard->room; i++)
        for (kiln__name_node *node = shard->buckets[i], *next; node != NULL; node = next) {
            kiln__name_node **bucket = bucket_of(&larger, node->hash);
            next = node->next;
            node->next = *bucket;
            *bucket = node;
        }
    kiln__free(shard->buckets);
    shard->buckets = larger.buckets;
    shard->room = larger.room;
    return true;
}

/* Without memory for more buckets the chains become longer. False: there are no buckets at all. */
static bool link_name(kiln__program_table *table, kiln__name_node *node)
{
    kiln__name_shard *shard = shard_of(table, node->hash);
    pthread_mutex_lock(&shard->lock);
    bool roomy = shard->count < shard->room || grow_shard(shard) || shard->room > 0;
    if (roomy) {
        kiln__name_node **bucket = bucket_of(shard, node->hash);
        node->next = *bucket;
        *bucket = node;
        shard->count++;
    }
    pthread_mutex_unlock(&shard->lock);
    return roomy;
}

static void unlink_name(kiln__program_table *table, const kiln__name_node *node)
{
    kiln__name_shard *shard = shard_of(table, node->hash);
    pthread_mutex_lock(&shard->lock);
    kiln__name_node **at = bucket_of(shard, node->hash);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    shard->count--;
    pthread_mutex_unlock(&shard->lock);
}

/* ---- Adding. The table's lock is held. */

/* The program's place in the table, which is made if there is none. NULL: out of memory. */
static kiln__held *hold_program(kiln__program_table *table, kiln_program *program)
{
    if (program->held != NULL)
        return program->held;
    kiln__held *held = kiln__calloc(1, sizeof(*held));
    if (held == NULL)
        return NULL;
    held->program = kiln__program_retain(program);
    atomic_init(&held->used, atomic_fetch_add(&table->clock, 1));
    DL_PREPEND(table->first, held);
    table->count++;
    return program->held = held;
}

static void list_name(kiln__held *held, kiln__name_node *node)
{
    node->more = held->names;
    held->names = node;
}

/* Moves a name over to a program of a later generation. The other one stays, under its other names. */
static void move_name(kiln__program_table *table, kiln__name_node *node, uint64_t generation, kiln__held *held)
{
    kiln__name_shard *shard = shard_of(table, node->hash);
    kiln__name_node **at = &node->held->names;
    while (*at != node)
        at = &(*at)->more;
    *at = node->more;
    pthread_mutex_lock(&shard->lock);
    node->held = held;
    node->name.generation = generation;
    pthread_mutex_unlock(&shard->lock);
    list_name(held, node);
}

/* Afterwards *spare is a node to free, or NULL. False: out of memory. */
static bool add_name(kiln__program_table *table, kiln__name_node *found, kiln_program *program, kiln__name_node **spare)
{
    if (found != NULL && found->name.generation > (*spare)->name.generation)
        return true;
    kiln__held *held = hold_program(table, program);
    if (held == NULL)
        return false;
    if (found != NULL) {
        move_name(table, found, (*spare)->name.generation, held);
        return true;
    }
    (*spare)->held = held;
    if (!link_name(table, *spare))
        return false;
    list_name(held, *spare);
    *spare = NULL;
    return true;
}

bool kiln__program_table_add(kiln__program_table *table, const kiln__name *name, kiln_program **program)
{
    kiln__name_node *node = kiln__alloc(sizeof(*node) + name->length);
    if (node == NULL)
        return false;
    *node = (kiln__name_node){ .hash = hash_of(name), .name = *name };
    node->name.text = memcpy(node->text, name->text, name->length);
    bool added = true;
    kiln_program *spare = NULL;
    pthread_mutex_lock(&table->lock);
    kiln__name_node *found = find_name(shard_of(table, node->hash), name, node->hash);
    if (found != NULL && found->name.generation == name->generation) {
        spare = *program;
        *program = kiln__program_retain(found->held->program);
    } else {
        added = add_name(table, found, *program, &node);
    }
    pthread_mutex_unlock(&table->lock);
    kiln__free(node);
    kiln__program_release(spare);
    return added;
}

/* ---- Claims */

/* With the table's lock held. */
static kiln_program *find_locked(kiln__program_table *table, const kiln__name *name)
{
    uint64_t hash = hash_of(name);
    return use_program(table, shard_of(table, hash), name, hash);
}

static bool is_claimed(const kiln__program_table *table, const kiln__name *name)
{
    const kiln__claim *claim;
    LL_FOREACH (table->claims, claim)
        if (is_same(claim->name, name))
            return true;
    return false;
}

kiln_program *kiln__program_table_claim(kiln__program_table *table, const kiln__name *name, kiln__claim *claim)
{
    *claim = (kiln__claim){ .name = name };
    pthread_mutex_lock(&table->lock);
    kiln_program *found = find_locked(table, name);
    claim->busy = found == NULL && is_claimed(table, name);
    claim->held = found == NULL && !claim->busy;
    if (claim->held) {
        LL_PREPEND(table->claims, claim);
    }
    pthread_mutex_unlock(&table->lock);
    return found;
}

kiln_program *kiln__program_table_await(kiln__program_table *table, const kiln__name *name)
{
    pthread_mutex_lock(&table->lock);
    while (is_claimed(table, name))
        pthread_cond_wait(&table->settled, &table->lock);
    kiln_program *found = find_locked(table, name);
    pthread_mutex_unlock(&table->lock);
    return found;
}

void kiln__program_table_settle(kiln__program_table *table, kiln__claim *claim)
{
    if (!claim->held)
        return;
    pthread_mutex_lock(&table->lock);
    LL_DELETE(table->claims, claim);
    pthread_cond_broadcast(&table->settled);
    pthread_mutex_unlock(&table->lock);
}

/* ---- Letting go */

/* The table's own reference is the only one. A new one needs an existing one or a name. */
static bool is_alone(const kiln__held *held)
{
    return atomic_load_explicit(&held->program->refs, memory_order_acquire) == 1;
}

/* Of those used equally long ago the one that came first. */
static kiln__held *find_least_used(const kiln__program_table *table)
{
    kiln__held *least = NULL;
    uint64_t when = UINT64_MAX;
    kiln__held *held;
    DL_FOREACH (table->first, held) {
        uint64_t used = atomic_load_explicit(&held->used, memory_order_relaxed);
        if (used <= when && is_alone(held)) {
            least = held;
            when = used;
        }
    }
    return least;
}

/* Takes the names off, so that no thread finds the program any more. */
static void hide_program(kiln__program_table *table, kiln__held *held)
{
    for (kiln__name_node *node = held->names; node != NULL; node = node->more)
        unlink_name(table, node);
    DL_DELETE(table->first, held);
    table->count--;
}

/* Undoes that. A name that means another program by now keeps that meaning. */
static void show_program(kiln__program_table *table, kiln__held *held)
{
    kiln__name_node *node = held->names;
    held->names = NULL;
    DL_PREPEND(table->first, held);
    table->count++;
    for (kiln__name_node *more; node != NULL; node = more) {
        more = node->more;
        if (find_name(shard_of(table, node->hash), &node->name, node->hash) != NULL || !link_name(table, node))
            kiln__free(node);
        else
            list_name(held, node);
    }
}

/* One program of too many, which no thread can get any more; NULL: there is none. */
static kiln__held *take_spare_program(kiln__program_table *table)
{
    kiln__held *held = NULL;
    pthread_mutex_lock(&table->lock);
    while (table->count > table->most && (held = find_least_used(table)) != NULL) {
        hide_program(table, held);
        if (is_alone(held))
            break;
        show_program(table, held); /* a thread found it meanwhile */
        held = NULL;
    }
    pthread_mutex_unlock(&table->lock);
    return held;
}

/* Waits for all work of a device. False if a graph is being captured, so that it must not wait, or if waiting
 * fails. Freeing memory of a GPU waits as cuCtxSynchronize does, but cuCtxSynchronize would also break every
 * capture in the context, of any thread and in any mode. */
static bool wait_for_device(kiln_device *device)
{
    enum { BYTES = 256 };
    bool capturing = true;
    void *memory = NULL;
    const kiln__backend_vtable *vtable = device->backend->vtable;
    if (vtable->capturing(device, NULL, &capturing, NULL) != KILN_OK || capturing ||
        vtable->alloc(device, &memory, BYTES, NULL) != KILN_OK)
        return false;
    vtable->free(device, memory);
    return true;
}

void kiln__program_table_trim(kiln__program_table *table)
{
    kiln__held *held;
    KILN__NO_CANCEL;
    while ((held = take_spare_program(table)) != NULL) {
        if (!wait_for_device(held->program->device)) {
            pthread_mutex_lock(&table->lock);
            show_program(table, held);
            pthread_mutex_unlock(&table->lock);
            return;
        }
        kiln__program_release(held->program);
        free_held(held);
        atomic_fetch_add(&table->unloads, 1);
    }
}

void kiln__program_table_visit(kiln__program_table *table, void (*fn)(void *data, kiln_program *program), void *data)
{
    pthread_mutex_lock(&table->lock);
    kiln__held *held;
    DL_FOREACH (table->first, held)
        fn(data, held->program);
    pthread_mutex_unlock(&table->lock);
}
