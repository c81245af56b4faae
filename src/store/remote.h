/* The remote tier: entries that many machines share, on a server that an engine speaks with (store/engine.h). It is
 * asked last. A caller waits for it 250 ms at most, and after the first failure not at all for a while: the breaker is
 * open for a second, and after each further failure for twice as long, up to a minute. Entries that come from it are
 * sealed (store/seal.h), but where the host trusts the server itself. */
#ifndef KILN_STORE_REMOTE_H
#define KILN_STORE_REMOTE_H

#include "store/engine.h"
#include "store/store.h"

typedef struct kiln__remote_options {
    const char *url;
    const char *secret;                /* path of the file of secrets; NULL: none, and nothing is pushed */
    const kiln__engine_module *module; /* of tests; NULL: libkiln-remote.so, beside the library */
    bool trust;                        /* entries without a good seal are taken, too */
    bool writes;                       /* what is compiled is pushed */
    bool patient;                      /* pushes wait for room instead of being dropped */
} kiln__remote_options;

/* Opens the store; connects at the first get. NULL: `problem` says why. */
kiln__store *kiln__remote_store_open(const kiln__remote_options *options, const kiln__log *log,
                                     kiln__store_counters *counters, char *problem, size_t room);

/* Pushes an entry that another store has, unless the server has the very same, sealed with the first secret. Waits for
 * the answer to that question. */
void kiln__remote_push(kiln__store *store, kiln__blob *blob);

/* Asks for the right to compile what has this digest, which ends by itself after a minute: 0 it is this service's,
 * -EBUSY another machine's, other values: there is none to be had. */
int kiln__remote_lease(kiln__store *store, const uint8_t digest[KILN__DIGEST_SIZE]);

/* A lease was waited for in vain, longer than a compile takes: none is asked for in the next minute. */
void kiln__remote_lose_lease(kiln__store *store);

/* Gives it back, behind all pushes. */
void kiln__remote_give(kiln__store *store, const uint8_t digest[KILN__DIGEST_SIZE]);

/* A push that failed: the spec of the entry, and why. */
typedef void (*kiln__remote_failed)(void *data, const char *spec, const char *reason);

/* Waits until all pushes are answered, at most wait_ms: 0, -ETIMEDOUT. Then tells of each that failed since the last
 * call; `failed` may be NULL. */
int kiln__remote_wait(kiln__store *store, uint32_t wait_ms, kiln__remote_failed failed, void *data);

/* Reads and writes a value that is no entry, sealed as one. A read gives a copy, which the caller frees with
 * kiln__free. 0; -ENOENT; -EKEYREJECTED: it is not sealed as it must be; -EROFS: nothing is written; other troubles. */
int kiln__remote_read(kiln__store *store, const char *name, void **out, size_t *length);
int kiln__remote_write(kiln__store *store, const char *name, const void *bytes, size_t length);

/* Asks whether the server answers: 0, or the trouble. */
int kiln__remote_ping(kiln__store *store);

/* A trouble that these functions give in words, a static string or one of kiln__store_error_text. */
const char *kiln__remote_error_text(int error);

/* Whether there is a secret, by which entries are checked and signed. */
bool kiln__remote_is_signed(const kiln__store *store);

/* Counters. They only grow. */
typedef struct kiln__remote_counts {
    uint64_t gets, hits; /* asked of the server, and answered with an entry that is good */
    uint64_t skipped;    /* not asked, as the breaker was open */
    uint64_t failures;   /* questions without an answer */
    uint64_t refused;    /* answers without a good seal */
    uint64_t pushes, push_failures;
    uint64_t leases, lease_waits; /* taken, and found taken */
    uint64_t wait_ns;             /* of callers, for gets */
} kiln__remote_counts;

void kiln__remote_count(kiln__store *store, kiln__remote_counts *out);

#endif
