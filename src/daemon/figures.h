/* The figures of a daemon: how often and how long, by the place where an entry was found, and of which specs.
 * One thread. */
#ifndef KILN_DAEMON_FIGURES_H
#define KILN_DAEMON_FIGURES_H

#include "base/table.h"
#include <kiln/kernel.h>

enum {
    KILN__FIGURES_BUCKETS = 28, /* the k-th: up to 2^k us; the last: all */
    KILN__FIGURES_SPECS = 4096, /* that are told apart; later ones are not */
    KILN__FIGURES_SHOWN = 10,   /* of each list */
    KILN__FIGURES_ORIGINS = KILN_ORIGIN_REMOTE + 1
};

typedef struct kiln__histogram {
    uint64_t count, sum_ns, buckets[KILN__FIGURES_BUCKETS];
} kiln__histogram;

void kiln__histogram_add(kiln__histogram *histogram, uint64_t ns);

typedef struct kiln__spec_figures {
    uint8_t key[KILN__DIGEST_SIZE];
    uint64_t requests, compile_ns;
    UT_hash_handle hh;
    char text[];
} kiln__spec_figures;

typedef struct kiln__figures {
    uint64_t started_ns;
    uint64_t connections, requests, absent, failed, saved_ns;
    uint64_t refused_users, refused_frames, refused_slow, refused_crowd, reloads;
    kiln__histogram found[KILN__FIGURES_ORIGINS]; /* from a request to its answer */
    kiln__spec_figures *specs;
} kiln__figures;

void kiln__figures_fini(kiln__figures *figures);

/* Counts an entry that was given. `compile_ns`: 0 where it was not compiled for this. */
void kiln__figures_found(kiln__figures *figures, const uint8_t key[KILN__DIGEST_SIZE], const char *spec,
                         kiln_origin origin, uint64_t ns, uint64_t compile_ns);

/* The present state of the daemon, beside its counters. */
typedef struct kiln__figures_now {
    const char *socket, *directory;
    uint64_t now_ns;
    uint64_t clients, running, resident_bytes;
    const kiln_stats *stats;
} kiln__figures_now;

/* All of it as JSON, which the caller frees; NULL: out of memory. */
char *kiln__figures_json(const kiln__figures *figures, const kiln__figures_now *now);

#endif
