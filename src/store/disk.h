/* The directory store: one file for each entry, under 256 shard directories. A file is written whole and linked in
 * place, and checked whole before use. Any number of processes of one user share a store. Any thread.
 *
 *     <root>/CACHEDIR.TAG           tells backup programs to skip it
 *     <root>/v1/lock                empty; see jit/keylock.c
 *     <root>/v1/3f/<rest of the digest in hex>.<toolchain>.kiln */
#ifndef KILN_STORE_DISK_H
#define KILN_STORE_DISK_H

#include "store/store.h"

/* Opens the store at `root`. A missing root is made (0700) by the first put of a kernel, lock or directory beside: a
 * process that only looks makes nothing. NULL if it cannot be used: the reason is counted, logged once as a
 * warning and written to problem (size bytes; "" on success). `log` and `counters` are borrowed until close. */
kiln__store *kiln__disk_store_open(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                   char *problem, size_t size);

/* Opens a store that another user fills. It is only read: nothing is made, removed or stamped in it. The root and all
 * in it must be the user's own or root's, and writable by no other user. Otherwise as kiln__disk_store_open. */
kiln__store *kiln__disk_store_open_shared(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                          char *problem, size_t size);

/* Sets the caps before other threads use the store; at first there are none. Each shard is kept within its 256th part.
 * When puts of this process have added a twentieth of that part, the shard is looked at. If it is more than 95 % full,
 * entries go until it is 90 % full: first those of another version of Kiln, then the least recently used. They are
 * counted as evictions. kiln__evict_cost is the size of an entry; one of more than 90 % of the part is not kept. */
void kiln__disk_store_limit(kiln__store *store, uint64_t bytes, uint64_t files);

/* Removes the least recently used entries of the whole store until at most `bytes` and `files` are left (0: the
 * store's caps), and temporaries older than an hour. Reads every directory, and files only when some have to go. 0 or
 * the first -errno of reading or removing; the rest is done all the same. */
int kiln__disk_store_trim(kiln__store *store, uint64_t bytes, uint64_t files, kiln_trim *out);

typedef int (*kiln__store_visitor)(void *data, const kiln__store_item *item);

/* Visits every entry file, reading and checking it whole, and every shard that cannot be used. Non-zero from fn stops.
 * Counts, logs and changes nothing. -errno if the root cannot be read. */
int kiln__disk_store_visit(kiln__store *store, kiln__store_visitor fn, void *data);

/* Reads one entry. Unlike a get it counts, logs and changes nothing, not even the stamp of use. 0 and a retained
 * blob in *out, or NULL and -ENOENT, -EBADMSG (damaged), -EPERM (not trusted) or another -errno. */
int kiln__disk_store_read(kiln__store *store, const kiln__key *key, kiln__blob **out);

/* Whether a file of that name is there, which a get may refuse. Counts, logs and changes nothing. */
bool kiln__disk_store_has(kiln__store *store, const kiln__key *key);

/* Says in words why an entry that this process has put may be absent: why the last put that kept nothing did not, else
 * that entries were evicted, else that another process removed it. */
enum { KILN__STORE_REFUSAL = 320 };
void kiln__disk_store_refusal(kiln__store *store, char out[KILN__STORE_REFUSAL]);

/* Fills in the caps and the temporaries. 0 or -errno if the root cannot be read. */
int kiln__disk_store_info(kiln__store *store, kiln_cache_info *out);

/* Removes every entry that `select` takes (NULL: all, unread), and temporaries older than an hour. A link is removed,
 * never followed. A directory in the place of an entry or shard goes only if it is empty. Nothing in an untrusted
 * directory is touched. An entry that Kiln cannot read, though its mode allows that, may be good: if `select` would
 * have to judge it, it stays, and that is a failure. An entry that another process removed or replaced is no failure.
 * Goes on after a failure and returns 0 or the -errno of the first, with its path and reason in problem (size bytes;
 * "" on success). *removed counts the removals in both cases. */
int kiln__disk_store_purge(kiln__store *store, kiln__store_visitor select, void *data, uint64_t *removed, char *problem,
                           size_t size);

/* Whether entries can be written: 0 or the -errno of writing a small file, which is removed again. 1: nothing was
 * written yet, and nothing is now, but the directories can be made. */
int kiln__disk_store_probe(kiln__store *store);

/* Opens the file on which processes lock the keys that they compile, <root>/v1/lock, made if it is missing: a
 * descriptor, or -errno, -EPERM if the file may not be trusted. The file is empty. */
int kiln__disk_store_open_lock(kiln__store *store);

/* Opens another directory in the root, beside v1, under the same rules of trust; a missing one is made if `make`. A
 * descriptor, -ENOENT, -EPERM if it or the root may not be trusted, or another -errno. The reason goes to problem (size
 * bytes), "" on success and for a directory that is missing. Counts and logs nothing. */
int kiln__disk_store_open_beside(kiln__store *store, const char *name, bool make, char *problem, size_t size);

const char *kiln__disk_store_root(const kiln__store *store);

#endif
