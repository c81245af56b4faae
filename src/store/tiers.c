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

void kiln__tiers_fini(kiln__tiers *tiers)
{
    for (size_t i = 0; i < tiers->count; i++)
        tiers->stores[i]->vtable->close(tiers->stores[i]);
    memset(tiers, 0, sizeof *tiers);
}

void kiln__tiers_borrow_at_hand(kiln__tiers *out, const kiln__tiers *tiers)
{
    for (out->count = 0; out->count < tiers->count && !tiers->stores[out->count]->vtable->on_disk; out->count++)
        out->stores[out->count] = tiers->stores[out->count];
}

/* Puts what one store has into the faster ones, but not from disk to disk. */
static void promote(kiln__tiers *tiers, size_t from, kiln__blob *blob)
{
    for (size_t i = 0; i < from; i++)
        if (!tiers->stores[i]->vtable->on_disk || !tiers->stores[from]->vtable->on_disk)
            tiers->stores[i]->vtable->put(tiers->stores[i], blob);
}

static kiln__blob *get_exact(kiln__tiers *tiers, const kiln__key *key, size_t *tier, kiln__miss *why)
{
    kiln__blob *blob = NULL;
    size_t i = 0;
    while (i < tiers->count && (blob = tiers->stores[i]->vtable->get(tiers->stores[i], key, why)) == NULL)
        i++;
    *tier = i;
    return blob;
}

/* The newest of what the stores have; of equal ones the fastest store's. */
static kiln__blob *get_older(kiln__tiers *tiers, const kiln__key *key, size_t *tier, kiln__miss *why)
{
    kiln__blob *best = NULL;
    for (size_t i = 0; i < tiers->count; i++) {
        kiln__blob *blob = tiers->stores[i]->vtable->older(tiers->stores[i], key, why);
        if (blob == NULL)
            continue;
        kiln__blob *worse = blob;
        if (best == NULL || kiln__toolchain_compare(blob->entry.key.toolchain, best->entry.key.toolchain) > 0) {
            worse = best;
            best = blob;
            *tier = i;
        }
        kiln__blob_release(worse);
    }
    return best;
}

static kiln__blob *get(kiln__tiers *tiers, const kiln__key *key, bool older, size_t *tier, kiln__miss *why)
{
    size_t found = 0;
    kiln__miss reason = KILN__MISS_ABSENT;
    kiln__blob *blob = older ? get_older(tiers, key, &found, &reason) : get_exact(tiers, key, &found, &reason);
    if (blob)
        promote(tiers, found, blob);
    if (blob && tier)
        *tier = found;
    if (!blob)
        kiln__miss_raise(why, reason);
    return blob;
}

kiln__blob *kiln__tiers_get(kiln__tiers *tiers, const kiln__key *key, size_t *tier, kiln__miss *why)
{
    return get(tiers, key, key->toolchain[0] == '\0', tier, why);
}

kiln__blob *kiln__tiers_get_from(kiln__tiers *tiers, size_t tier, const kiln__key *key, kiln__miss *why)
{
    kiln__store *store = tiers->stores[tier];
    return store->vtable->get(store, key, why);
}

kiln__blob *kiln__tiers_older(kiln__tiers *tiers, const kiln__key *key, size_t *tier)
{
    return get(tiers, key, true, tier, NULL);
}

void kiln__tiers_put(kiln__tiers *tiers, kiln__blob *blob)
{
    for (size_t i = 0; i < tiers->count; i++)
        tiers->stores[i]->vtable->put(tiers->stores[i], blob);
}

void kiln__tiers_replace(kiln__tiers *tiers, kiln__blob *blob)
{
    for (size_t i = 0; i < tiers->count; i++)
        tiers->stores[i]->vtable->replace(tiers->stores[i], blob);
}

void kiln__tiers_promote(kiln__tiers *tiers, size_t from, kiln__blob *blob)
{
    for (size_t i = 0; i < from; i++)
        if (!tiers->stores[i]->vtable->on_disk)
            tiers->stores[i]->vtable->replace(tiers->stores[i], blob);
}

void kiln__tiers_drop(kiln__tiers *tiers, const kiln__key *key)
{
    for (size_t i = 0; i < tiers->count; i++)
        tiers->stores[i]->vtable->drop(tiers->stores[i], key);
}
