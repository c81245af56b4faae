/* Eviction from directories: first the files that another version of Kiln left, then the least recently used. The
 * modification time of a file is its stamp. It is set when the file is written and, by kiln__evict_stamp, when it is
 * used; reading alone changes nothing, whatever the mount options say. One thread at a time for one kiln__evict; any
 * number of them, in any process, at once. */
#ifndef KILN_STORE_EVICT_H
#define KILN_STORE_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct kiln__evict_file {
    int64_t stamp; /* nanoseconds since 1970; INT64_MIN: unknown or outdated, older than all others */
    uint64_t inode;
    uint64_t bytes;
} kiln__evict_file;

/* Zero-initialised is empty; kiln__evict_fini frees it. */
typedef struct kiln__evict {
    bool (*is_entry)(const char *name); /* other files stay, except temporaries older than an hour */
    bool reads_heads;                   /* of all entries that are scanned */
    int64_t budget_ns; /* kiln__evict_apply stops after the file at which it has taken so long; 0: never */
    kiln__evict_file *files;
    size_t count, room;
    uint64_t bytes;    /* of all of them, each rounded up to 4 KiB, the space that it takes on most file systems */
    uint64_t outdated; /* entries; 0 where no head was read */
    /* Filled by kiln__evict_plan: */
    kiln__evict_file cutoff; /* this file and older ones go; of equal stamps the smaller inode is the older */
    /* Filled by kiln__evict_apply: */
    uint64_t removed, removed_bytes;
    bool stopped; /* by the budget: more files have to go */
} kiln__evict;

/* The bytes that a file of that length counts for. */
uint64_t kiln__evict_cost(uint64_t length);

/* Adds the entries of a directory and removes its old temporaries. 0 or -errno (also -ENOMEM). */
int kiln__evict_scan(kiln__evict *evict, int directory);

/* Whether more was scanned than `bytes` and `files` allow. */
bool kiln__evict_is_over(const kiln__evict *evict, uint64_t bytes, uint64_t files);

/* Forgets the scans, for new ones when files have to go. The new scans read the head of each entry, which takes some
 * microseconds, and count outdated ones as the oldest. */
void kiln__evict_rescan(kiln__evict *evict);

/* Decides which files go, the oldest first, so that at most `bytes` and `files` are left of the scanned ones. False if
 * none has to. */
bool kiln__evict_plan(kiln__evict *evict, uint64_t bytes, uint64_t files);

/* Removes the planned files of one of the directories. A file that was used since the scan stays. A file that another
 * process has removed meanwhile is not replaced by a younger one, so processes that saw the same remove the same. 0 or
 * -errno. */
int kiln__evict_apply(kiln__evict *evict, int directory);

void kiln__evict_fini(kiln__evict *evict);

/* Marks a file as used now, if its stamp in `status` is more than an hour from now. Best effort. */
void kiln__evict_stamp(int directory, const char *name, const struct stat *status);

/* Removes a temporary: a file of this user's that is an hour old and has a name that kiln__file_create_unique makes
 * with the prefix. 1 removed, 0 no such file, or -errno. */
int kiln__evict_temporary(int directory, const char *prefix, const char *name);

#endif
