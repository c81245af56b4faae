/* A store: a place for entries. Stores know nothing of CUDA and never fail their caller: a get that goes wrong is a
 * miss, a put that goes wrong is forgotten; both are counted and logged once per cause. */
#ifndef KILN_STORE_STORE_H
#define KILN_STORE_STORE_H

#include "base/log.h"
#include "store/entry.h"
#include <stdatomic.h>

/* Counted by all stores of a service. */
typedef struct kiln__store_counters {
    atomic_uint_least64_t damaged, untrusted, errors;
    atomic_uint_least64_t evictions; /* entries removed to keep within caps */
} kiln__store_counters;

/* Reference-counted bytes of an entry that has been checked, with its decoded view. Immutable, any thread. */
typedef struct kiln__blob {
    kiln__entry entry; /* points into bytes */
    void *bytes;
    size_t length;
    atomic_uint refs;
} kiln__blob;

/* Takes over `bytes` (from kiln__alloc), which must decode under `key` (NULL: any). NULL, and bytes freed, on failure;
 * *fault (may be NULL) says why, KILN__ENTRY_GOOD meaning out of memory. One reference. */
kiln__blob *kiln__blob_take(void *bytes, size_t length, const kiln__key *key, kiln__entry_fault *fault);
kiln__blob *kiln__blob_retain(kiln__blob *blob);
void kiln__blob_release(kiln__blob *blob); /* NULL is allowed */

/* One entry found by a visit. */
typedef struct kiln__store_item {
    const char *path;
    uint64_t bytes;
    const kiln__entry *entry; /* NULL if it would be refused */
    bool untrusted;           /* refused for who may write it, not for what it holds */
    int error;                /* 0, or the -errno that stands for why it would be refused */
    const char *problem;      /* "" or why it would be refused */
    int64_t used;             /* its stamp, in seconds since 1970; 0 if it is unknown */
} kiln__store_item;

/* Why a store has nothing to give. Of several reasons the last one in this order is the one to tell. */
typedef enum kiln__miss {
    KILN__MISS_NONE,      /* no look-up, or a hit */
    KILN__MISS_ABSENT,    /* there is no such entry */
    KILN__MISS_ERROR,     /* what is there cannot be read */
    KILN__MISS_UNTRUSTED, /* ... may not be trusted */
    KILN__MISS_DAMAGED,   /* ... is damaged */
    KILN__MISSES
} kiln__miss;

typedef struct kiln__store kiln__store;
typedef struct kiln__store_vtable {
    const char *name; /* "memory", "disk", "pack", "shared" */
    /* A retained blob or NULL for a miss; *why (may be NULL) is raised to what is wrong with the entry, if there is
     * one. An empty key->toolchain means the newest toolchain's entry. */
    kiln__blob *(*get)(kiln__store *store, const kiln__key *key, kiln__miss *why);
    /* The same for the newest entry of a toolchain older than the key's. */
    kiln__blob *(*older)(kiln__store *store, const kiln__key *key, kiln__miss *why);
    void (*put)(kiln__store *store, kiln__blob *blob);
    /* The same for a blob that others of its key may come before: it takes their place in one step, so that nobody
     * finds neither. Where it cannot be kept, what was there stays. */
    void (*replace)(kiln__store *store, kiln__blob *blob);
    /* Removes one entry, if it is there: it turned out not to load. `key` is the blob's own, toolchain included. */
    void (*drop)(kiln__store *store, const kiln__key *key);
    void (*close)(kiln__store *store);
    bool on_disk; /* on this machine's disks: what one such store has needs no copy in another */
} kiln__store_vtable;
struct kiln__store {
    const kiln__store_vtable *vtable;
};

/* Raises *why to a reason that tells more. `why` may be NULL. */
void kiln__miss_raise(kiln__miss *why, kiln__miss reason);

/* What put, replace and drop are in a store that is only read: nothing. */
void kiln__store_no_put(kiln__store *store, kiln__blob *blob);
void kiln__store_no_drop(kiln__store *store, const kiln__key *key);

/* Order of toolchain ids from old to new: as strcmp, but runs of digits compare as numbers. */
int kiln__toolchain_compare(const char *a, const char *b);

/* Whether an entry of toolchain `id` is what a look-up for one older than `than` is after, "" being newer than all,
 * and is newer than the best found so far ("" for none). */
bool kiln__toolchain_is_next(const char *id, const char *than, const char *best);

#endif
