/* Sources that have killed a compile worker: which are not tried again, and where their texts are kept for a bug
 * report. */
#ifndef KILN_JIT_WORKER_SUSPECTS_H
#define KILN_JIT_WORKER_SUSPECTS_H

#include "base/digest.h"
#include "base/report.h"
#include "spec/unit.h"
#include <pthread.h>

enum { KILN__SUSPECTS_MAX = 64, KILN__SUSPECT_STRIKES = 2 };

/* Embedded in its owner. Any thread after init. When it is full the suspect heard of longest ago is forgotten. */
typedef struct kiln__suspects {
    pthread_mutex_t lock;
    const char *directory; /* borrowed; NULL: none is kept */
    uint64_t clock;
    int count;
    struct kiln__suspect_row *rows; /* made with the first suspect */
} kiln__suspects;

void kiln__suspects_init(kiln__suspects *suspects, const char *directory);
void kiln__suspects_fini(kiln__suspects *suspects);

/* What is accused where a compile costs a worker: the digest of all that the compile depends on. */
typedef struct kiln__suspect {
    bool apt; /* false for what may read files: the cause may be in one of them, which may be mended */
    uint8_t digest[KILN__DIGEST_SIZE];
} kiln__suspect;

/* False when out of memory. */
bool kiln__suspect_of(kiln__suspect *out, const kiln__unit *unit);

/* Whether a source has killed so many workers that it is not to be tried again. */
bool kiln__suspects_is_condemned(kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE]);

/* Notes that a source has killed a worker; does nothing where memory runs out. */
void kiln__suspects_accuse(kiln__suspects *suspects, const uint8_t digest[KILN__DIGEST_SIZE]);

/* Keeps the text as <digest>.cu, its own digest, (mode 0600) in the directory, which is made if it is missing; a
 * link of that name is replaced and not followed. True: `path` names it. False: there is no directory or the text
 * could not be written; `path` then holds the reason, "" if there is none. */
bool kiln__suspects_keep(const kiln__suspects *suspects, const char *source, size_t length, char *path, size_t size);

#endif
