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

kiln__blob *kiln__tiers_get(kiln__tiers *tiers, const kiln__key *key, size_t *tier)
{
    for (size_t i = 0; i < tiers->count; i++) {
        kiln__blob *blob = tiers->stores[i]->vtable->get(tiers->stores[i], key);
        if (!blob)
            continue;
        for (size_t faster = 0; faster < i; faster++)
            if (!tiers->stores[faster]->vtable->on_disk || !tiers->stores[i]->vtable->on_disk)
                tiers->stores[faster]->vtable->put(tiers->stores[faster], blob);
        if (tier)
            *tier = i;
        return blob;
    }
    return NULL;
}

void kiln__tiers_put(kiln__tiers *tiers, kiln__blob *blob)
{
    for (size_t i = 0; i < tiers->count; i++)
        tiers->stores[i]->vtable->put(tiers->stores[i], blob);
}

void kiln__tiers_drop(kiln__tiers *tiers, const kiln__key *key)
{
    for (size_t i = 0; i < tiers->count; i++)
        tiers->stores[i]->vtable->drop(tiers->stores[i], key);
}
