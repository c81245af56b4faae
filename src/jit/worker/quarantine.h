/* The quarantine: sources that have crashed compile workers, and are not tried again after some crashes. */
#ifndef KILN_JIT_WORKER_QUARANTINE_H
#define KILN_JIT_WORKER_QUARANTINE_H

#include "base/digest.h"
#include <pthread.h>
#include <stdbool.h>

enum { KILN__QUARANTINE_MAX = 64, KILN__QUARANTINE_CRASHES = 2 };

/* Embedded in its owner. Any thread after init. When it is full the source heard of longest ago is forgotten. */
typedef struct kiln__quarantine {
    pthread_mutex_t lock;
    uint64_t clock;
    struct kiln__quarantine_row *rows; /* made with the first source */
} kiln__quarantine;

void kiln__quarantine_init(kiln__quarantine *quarantine);
void kiln__quarantine_fini(kiln__quarantine *quarantine);

/* Whether a source has crashed so many workers that it is not to be tried again. */
bool kiln__quarantine_has(kiln__quarantine *quarantine, const uint8_t digest[KILN__DIGEST_SIZE]);

/* Notes that a source has crashed a worker; does nothing where memory runs out. */
void kiln__quarantine_note(kiln__quarantine *quarantine, const uint8_t digest[KILN__DIGEST_SIZE]);

#endif
