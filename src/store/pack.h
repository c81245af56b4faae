/* The pack: many entries in one file that is only read, for shipping with a program or an image.
 * docs/cache-format.md shows the layout. The index is checked whole when a pack is opened, and each entry when a get
 * copies it out. Nothing is mapped, because reading a mapped file after a truncation kills the process. */
#ifndef KILN_STORE_PACK_H
#define KILN_STORE_PACK_H

#include "store/store.h"

/* Opens a pack. It must be a regular file and no link, the user's own or root's, writable by no other user, with an
 * intact index. Else *out is NULL, and the reason is counted, logged once as a warning and written to problem (size
 * bytes; "" on success). Returns 0, -EBADMSG (damaged), -EPERM (not trusted) or another -errno. The file stays open
 * until close: a replacement is seen by the next store only. A get of a damaged entry is a counted miss; puts and
 * drops do nothing. `log` and `counters` are borrowed until close. Any thread. */
int kiln__pack_store_open(kiln__store **out, const char *path, const kiln__log *log, kiln__store_counters *counters,
                          char *problem, size_t size);

/* The number of entries in the pack, and one of them by its place in the order of keys: 0 and a retained blob, or NULL
 * and -EBADMSG for a damaged entry, -ENOENT beyond the last, or another -errno. All errors but -ENOENT are counted. */
size_t kiln__pack_store_count(const kiln__store *store);
int kiln__pack_store_at(kiln__store *store, size_t index, kiln__blob **out);

/* Gives the entry of a key: 0 and a retained blob, or NULL to leave it out, or -errno to give the pack up. */
typedef int (*kiln__pack_fetch)(void *data, const kiln__key *key, kiln__blob **out);

typedef struct kiln__pack_totals {
    uint64_t entries, bytes; /* in the pack; bytes is the length of the file */
    uint64_t missing;        /* keys for which fetch gave no blob */
} kiln__pack_totals;

/* Writes a pack of the entries that fetch(data, key) gives for the keys, which are sorted in place; a repeated key
 * counts once. Equal entries make equal bytes. The file (mode 0644 under the umask) appears whole under its name or not
 * at all, and replaces an older one. It is written beside its name, as "tmp.kilnpack.<random>". Files of such names in
 * that directory that are more than an hour old are removed: killed writers left them. 0 or -errno: -EINVAL if the name
 * is not that of a regular file and for a blob of another key, or the result of fetch. */
int kiln__pack_write(kiln__pack_totals *out, const char *path, kiln__key *keys, size_t count, kiln__pack_fetch fetch,
                     void *data);

#endif
