/* The directory store: one file per entry under 256 shard directories, written whole and linked in place, checked whole
 * before use. Shared by any number of processes of one user. Any thread.
 *
 *     <root>/CACHEDIR.TAG           tells backup programs to skip it
 *     <root>/v1/lock                empty; see jit/hostlock.c
 *     <root>/v1/3f/<rest of the digest in hex>.<toolchain>.kiln */
#ifndef KILN_STORE_DISK_H
#define KILN_STORE_DISK_H

#include "store/store.h"

/* Opens or makes the store at `root` (0700). NULL if it cannot be used: the reason is counted, logged once as a
 * warning and written to problem (size bytes; "" on success). `log` and `counters` are borrowed until close. */
kiln__store *kiln__disk_store_open(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                   char *problem, size_t size);

/* Opens a store that somebody else fills, to be only read: nothing is made, removed or stamped in it. It and all in
 * it must be the user's own or root's and writable by nobody else. Otherwise as kiln__disk_store_open. */
kiln__store *kiln__disk_store_open_shared(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                          char *problem, size_t size);

/* Sets the caps, which are none at first, before other threads use the store. Each shard is kept within its 256th part:
 * when puts of this process have added a twentieth of that to a shard, the shard is looked at, and if it is more than
 * 95 % full, entries that another version of Kiln left, then the least recently used go until it is 90 % full. Entries
 * count as kiln__evict_cost says; one that takes more than 90 % of a shard's part is not kept. Counted as evictions. */
void kiln__disk_store_limit(kiln__store *store, uint64_t bytes, uint64_t files);

/* As the vtable's put, but says what came of it: 0 kept, 1 there already, -errno not kept. */
int kiln__disk_store_add(kiln__store *store, kiln__blob *blob);

/* As the vtable's replace, but says what came of it: 0 or -errno. */
int kiln__disk_store_replace(kiln__store *store, kiln__blob *blob);

typedef struct kiln__disk_trim {
    uint64_t removed, removed_bytes, kept, kept_bytes; /* bytes as kiln__evict_cost counts them */
} kiln__disk_trim;

/* Removes the least recently used entries of the whole store until at most `bytes` and `files` are left (0: the
 * store's own caps), and temporaries older than an hour. Reads every directory, but no file. 0 or -errno of the
 * first thing that could not be read or removed; the rest is done all the same. */
int kiln__disk_store_trim(kiln__store *store, uint64_t bytes, uint64_t files, kiln__disk_trim *out);

/* Visits every entry file, reading and checking it whole, and every shard that cannot be used. Non-zero from fn stops.
 * Counts, logs and changes nothing. -errno if the root cannot be read. */
int kiln__disk_store_visit(kiln__store *store, int (*fn)(void *data, const kiln__store_item *item), void *data);

/* Reads one entry, but unlike a get counts, logs and changes nothing, not even when it was last used. 0 and a retained
 * blob in *out, or NULL and -ENOENT, -EBADMSG (damaged), -EPERM (not trusted) or another -errno. */
int kiln__disk_store_read(kiln__store *store, const kiln__key *key, kiln__blob **out);

typedef struct kiln__disk_info {
    uint64_t cap_bytes, cap_files; /* UINT64_MAX: none */
    uint64_t temporaries, temporary_bytes;
} kiln__disk_info;

/* The caps, and what lies in the directories beside entries. 0 or -errno if the root cannot be read. */
int kiln__disk_store_info(kiln__store *store, kiln__disk_info *out);

/* Removes every entry that `select` takes, all of them unread where it is NULL; left-over temporaries older than an
 * hour go too. A link is removed, never followed; a directory in the place of an entry or shard goes only if it is
 * empty; nothing in a directory that is not trusted is touched. Goes on after a failure and returns 0 or the first
 * one's -errno, with the path and the reason in problem (size bytes; "" on success). *removed counts what went, also
 * then. A file that cannot be read, and not for its own mode, may be good: where `select` would have to judge it, it
 * stays, and that is a failure. What somebody else removed or replaced is none. */
int kiln__disk_store_purge(kiln__store *store, int (*select)(void *data, const kiln__store_item *item), void *data,
                           uint64_t *removed, char *problem, size_t size);

/* Whether entries can be written: 0 or -errno of the last failed or probed write; probes with a small file. */
int kiln__disk_store_probe(kiln__store *store);

/* Opens the file on which processes lock the keys that they compile, <root>/v1/lock, made if it is missing: a
 * descriptor, or -errno, -EPERM if the file may not be trusted. It holds nothing. */
int kiln__disk_store_open_lock(kiln__store *store);

/* Opens another directory in the root, beside v1, under the same rules of trust; a missing one is made if `make`. A
 * descriptor, -ENOENT, -EPERM if it or the root may not be trusted, or another -errno; the reason goes to problem (size
 * bytes), "" on success and for a directory that is just not there. Counts and logs nothing. */
int kiln__disk_store_open_beside(kiln__store *store, const char *name, bool make, char *problem, size_t size);

const char *kiln__disk_store_root(const kiln__store *store);

#endif
