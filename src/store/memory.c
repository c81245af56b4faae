/* The memory store. */
#include "base/alloc.h"
#include "base/table.h"
#include "store/store.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* A held blob. It is in the table and in the list of use, the most recent first. */
typedef struct node {
    kiln__blob *blob;
    struct node *prev, *next;
    UT_hash_handle hh;
} node;

typedef struct memory_store {
    kiln__store base;
    pthread_mutex_t lock; /* guards the members below */
    node *table;          /* by digest: a key has an element for each toolchain */
    node *newest;         /* its prev is the oldest */
    size_t bytes, limit;
} memory_store;

static size_t cost_of(const kiln__blob *blob)
{
    return blob->length + sizeof *blob + sizeof(node);
}

/* A digest is its own hash. */
static unsigned hash_of(const kiln__key *key)
{
    unsigned hash;
    memcpy(&hash, key->digest, sizeof hash);
    return hash;
}

static node *find_first(const memory_store *store, const kiln__key *key)
{
    node *item;
    HASH_FIND_BYHASHVALUE(hh, store->table, key->digest, sizeof key->digest, hash_of(key), item);
    return item;
}

static node *find_next(const node *item)
{
    node *next;
    KILN__TABLE_NEXT_OF_KEY(item, next);
    return next;
}

static node *find(const memory_store *store, const kiln__key *key)
{
    node *item = find_first(store, key);
    while (item && !kiln__key_equal(&item->blob->entry.key, key))
        item = find_next(item);
    return item;
}

static node *find_older(const memory_store *store, const kiln__key *key)
{
    node *found = NULL;
    for (node *item = find_first(store, key); item; item = find_next(item))
        if (kiln__toolchain_is_next(item->blob->entry.key.toolchain, key->toolchain,
                                    found ? found->blob->entry.key.toolchain : ""))
            found = item;
    return found;
}

static void discard(memory_store *store, node *item)
{
    HASH_DEL(store->table, item);
    DL_DELETE(store->newest, item);
    store->bytes -= cost_of(item->blob);
    kiln__blob_release(item->blob);
    kiln__free(item);
}

static kiln__blob *memory_get(kiln__store *base, const kiln__key *key, bool older, kiln__miss *why)
{
    memory_store *store = (memory_store *)base;
    kiln__blob *blob = NULL;
    (void)why;
    pthread_mutex_lock(&store->lock);
    node *item = older || key->toolchain[0] == '\0' ? find_older(store, key) : find(store, key);
    if (item) {
        DL_DELETE(store->newest, item);
        DL_PREPEND(store->newest, item);
        blob = kiln__blob_retain(item->blob);
    }
    pthread_mutex_unlock(&store->lock);
    return blob;
}

/* Adds an item in the place of the present one of its key, which stays when memory runs out. With the lock held. */
static bool add_item(memory_store *store, node *item)
{
    const kiln__key *key = &item->blob->entry.key;
    node *present = find(store, key);
    bool added;
    KILN__TABLE_ADD_HASHED(store->table, key->digest, sizeof key->digest, hash_of(key), item, added);
    if (!added)
        return false;
    if (present)
        discard(store, present);
    DL_PREPEND(store->newest, item);
    store->bytes += cost_of(item->blob);
    return true;
}

/* A present entry of the key is replaced either way, which changes nothing where the two are equal. */
static int memory_put(kiln__store *base, kiln__blob *blob, bool replace)
{
    memory_store *store = (memory_store *)base;
    (void)replace;
    if (cost_of(blob) > store->limit / 2)
        return -EFBIG;
    node *item = kiln__alloc(sizeof *item);
    if (!item)
        return -ENOMEM;
    item->blob = kiln__blob_retain(blob);
    pthread_mutex_lock(&store->lock);
    bool added = add_item(store, item);
    while (store->bytes > store->limit)
        discard(store, store->newest->prev);
    pthread_mutex_unlock(&store->lock);
    if (added)
        return 0;
    kiln__blob_release(blob);
    kiln__free(item);
    return -ENOMEM;
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
    kiln__free(store);
}

static const kiln__store_vtable memory_vtable = {
    .name = "memory", .get = memory_get, .put = memory_put, .drop = memory_drop, .close = memory_close
};

kiln__store *kiln__memory_store_open(size_t limit)
{
    memory_store *store = kiln__calloc(1, sizeof *store);
    if (!store || pthread_mutex_init(&store->lock, NULL) != 0) {
        kiln__free(store);
        return NULL;
    }
    store->base.vtable = &memory_vtable;
    store->limit = limit;
    return &store->base;
}
