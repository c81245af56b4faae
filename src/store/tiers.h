/* Several stores in order. They are asked from the fastest to the slowest. A hit of a slow store is put into the faster
 * ones, except from one store on disk into another. */
#ifndef KILN_STORE_TIERS_H
#define KILN_STORE_TIERS_H

#include "store/store.h"

enum { KILN__TIERS_MAX = 21 };

/* Embedded in its owner; the stores are owned and closed by kiln__tiers_fini. Any thread after init. */
typedef struct kiln__tiers {
    kiln__store *stores[KILN__TIERS_MAX];
    size_t count;
    kiln__store *remote; /* the last of them, if it is on a server (store/remote.h), else NULL */
} kiln__tiers;

void kiln__tiers_add(kiln__tiers *tiers, kiln__store *store);        /* NULL is ignored; a surplus store is closed */
void kiln__tiers_add_remote(kiln__tiers *tiers, kiln__store *store); /* the last one */
void kiln__tiers_fini(kiln__tiers *tiers);

/* The leading stores that are not on disk, which is the memory store, under the same numbers. `out` borrows them: do
 * not call fini. */
void kiln__tiers_borrow_at_hand(kiln__tiers *out, const kiln__tiers *tiers);

/* All but the one on a server, under the same numbers. */
void kiln__tiers_borrow_local(kiln__tiers *out, const kiln__tiers *tiers);

/* Those on disk, under new numbers. */
void kiln__tiers_borrow_on_disk(kiln__tiers *out, const kiln__tiers *tiers);

/* A retained blob or NULL. *tier (may be NULL) gets the index of the store that had it. A miss raises *why (may be
 * NULL) to its reason. An empty key->toolchain means the entry of the newest toolchain in all stores. */
kiln__blob *kiln__tiers_get(kiln__tiers *tiers, const kiln__key *key, size_t *tier, kiln__miss *why);

/* The entry of one store; it is not put into others. For entries that differ between stores under the same key. */
kiln__blob *kiln__tiers_get_from(kiln__tiers *tiers, size_t tier, const kiln__key *key, kiln__miss *why);

/* The newest entry of a toolchain older than the key's, as kiln__tiers_get. */
kiln__blob *kiln__tiers_older(kiln__tiers *tiers, const kiln__key *key, size_t *tier);

/* Puts a blob into all stores. `replace` puts it in the place of a present entry of its key. */
void kiln__tiers_put(kiln__tiers *tiers, kiln__blob *blob);
void kiln__tiers_replace(kiln__tiers *tiers, kiln__blob *blob);

/* Replaces only in the stores that are faster than store `from`, and not on disk if that one is. */
void kiln__tiers_promote(kiln__tiers *tiers, size_t from, kiln__blob *blob);

void kiln__tiers_drop(kiln__tiers *tiers, const kiln__key *key);

#endif
