/* Hash tables and lists: uthash and utlist with Kiln's allocation and hash. No other file includes them.
 *
 * A table is a pointer to its first element, NULL when empty. Its elements have a member `hh` of type UT_hash_handle
 * and stand in the order of addition. The owner locks. HASH_DEL of the last element frees the table, and no call of
 * uthash frees an element. */
#ifndef KILN_BASE_TABLE_H
#define KILN_BASE_TABLE_H

#include "base/alloc.h"
#include "base/digest.h"

/* XXH3 is faster than uthash's own function for keys as long as paths. */
#define HASH_FUNCTION(key, length, hash) ((hash) = (unsigned)kiln__hash(key, length))
#define HASH_NONFATAL_OOM                1
#define uthash_malloc(bytes)             kiln__alloc(bytes)
#define uthash_free(memory, bytes)       kiln__free(memory)
#include <uthash.h>
#include <utlist.h>

/* Adds an element under a key of `length` bytes that the element holds. `added` becomes false when out of memory,
 * and the table is as before. Only a first element can fail: a table keeps the buckets that it has where it cannot
 * get more. Each add is by this macro or the next, because uthash tells of a failure by `hh.tbl` alone. */
#define KILN__TABLE_ADD(table, key, length, element, added)                \
    do {                                                                   \
        unsigned hash_;                                                    \
        HASH_VALUE(key, length, hash_);                                    \
        KILN__TABLE_ADD_HASHED(table, key, length, hash_, element, added); \
    } while (0)

/* The same where the hash of the key is known. */
#define KILN__TABLE_ADD_HASHED(table, key, length, hash, element, added)        \
    do {                                                                        \
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, table, key, length, hash, element);     \
        if ((element)->hh.tbl == NULL && (table) != NULL) {                     \
            (table)->hh.tbl->noexpand = 1;                                      \
            HASH_ADD_KEYPTR_BYHASHVALUE(hh, table, key, length, hash, element); \
            (table)->hh.tbl->noexpand = 0;                                      \
        }                                                                       \
        (added) = (element)->hh.tbl != NULL;                                    \
    } while (0)

/* Sets `next` to another element of the same key, NULL if there is none. `element` comes from HASH_FIND or from
 * this. uthash keeps all elements of a key in one chain, and its own search goes on in the rest of it. */
#define KILN__TABLE_NEXT_OF_KEY(element, next)                                                      \
    do {                                                                                            \
        const UT_hash_handle *found_ = &(element)->hh;                                              \
        const UT_hash_bucket rest_ = { .hh_head = found_->hh_next };                                \
        HASH_FIND_IN_BKT(found_->tbl, hh, rest_, found_->key, found_->keylen, found_->hashv, next); \
    } while (0)

#endif
