/* Choosing and removing files of directories: those that another version of Kiln left, then the least recently used.
 * A file's modification time is its access stamp: it is set when the file is written and, by kiln__evict_stamp, when
 * it is used; reading alone changes nothing, whatever the mount options say. One thread at a time for one
 * kiln__evict; any number of them, in any process, at once. */
#ifndef KILN_STORE_EVICT_H
#define KILN_STORE_EVICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* Says which files are entries; others are left alone, except temporaries older than an hour, which go. */
typedef bool (*kiln__evict_match)(const char *name);

typedef struct kiln__evict_file {
    int64_t stamp; /* nanoseconds since 1970; INT64_MIN: unknown or outdated, older than all others */
    uint64_t inode;
    uint64_t bytes;
} kiln__evict_file;

/* Zero-initialised is empty; kiln__evict_fini frees it. */
typedef struct kiln__evict {
    kiln__evict_match is_entry;
    bool reads_heads;  /* of all entries that are scanned */
    int64_t budget_ns; /* kiln__evict_apply stops after the file with which it has taken this long; 0: never */
    kiln__evict_file *files;
    size_t count, room;
    uint64_t bytes;       /* of all of them, each rounded up to 4 KiB, the space that it takes on most file systems */
    uint64_t temporaries; /* removed */
    uint64_t outdated;    /* entries; 0 where no head was read */
    /* Filled by kiln__evict_plan: */
    kiln__evict_file cutoff; /* what is not younger goes; of equal stamps the smaller inode is the older */
    /* Filled by kiln__evict_apply: */
    uint64_t removed, removed_bytes;
    bool stopped; /* for the budget: more would have to go */
} kiln__evict;

/* What a file of that length counts for. */
uint64_t kiln__evict_cost(uint64_t length);

/* Adds the entries of a directory and removes its old temporaries. 0 or -errno (also -ENOMEM). */
int kiln__evict_scan(kiln__evict *evict, int directory);

/* Whether more was scanned than `bytes` and `files` allow. */
bool kiln__evict_is_over(const kiln__evict *evict, uint64_t bytes, uint64_t files);

/* Forgets what was scanned. The scans that follow read the head of each entry, some microseconds, and outdated ones
 * count as the oldest: for where something has to go. */
void kiln__evict_rescan(kiln__evict *evict);

/* Decides what has to go, the oldest first, so that at most `bytes` and `files` are left of what was scanned. False if
 * nothing has to. */
bool kiln__evict_plan(kiln__evict *evict, uint64_t bytes, uint64_t files);

/* Removes what the plan names from one of the directories. What was used since the scan stays; what somebody else
 * has removed meanwhile counts as gone, and nothing goes in its stead: those who saw the same remove the same. 0 or
 * -errno. */
int kiln__evict_apply(kiln__evict *evict, int directory);

void kiln__evict_fini(kiln__evict *evict);

/* Marks a file as used now, if its stamp is more than an hour from now; `status` is what was read of it. Best
 * effort. */
void kiln__evict_stamp(int directory, const char *name, const struct stat *status);

/* Whether a name is that of a store's temporary (KILN__FILE_TEMPORARY and 16 digits), of whatever age. */
bool kiln__evict_is_temporary(const char *name);

/* Removes a file if its name is one that kiln__file_create_unique makes with the prefix, and if it is this user's
 * and an hour old: 1 if it went, 0 if it is none, or -errno. */
int kiln__evict_temporary(int directory, const char *prefix, const char *name);

#endif
