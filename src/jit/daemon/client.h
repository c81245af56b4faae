/* The host's side of the daemon: one connection for each request, so that nothing is shared between threads, and a
 * daemon that dies takes one request with it. A request that the daemon does not answer is the caller's again. */
#ifndef KILN_JIT_DAEMON_CLIENT_H
#define KILN_JIT_DAEMON_CLIENT_H

#include "base/log.h"
#include "spec/unit.h"
#include "store/entry.h"

enum { KILN__DAEMON_PATH_SIZE = 108 /* of the path of a socket, with its NUL: sun_path of sockaddr_un */ };

typedef struct kiln__daemon kiln__daemon;

typedef struct kiln__daemon_counts {
    uint64_t found;    /* entries that the daemon had or made */
    uint64_t failures; /* units that it could not compile */
    uint64_t lost;     /* requests that it did not answer */
    uint64_t refused;  /* sockets of another user, daemons of another version or store */
} kiln__daemon_counts;

/* `socket`: its path. `directory`: the store of this process. `start`: a daemon is started where none answers. NULL:
 * out of memory. The log is borrowed. */
kiln__daemon *kiln__daemon_open(const char *socket, const char *directory, bool start, const kiln__log *log);
void kiln__daemon_close(kiln__daemon *daemon); /* NULL is allowed */

/* Called around the wait for a daemon that listens, on the waiting thread. */
typedef struct kiln__daemon_wait {
    uint32_t ms; /* the longest, for each of two answers */
    void (*aside)(void *data, bool begin);
    void *data;
} kiln__daemon_wait;

/* Has the daemon find or make the entry of a unit. True: it is in the store. Else the caller compiles: the daemon may
 * lack what is here, and may have read files that have changed. `key`: that of the entry, NULL where only a compile
 * tells. Blocks for 100 ms for the connection, 250 ms for the greeting and wait->ms for each of two answers; and for
 * 5 s where it starts one. After a failure it asks nothing for 1 s, doubling to 60 s. Any thread. */
bool kiln__daemon_build(kiln__daemon *daemon, const kiln__unit *unit, const kiln__key *key,
                        const kiln__daemon_wait *wait);

/* The path of its socket. */
const char *kiln__daemon_socket(const kiln__daemon *daemon);

void kiln__daemon_count(const kiln__daemon *daemon, kiln__daemon_counts *out);

/* Whether a daemon of this version answers at a socket: 0, or a negative errno: -ENOENT, -ECONNREFUSED (none listens),
 * -EPERM (another user's), -EPROTO (another version), -EBUSY (it takes no more hosts). *why, which may be NULL, is a
 * static string. */
int kiln__daemon_probe(const char *socket, const char **why);

/* Has the daemon end, and waits for that, at most `wait_ms`. The same errors, and -ETIMEDOUT. */
int kiln__daemon_stop(const char *socket, uint32_t wait_ms, const char **why);

/* The daemon's figures as JSON, which the caller frees. The same errors, -ETIMEDOUT and -ENOMEM. */
int kiln__daemon_ask_figures(const char *socket, char **out, const char **why);

#endif
