/* Whether the files that a compile has read are still the same, without reading those that have not been touched. */
#ifndef KILN_JIT_FILESUM_H
#define KILN_JIT_FILESUM_H

#include "base/list.h"
#include "base/table.h"
#include "source/reads.h"
#include <pthread.h>
#include <sys/stat.h>

enum { KILN__FILESUM_MAX = 16384 };

/* The status and the digest of a file when it was last read. */
typedef struct kiln__filesum {
    UT_hash_handle hh;
    struct stat status;
    char digest[KILN__DIGEST_HEX];
    char path[];
} kiln__filesum;

/* The digests of files by path, size, times and inode. Embedded in its owner; any thread after init. */
typedef struct kiln__filesums {
    pthread_mutex_t lock;
    kiln__filesum *files; /* a table by path */
} kiln__filesums;

void kiln__filesums_init(kiln__filesums *sums);
void kiln__filesums_fini(kiln__filesums *sums);

/* Whether each line of a list (source/reads.h) tells what is there now. `places` are a name and the absolute path of
 * a directory, no link in it, a name and ... As for a worker, a path outside all of them leads to nothing. A file
 * that cannot be looked at, for want of descriptors, memory or rights, agrees with no line. */
bool kiln__filesums_agree(kiln__filesums *sums, const kiln__list *places, const char *reads, size_t length);

#endif
