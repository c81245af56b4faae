/* A store: a place for entries. Stores know nothing of CUDA and never fail their caller: a failed get is a miss, and
 * a failed put keeps nothing. Both are counted, and each cause is logged once. */
#ifndef KILN_STORE_STORE_H
#define KILN_STORE_STORE_H

#include "base/log.h"
#include "store/entry.h"
#include <stdatomic.h>

/* Counted by all stores of a service; and whom they trust besides the user, which is set before the first is open. */
typedef struct kiln__store_counters {
    unsigned trust; /* 0 or KILN__TRUST_GROUP, see os/trust.h */
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

/* Takes over `bytes` (from kiln__alloc), which must decode under `key` (NULL: any). On failure frees them and returns
 * NULL; *fault (may be NULL) says why, and KILN__ENTRY_GOOD means out of memory. One reference. */
kiln__blob *kiln__blob_take(void *bytes, size_t length, const kiln__key *key, kiln__entry_fault *fault);
kiln__blob *kiln__blob_retain(kiln__blob *blob);
void kiln__blob_release(kiln__blob *blob); /* NULL is allowed */

/* One entry found by a visit. */
typedef struct kiln__store_item {
    const char *path;
    uint64_t bytes;
    const kiln__entry *entry; /* NULL if it would be refused */
    bool untrusted;           /* refused because others may write it, not for its contents */
    int error;                /* 0, or the -errno that stands for the refusal */
    const char *problem;      /* "" or the reason of the refusal */
    int64_t used;             /* its stamp, in seconds since 1970; 0 if it is unknown */
} kiln__store_item;

/* The reason of a miss. Of several reasons the last one in this order is told. */
typedef enum kiln__miss {
    KILN__MISS_NONE,      /* no look-up, or a hit */
    KILN__MISS_ABSENT,    /* there is no such entry */
    KILN__MISS_ERROR,     /* the entry cannot be read */
    KILN__MISS_UNTRUSTED, /* ... may not be trusted */
    KILN__MISS_DAMAGED,   /* ... is damaged */
    KILN__MISSES
} kiln__miss;

/* Raises *why to a reason that tells more. `why` may be NULL. */
void kiln__miss_raise(kiln__miss *why, kiln__miss reason);

/* The trouble with a store in files, or with one of its files. */
typedef enum kiln__trouble {
    KILN__TROUBLE_NONE,
    KILN__TROUBLE_DAMAGED,
    KILN__TROUBLE_UNTRUSTED,
    KILN__TROUBLE_ELEVATED, /* the process has more rights than its user */
    KILN__TROUBLE_READ,
    KILN__TROUBLE_WRITE,
    KILN__TROUBLES
} kiln__trouble;

typedef struct kiln__store kiln__store;
typedef struct kiln__store_vtable {
    const char *name; /* "memory", "disk", "pack", "shared" */
    /* A retained blob or NULL for a miss. *why (may be NULL) is raised to the trouble with the entry, if it has one.
     * `older` asks for the newest entry whose toolchain is older than the key's. An empty key->toolchain asks for the
     * newest of all. */
    kiln__blob *(*get)(kiln__store *store, const kiln__key *key, bool older, kiln__miss *why);
    /* 0 kept, 1 there already, -errno not kept. `replace`: the blob takes the place of the present entry in one step,
     * so that every get finds one of them. If the blob cannot be kept, the present entry stays. */
    int (*put)(kiln__store *store, kiln__blob *blob, bool replace);
    /* Removes an entry that did not load, if it is there. `key` is the blob's, toolchain included. */
    void (*drop)(kiln__store *store, const kiln__key *key);
    void (*close)(kiln__store *store);
    bool on_disk; /* on this machine's disks: an entry of one such store needs no copy in another */
    /* Of a store in files: its kind in a log line, and the advice for each trouble. */
    const char *kind;
    const char *advice[KILN__TROUBLES];
} kiln__store_vtable;
struct kiln__store {
    const kiln__store_vtable *vtable;
    /* Of a store in files: */
    const kiln__log *log;           /* borrowed until close */
    kiln__store_counters *counters; /* borrowed until close */
    char *path;
    atomic_uint warned; /* one bit for each trouble */
};

/* Makes `size` zero bytes that begin with a store in files; it owns `path` (NULL: out of memory). NULL when out of
 * memory, which goes to problem (room bytes). kiln__store_free ends it. */
void *kiln__store_make(size_t size, const kiln__store_vtable *vtable, char *path, const kiln__log *log,
                       kiln__store_counters *counters, char *problem, size_t room);
void kiln__store_free(kiln__store *store);

/* Counts trouble with `where` (a path below the store's, or "") and raises *why; the first of each kind is logged. */
void kiln__store_note(kiln__store *store, kiln__trouble trouble, const char *where, const char *text, kiln__miss *why);

/* The text of a negative errno. */
const char *kiln__store_error_text(int error);

/* put and drop of a store that is only read: -EROFS, and nothing. */
int kiln__store_no_put(kiln__store *store, kiln__blob *blob, bool replace);
void kiln__store_no_drop(kiln__store *store, const kiln__key *key);

/* Order of toolchain ids from old to new: as strcmp, but runs of digits compare as numbers. */
int kiln__toolchain_compare(const char *a, const char *b);

/* Whether toolchain `id` is older than `than` ("" is newer than all) and newer than `best`, the best found so far
 * ("" for none). */
bool kiln__toolchain_is_next(const char *id, const char *than, const char *best);

/* The memory store: the most recently used blobs, up to a number of bytes. Any thread. `limit` counts the blobs with
 * their bookkeeping; a blob that would take more than half of it is not kept. NULL when out of memory. */
kiln__store *kiln__memory_store_open(size_t limit);

#endif
