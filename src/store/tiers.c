/* Several stores in order, from the fastest to the slowest. */
#include "store/tiers.h"
#include <string.h>

void kiln__tiers_add(kiln__tiers *tiers, kiln__store *store)
{
    if (!store)
        return;
    if (tiers->count == KILN__TIERS_MAX)
        store->vtable->close(store);
    else
        tiers->stores[tiers->count++] = store;
}

void kiln__tiers_add_remote(kiln__tiers *tiers, kiln__store *store)
{
    const size_t before = tiers->count;
    kiln__tiers_add(tiers, store);
    tiers->remote = tiers->count > before ? store : NULL;
}

void kiln__tiers_fini(kiln__tiers *tiers)
{
    for (size_t i = 0; i < tiers->count; i++)
        tiers->stores[i]->vtable->close(tiers->stores[i]);
    memset(tiers, 0, sizeof *tiers);
}

void kiln__tiers_borrow_at_hand(kiln__tiers *out, const kiln__tiers *tiers)
{
    *out = (kiln__tiers){ .count = 0 };
    for (; out->count < tiers->count && !tiers->stores[out->count]->vtable->on_disk &&
           tiers->stores[out->count] != tiers->remote;
         out->count++)
        out->stores[out->count] = tiers->stores[out->count];
}

void kiln__tiers_borrow_local(kiln__tiers *out, const kiln__tiers *tiers)
{
    *out = *tiers;
    out->count -= tiers->remote != NULL;
    out->remote = NULL;
}

void kiln__tiers_borrow_on_disk(kiln__tiers *out, const kiln__tiers *tiers)
{
    *out = (kiln__tiers){ .count = 0 };
    for (size_t i = 0; i < tiers->count; i++)
        if (tiers->stores[i]->vtable->on_disk)
            out->stores[out->count++] = tiers->stores[i];
}

static kiln__blob *get_from(const kiln__tiers *tiers, size_t tier, const kiln__key *key, bool older, kiln__miss *why)
{
    return tiers->stores[tier]->vtable->get(tiers->stores[tier], key, older, why);
}

static void put_into(const kiln__tiers *tiers, size_t tier, kiln__blob *blob, bool replace)
{
    tiers->stores[tier]->vtable->put(tiers->stores[tier], blob, replace);
}

static kiln__blob *get_exact(const kiln__tiers *tiers, const kiln__key *key, size_t *tier, kiln__miss *why)
{
    kiln__blob *blob = NULL;
    for (*tier = 0; *tier < tiers->count && !blob; *tier += blob == NULL)
        blob = get_from(tiers, *tier, key, false, why);
    return blob;
}

/* The newest of all stores' entries; of equal ones that of the fastest store. A server is asked where no other has
 * any. */
static kiln__blob *get_older(const kiln__tiers *tiers, const kiln__key *key, size_t *tier, kiln__miss *why)
{
    kiln__blob *best = NULL;
    for (size_t i = 0; i < tiers->count && (best == NULL || tiers->stores[i] != tiers->remote); i++) {
        kiln__blob *blob = get_from(tiers, i, key, true, why), *worse = blob;
        if (blob && (!best || kiln__toolchain_compare(blob->entry.key.toolchain, best->entry.key.toolchain) > 0)) {
            worse = best;
            best = blob;
            *tier = i;
        }
        kiln__blob_release(worse);
    }
    return best;
}

/* A hit is put into the faster stores, but not from disk to disk. */
static kiln__blob *get_and_promote(kiln__tiers *tiers, const kiln__key *key, bool older, size_t *tier, kiln__miss *why)
{
    size_t found = 0;
    kiln__miss reason = KILN__MISS_ABSENT;
    kiln__blob *blob = older ? get_older(tiers, key, &found, &reason) : get_exact(tiers, key, &found, &reason);
    if (!blob) {
        kiln__miss_raise(why, reason);
        return NULL;
    }
    for (size_t i = 0; i < found; i++)
        if (!tiers->stores[i]->vtable->on_disk || !tiers->stores[found]->vtable->on_disk)
            put_into(tiers, i, blob, false);
    if (tier)
        *tier = found;
    return blob;
}

kiln__blob *kiln__tiers_get(kiln__tiers *tiers, const kiln__key *key, size_t *tier, kiln__miss *why)
{
    return get_and_promote(tiers, key, key->toolchain[0] == '\0', tier, why);
}

kiln__blob *kiln__tiers_get_from(kiln__tiers *tiers, size_t tier, const kiln__key *key, kiln__miss *why)
{
    return get_from(tiers, tier, key, false, why);
}

kiln__blob *kiln__tiers_older(kiln__tiers *tiers, const kiln__key *key, size_t *tier)
{
    return get_and_promote(tiers, key, true, tier, NULL);
}

void kiln__tiers_put(kiln__tiers *tiers, kiln__blob *blob)
{
    for (size_t i = 0; i < tiers->count; i++)
        put_into(tiers, i, blob, false);
}

void kiln__tiers_replace(kiln__tiers *tiers, kiln__blob *blob)
{
    for (size_t i = 0; i < tiers->count; i++)
        put_into(tiers, i, blob, true);
}

void kiln__tiers_promote(kiln__tiers *tiers, size_t from, kiln__blob *blob)
{
    for (size_t i = 0; i < from; i++)
        if (!tiers->stores[i]->vtable->on_disk || !tiers->stores[from]->vtable->on_disk)
            put_into(tiers, i, blob, true);
}

void kiln__tiers_drop(kiln__tiers *tiers, const kiln__key *key)
{
    for (size_t i = 0; i < tiers->count; i++)
        tiers->stores[i]->vtable->drop(tiers->stores[i], key);
}
