/* The directory store: one file per entry under 256 shard directories, written whole and linked in place, checked whole
 * before use. Shared by any number of processes of one user. Any thread.
 *
 *     <root>/CACHEDIR.TAG           tells backup programs to skip it
 *     <root>/v1/lock                empty; see compile/hostlock.h
 *     <root>/v1/3f/<rest of the digest in hex>.<toolchain>.kiln */
#ifndef KILN_STORE_DISK_H
#define KILN_STORE_DISK_H

#include "store/store.h"

/* Opens or makes the store at `root` (0700). NULL if it cannot be used: the reason is counted, logged once as a
 * warning and written to problem (size bytes; "" on success). `log` and `counters` are borrowed until close. */
kiln__store *kiln__disk_store_open(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                   char *problem, size_t size);

/* Visits every entry file, reading and checking it whole, and every shard that cannot be used. Non-zero from fn stops.
 * Counts, logs and changes nothing. -errno if the root cannot be read. */
int kiln__disk_store_visit(kiln__store *store, int (*fn)(void *data, const kiln__store_item *item), void *data);

/* Removes every entry, or only those that would be refused for damage; left-over temporaries older than an hour go
 * too. Returns how many entries went. */
uint64_t kiln__disk_store_purge(kiln__store *store, bool damaged_only);

/* Whether entries can be written: 0 or -errno of the last failed or probed write; probes with a small file. */
int kiln__disk_store_probe(kiln__store *store);

/* Opens the file on which processes lock the keys that they compile, <root>/v1/lock, made if it is missing: a
 * descriptor, or -errno, -EPERM if the file may not be trusted. It holds nothing. */
int kiln__disk_store_open_lock(kiln__store *store);

const char *kiln__disk_store_root(const kiln__store *store);

#endif
