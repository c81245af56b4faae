/* How entries are called in a directory store. Pure. */
#ifndef KILN_STORE_NAME_H
#define KILN_STORE_NAME_H

#include "store/entry.h"

#define KILN__NAME_SUFFIX ".kiln"

enum {
    KILN__NAME_SHARD = 2, /* hexadecimal digits of a digest that name the shard */
    KILN__NAME_REST = 2 * KILN__DIGEST_SIZE - KILN__NAME_SHARD,
    KILN__NAME_SIZE = KILN__NAME_REST + 1 + KILN__ENTRY_TOOLCHAIN_SIZE + sizeof KILN__NAME_SUFFIX
};

/* Whether a key's toolchain can be part of a name: not empty, terminated, no slash. */
bool kiln__name_has(const kiln__key *key);

/* The name of a key's file in its shard. */
void kiln__name_format(char out[KILN__NAME_SIZE], const kiln__key *key);

/* Whether a name is that of an entry, in whatever shard. Others are not Kiln's: nothing counts or removes them. */
bool kiln__name_is_entry(const char *name);

/* Reads the key from the name of a file in a shard. False if it is not that of an entry. */
bool kiln__name_parse(kiln__key *out, unsigned shard, const char *name);

#endif
