/* What the directory store is made of, for the files that implement it: disk.c and inspect.c. Nobody else includes
 * this. */
#ifndef KILN_STORE_DISK_PARTS_H
#define KILN_STORE_DISK_PARTS_H

#include "store/disk.h"
#include "store/name.h"
#include <stdatomic.h>
#include <sys/stat.h>

#define KILN__DISK_VERSION "v1" /* the directory below the root that holds the shards */

enum { KILN__DISK_SHARDS = 256 };

/* What went wrong with one file or directory. */
typedef enum kiln__disk_cause {
    KILN__DISK_FINE,
    KILN__DISK_DAMAGED,
    KILN__DISK_UNTRUSTED,
    KILN__DISK_ELEVATED,
    KILN__DISK_READ,
    KILN__DISK_WRITE
} kiln__disk_cause;

typedef struct kiln__disk_problem {
    kiln__disk_cause cause;
    int error;                       /* a negative errno */
    char where[8 + KILN__NAME_SIZE]; /* below the root; "" is the root itself */
    char text[160];
} kiln__disk_problem;

typedef struct kiln__disk {
    kiln__store base;
    const kiln__log *log;
    kiln__store_counters *counters;
    char *root;
    bool shared;        /* only read, and also trusted when it is root's */
    int root_fd;        /* the same number until close, see reopen_root */
    atomic_uint warned; /* one bit per cause */
    uint64_t cap_bytes, cap_files;
    atomic_uint_least64_t
        pending[KILN__DISK_SHARDS]; /* put by this process since its last look, in millionths of a share */
    atomic_flag evicting, begun;    /* `pending` has something to begin with */
} kiln__disk;

/* One entry file as it was found. */
typedef struct kiln__disk_reading {
    kiln__blob *blob; /* NULL unless it is good */
    struct stat status;
    kiln__disk_problem problem; /* KILN__DISK_FINE without a blob: there is no such file */
} kiln__disk_reading;

/* Fills a problem from a negative errno, which it returns. */
int kiln__disk_fail(kiln__disk_problem *problem, kiln__disk_cause cause, const char *where, int error);

/* Descriptors of the version's directory and of a shard in it, to be closed by the caller. A missing one is made, or
 * if not `make` is no problem: -ENOENT. Otherwise a negative errno, with the problem, also for one that is not
 * trusted. */
int kiln__disk_open_version(kiln__disk *store, bool make, kiln__disk_problem *problem);
int kiln__disk_open_shard(const kiln__disk *store, int version, unsigned shard, bool make, kiln__disk_problem *problem);

/* Reads and checks one file of a shard. out->blob is the caller's. */
void kiln__disk_read(const kiln__disk *store, kiln__disk_reading *out, int directory, const char *name,
                     const kiln__key *key);

#endif
