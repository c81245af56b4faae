/* The quarantine of sources: a small table, searched from its beginning, for crashes are rare. */
#include "jit/worker/quarantine.h"

#include "base/alloc.h"
#include <string.h>

typedef struct kiln__quarantine_row {
    uint8_t digest[KILN__DIGEST_SIZE];
    unsigned crashes;
    uint64_t when; /* it was heard of last; 0: the row is free */
} row;

void kiln__quarantine_init(kiln__quarantine *quarantine)
{
    *quarantine = (kiln__quarantine){ 0 };
    pthread_mutex_init(&quarantine->lock, NULL);
}

void kiln__quarantine_fini(kiln__quarantine *quarantine)
{
    pthread_mutex_destroy(&quarantine->lock);
    kiln__free(quarantine->rows);
}

/* The row of a source. A source that has none gets that of the source heard of longest ago to `make` it, else NULL.
 * With the lock held. */
static row *find_row(kiln__quarantine *quarantine, const uint8_t digest[KILN__DIGEST_SIZE], bool make)
{
    row *rows = quarantine->rows, *found = NULL, *oldest = rows;
    for (row *at = rows; rows != NULL && at < rows + KILN__QUARANTINE_MAX; at++) {
        if (at->when > 0 && memcmp(at->digest, digest, KILN__DIGEST_SIZE) == 0)
            found = at;
        if (at->when < oldest->when)
            oldest = at;
    }
    if (found == NULL && make && (found = oldest) != NULL) {
        memcpy(found->digest, digest, KILN__DIGEST_SIZE);
        found->crashes = 0;
    }
    return found;
}

bool kiln__quarantine_has(kiln__quarantine *quarantine, const uint8_t digest[KILN__DIGEST_SIZE])
{
    pthread_mutex_lock(&quarantine->lock);
    row *found = find_row(quarantine, digest, false);
    bool has = found != NULL && found->crashes >= KILN__QUARANTINE_CRASHES;
    if (has)
        found->when = ++quarantine->clock;
    pthread_mutex_unlock(&quarantine->lock);
    return has;
}

void kiln__quarantine_note(kiln__quarantine *quarantine, const uint8_t digest[KILN__DIGEST_SIZE])
{
    pthread_mutex_lock(&quarantine->lock);
    if (quarantine->rows == NULL)
        quarantine->rows = kiln__calloc(KILN__QUARANTINE_MAX, sizeof(*quarantine->rows));
    row *found = find_row(quarantine, digest, true);
    if (found != NULL) {
        found->crashes++;
        found->when = ++quarantine->clock;
    }
    pthread_mutex_unlock(&quarantine->lock);
}
