#include "store/memory.h"
#include "base/alloc.h"
#include <pthread.h>
#include <string.h>

enum { BUCKETS_LEAST = 64, BUCKETS_MOST = 65536 };

/* A held blob: in the chain of its bucket and in the list of use, most recent first. */
typedef struct node {
    kiln__blob *blob;
    struct node *chain;
    struct node *newer, *older;
} node;

typedef struct memory_store {
    kiln__store base;
    pthread_mutex_t lock; /* all that follows */
    node **buckets;
    size_t bucket_mask, count;
    node *newest, *oldest;
    size_t bytes, limit;
} memory_store;

static size_t cost(const kiln__blob *blob)
{
    return blob->length + sizeof *blob + sizeof(node);
}

/* By digest alone, so that the entries of all toolchains share a chain. A digest is its own hash. */
static node **bucket_of(memory_store *store, const kiln__key *key)
{
    size_t hash;
    memcpy(&hash, key->digest, sizeof hash);
    return &store->buckets[hash & store->bucket_mask];
}

static void unlink_use(memory_store *store, node *item)
{
    *(item->newer ? &item->newer->older : &store->newest) = item->older;
    *(item->older ? &item->older->newer : &store->oldest) = item->newer;
}

static void link_newest(memory_store *store, node *item)
{
    item->newer = NULL;
    item->older = store->newest;
    *(store->newest ? &store->newest->newer : &store->oldest) = item;
    store->newest = item;
}

static node *find(memory_store *store, const kiln__key *key)
{
    node *item = *bucket_of(store, key);
    while (item && !kiln__key_equal(&item->blob->entry.key, key))
        item = item->chain;
    return item;
}

static node *find_older(memory_store *store, const kiln__key *key)
{
    node *found = NULL;
    for (node *item = *bucket_of(store, key); item; item = item->chain) {
        const kiln__key *held = &item->blob->entry.key;
        if (memcmp(held->digest, key->digest, sizeof key->digest) == 0 &&
            kiln__toolchain_is_next(held->toolchain, key->toolchain, found ? found->blob->entry.key.toolchain : ""))
            found = item;
    }
    return found;
}

static void discard(memory_store *store, node *item)
{
    node **link = bucket_of(store, &item->blob->entry.key);
    while (*link != item)
        link = &(*link)->chain;
    *link = item->chain;
    unlink_use(store, item);
    store->count--;
    store->bytes -= cost(item->blob);
    kiln__blob_release(item->blob);
    kiln__free(item);
}

static kiln__blob *take(memory_store *store, const kiln__key *key, node *(*search)(memory_store *, const kiln__key *))
{
    kiln__blob *blob = NULL;
    pthread_mutex_lock(&store->lock);
    node *item = search(store, key);
    if (item) {
        unlink_use(store, item);
        link_newest(store, item);
        blob = kiln__blob_retain(item->blob);
    }
    pthread_mutex_unlock(&store->lock);
    return blob;
}

static kiln__blob *memory_get(kiln__store *base, const kiln__key *key, kiln__miss *why)
{
    (void)why;
    return take((memory_store *)base, key, key->toolchain[0] != '\0' ? find : find_older);
}

static kiln__blob *memory_older(kiln__store *base, const kiln__key *key, kiln__miss *why)
{
    (void)why;
    return take((memory_store *)base, key, find_older);
}

/* Twice as many buckets once there are more blobs than buckets: most processes hold few, and a large table is slow to come by.
 * Without memory for it the chains get longer. */
static void grow(memory_store *store)
{
    size_t buckets = 2 * (store->bucket_mask + 1);
    node **table = buckets <= BUCKETS_MOST ? kiln__calloc(buckets, sizeof *table) : NULL;
    if (!table)
        return;
    kiln__free(store->buckets);
    store->buckets = table;
    store->bucket_mask = buckets - 1;
    for (node *item = store->oldest; item; item = item->newer) {
        node **bucket = bucket_of(store, &item->blob->entry.key);
        item->chain = *bucket;
        *bucket = item;
    }
}

static void memory_put(kiln__store *base, kiln__blob *blob)
{
    memory_store *store = (memory_store *)base;
    if (cost(blob) > store->limit / 2)
        return;
    node *item = kiln__alloc(sizeof *item);
    if (!item)
        return;
    item->blob = kiln__blob_retain(blob);
    pthread_mutex_lock(&store->lock);
    node *present = find(store, &blob->entry.key);
    if (present)
        discard(store, present);
    if (store->count > store->bucket_mask)
        grow(store);
    node **bucket = bucket_of(store, &blob->entry.key);
    item->chain = *bucket;
    *bucket = item;
    link_newest(store, item);
    store->count++;
    store->bytes += cost(blob);
    while (store->bytes > store->limit)
        discard(store, store->oldest);
    pthread_mutex_unlock(&store->lock);
}

static void memory_drop(kiln__store *base, const kiln__key *key)
{
    memory_store *store = (memory_store *)base;
    pthread_mutex_lock(&store->lock);
    node *item = find(store, key);
    if (item)
        discard(store, item);
    pthread_mutex_unlock(&store->lock);
}

static void memory_close(kiln__store *base)
{
    memory_store *store = (memory_store *)base;
    while (store->newest)
        discard(store, store->newest);
    pthread_mutex_destroy(&store->lock);
    kiln__free(store->buckets);
    kiln__free(store);
}

static const kiln__store_vtable memory_vtable = { .name = "memory",
                                                  .get = memory_get,
                                                  .older = memory_older,
                                                  .put = memory_put,
                                                  .replace = memory_put,
                                                  .drop = memory_drop,
                                                  .close = memory_close };

kiln__store *kiln__memory_store_open(size_t limit)
{
    memory_store *store = kiln__calloc(1, sizeof *store);
    node **table = kiln__calloc(BUCKETS_LEAST, sizeof *table);
    if (!store || !table || pthread_mutex_init(&store->lock, NULL) != 0) {
        kiln__free(table);
        kiln__free(store);
        return NULL;
    }
    store->base.vtable = &memory_vtable;
    store->buckets = table;
    store->bucket_mask = BUCKETS_LEAST - 1;
    store->limit = limit;
    return &store->base;
}
