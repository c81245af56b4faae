#include "service/table.h"

#include "base/table.h"
#include "os/cancel.h"
#include <string.h>

enum { FIRST_ROOM = 16 };

struct kiln__name_node {
    kiln__name_node *next; /* in the bucket */
    kiln__name_node *more; /* of the same program */
    kiln__held *held;
    uint64_t hash, generation;
    const kiln_device *device;
    kiln__name_kind kind;
    uint8_t size;
    size_t length;
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

static bool is_same(const kiln__name *a, const kiln__name *b)
{
    return a->hash == b->hash && a->length == b->length && a->kind == b->kind && a->device == b->device &&
           memcmp(a->text, b->text, a->length) == 0;
}

/* All of a name but its generation. */
static uint64_t hash_of(const kiln__name *name)
{
    uint64_t rest = (uint64_t)(uintptr_t)name->device + (uint64_t)name->kind * 256 + name->size;
    return name->hash ^ rest * 0x9e3779b97f4a7c15u;
}

static unsigned shard_of(uint64_t hash)
{
    return (unsigned)(hash >> 59);
}

/* The caller holds the table's lock or the shard's. */
static kiln__name_node *look_up(const kiln__program_table *table, const kiln__name *name, uint64_t hash)
{
    unsigned shard = shard_of(hash);
    if (table->shards[shard].room == 0)
        return NULL;
    kiln__name_node *node = table->shards[shard].buckets[hash & (table->shards[shard].room - 1)];
    while (node != NULL && (node->hash != hash || node->length != name->length || node->kind != name->kind ||
                            node->size != name->size || node->device != name->device ||
                            memcmp(node->text, name->text, name->length) != 0))
        node = node->next;
    return node;
}

/* A new reference, and the time of its use. */
static kiln_program *use(kiln__program_table *table, kiln__held *held)
{
    uint64_t now = atomic_load_explicit(&table->clock, memory_order_relaxed);
    if (atomic_load_explicit(&held->used, memory_order_relaxed) != now)
        atomic_store_explicit(&held->used, now, memory_order_relaxed);
    return kiln__program_retain(held->program);
}

kiln_program *kiln__program_table_find(kiln__program_table *table, const kiln__name *name)
{
    uint64_t hash = hash_of(name);
    unsigned shard = shard_of(hash);
    kiln_program *program = NULL;
    pthread_mutex_lock(&table->shards[shard].lock);
    const kiln__name_node *node = look_up(table, name, hash);
    if (node != NULL && node->generation == name->generation)
        program = use(table, node->held);
    pthread_mutex_unlock(&table->shards[shard].lock);
    return program;
}

/* Doubles the buckets of a shard, both of whose locks are held. False: out of memory. */
static bool grow_locked(kiln__program_table *table, unsigned shard)
{
    size_t room = table->shards[shard].room > 0 ? 2 * table->shards[shard].room : FIRST_ROOM;
    kiln__name_node **buckets = kiln__calloc(room, sizeof(kiln__name_node *));
    if (buckets == NULL)
        return false;
    for (size_t i = 0; i < table->shards[shard].room; i++)
        for (kiln__name_node *node = table->shards[shard].buckets[i], *next; node != NULL; node = next) {
            next = node->next;
            node->next = buckets[node->hash & (room - 1)];
            buckets[node->hash & (room - 1)] = node;
        }
    kiln__free(table->shards[shard].buckets);
    table->shards[shard].buckets = buckets;
    table->shards[shard].room = room;
    return true;
}

/* Longer chains do where there is no memory for more buckets. False: there are none at all. */
static bool link_locked(kiln__program_table *table, kiln__name_node *node)
{
    unsigned shard = shard_of(node->hash);
    pthread_mutex_lock(&table->shards[shard].lock);
    bool roomy = table->shards[shard].count < table->shards[shard].room || grow_locked(table, shard) ||
                 table->shards[shard].room > 0;
    if (roomy) {
        kiln__name_node **bucket = &table->shards[shard].buckets[node->hash & (table->shards[shard].room - 1)];
        node->next = *bucket;
        *bucket = node;
        table->shards[shard].count++;
    }
    pthread_mutex_unlock(&table->shards[shard].lock);
    return roomy;
}

static void unlink_locked(kiln__program_table *table, const kiln__name_node *node)
{
    unsigned shard = shard_of(node->hash);
    pthread_mutex_lock(&table->shards[shard].lock);
    kiln__name_node **at = &table->shards[shard].buckets[node->hash & (table->shards[shard].room - 1)];
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    table->shards[shard].count--;
    pthread_mutex_unlock(&table->shards[shard].lock);
}

/* ---- Adding */

static kiln__name_node *new_node(const kiln__name *name, uint64_t hash)
{
    kiln__name_node *node = kiln__alloc(sizeof(*node) + name->length);
    if (node == NULL)
        return NULL;
    *node = (kiln__name_node){ .hash = hash,
                               .generation = name->generation,
                               .device = name->device,
                               .kind = name->kind,
                               .size = name->size,
                               .length = name->length };
    memcpy(node->text, name->text, name->length);
    return node;
}

static void insert_locked(kiln__program_table *table, kiln__held *held)
{
    DL_PREPEND(table->first, held);
    table->count++;
}

static void remove_locked(kiln__program_table *table, kiln__held *held)
{
    DL_DELETE(table->first, held);
    table->count--;
}

/* The program's place in the table, made where it has none. NULL: out of memory. */
static kiln__held *hold_locked(kiln__program_table *table, kiln_program *program)
{
    if (program->held != NULL)
        return program->held;
    kiln__held *held = kiln__calloc(1, sizeof(*held));
    if (held == NULL)
        return NULL;
    held->program = kiln__program_retain(program);
    atomic_init(&held->used, atomic_fetch_add(&table->clock, 1));
    insert_locked(table, held);
    return program->held = held;
}

/* Moves a name over to a program of a later generation. The other one stays, under its other names. */
static void rename_locked(kiln__program_table *table, kiln__name_node *node, uint64_t generation, kiln__held *held)
{
    unsigned shard = shard_of(node->hash);
    kiln__name_node **at = &node->held->names;
    while (*at != node)
        at = &(*at)->more;
    *at = node->more;
    pthread_mutex_lock(&table->shards[shard].lock);
    node->held = held;
    node->generation = generation;
    pthread_mutex_unlock(&table->shards[shard].lock);
    node->more = held->names;
    held->names = node;
}

/* Afterwards *spare is a node to free, or NULL. */
static bool add_locked(kiln__program_table *table, const kiln__name *name, kiln_program *program,
                       kiln__name_node **spare)
{
    kiln__name_node *found = look_up(table, name, (*spare)->hash);
    if (found != NULL && found->generation > name->generation)
        return true;
    kiln__held *held = hold_locked(table, program);
    if (held == NULL)
        return false;
    if (found != NULL) {
        rename_locked(table, found, name->generation, held);
        return true;
    }
    (*spare)->held = held;
    (*spare)->more = held->names;
    if (!link_locked(table, *spare))
        return false;
    held->names = *spare;
    *spare = NULL;
    return true;
}

bool kiln__program_table_add(kiln__program_table *table, const kiln__name *name, kiln_program **program)
{
    kiln__name_node *node = new_node(name, hash_of(name));
    if (node == NULL)
        return false;
    bool added = true;
    kiln_program *spare = NULL;
    pthread_mutex_lock(&table->lock);
    const kiln__name_node *found = look_up(table, name, node->hash);
    if (found != NULL && found->generation == name->generation) {
        spare = *program;
        *program = kiln__program_retain(found->held->program);
    } else {
        added = add_locked(table, name, *program, &node);
    }
    pthread_mutex_unlock(&table->lock);
    kiln__free(node);
    kiln__program_release(spare);
    return added;
}

/* ---- Claims */

static kiln_program *find_locked(kiln__program_table *table, const kiln__name *name)
{
    const kiln__name_node *node = look_up(table, name, hash_of(name));
    return node != NULL && node->generation == name->generation ? use(table, node->held) : NULL;
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
static kiln__held *least_used_locked(const kiln__program_table *table)
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

/* Takes the names off, so that nobody finds the program any more. */
static void hide_locked(kiln__program_table *table, kiln__held *held)
{
    for (kiln__name_node *node = held->names; node != NULL; node = node->more)
        unlink_locked(table, node);
    remove_locked(table, held);
}

/* Undoes that. A name that means another program by now keeps that meaning. */
static void show_locked(kiln__program_table *table, kiln__held *held)
{
    kiln__name_node *node = held->names;
    held->names = NULL;
    insert_locked(table, held);
    for (kiln__name_node *more; node != NULL; node = more) {
        const kiln__name name = { node->kind, node->size, node->generation, node->device, node->text, node->length, 0 };
        more = node->more;
        if (look_up(table, &name, node->hash) != NULL || !link_locked(table, node)) {
            kiln__free(node);
        } else {
            node->more = held->names;
            held->names = node;
        }
    }
}

/* A program that the table has too many of, and that nobody else can get at any more; NULL: there is none. */
static kiln__held *take_spare(kiln__program_table *table)
{
    kiln__held *held = NULL;
    pthread_mutex_lock(&table->lock);
    while (table->count > table->most && (held = least_used_locked(table)) != NULL) {
        hide_locked(table, held);
        if (is_alone(held))
            break;
        show_locked(table, held); /* a thread found it meanwhile */
        held = NULL;
    }
    pthread_mutex_unlock(&table->lock);
    return held;
}

/* Waits for all work of a device. False where it must not, for a graph is being captured, or cannot. Freeing memory
 * of a GPU waits as cuCtxSynchronize does, but that would also break every capture in the context, whatever thread's
 * it is and whatever its mode. */
static bool wait_for(kiln_device *device)
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
    while ((held = take_spare(table)) != NULL) {
        if (!wait_for(held->program->device)) {
            pthread_mutex_lock(&table->lock);
            show_locked(table, held);
            pthread_mutex_unlock(&table->lock);
            return;
        }
        kiln__program_release(held->program);
        free_held(held);
        atomic_fetch_add(&table->unloads, 1);
    }
}

/* ---- The rest */

void kiln__program_table_visit(kiln__program_table *table, void (*fn)(void *data, kiln_program *program), void *data)
{
    pthread_mutex_lock(&table->lock);
    kiln__held *held;
    DL_FOREACH (table->first, held)
        fn(data, held->program);
    pthread_mutex_unlock(&table->lock);
}
