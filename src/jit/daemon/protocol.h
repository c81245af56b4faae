/* The protocol between hosts and the daemon of a machine: the frames of workers on a Unix socket. A host asks, and the
 * daemon answers each request before it reads the next. Both are of one Kiln version, which HELLO tells.
 *
 *     (connected)                                        -> HELLO: version, directory of the store
 *     FIND      key and toolchain                        -> FOUND or ABSENT
 *     BUILD     unit, as a worker gets it                -> FOUND or FAILED
 *     FIGURES                                            -> FIGURES: JSON
 *     STOP                                               -> the end of the stream, with that of the daemon
 *
 * FOUND says that the entry is in the directory, where the host reads it as any other. So no answer has code, and a
 * host loads nothing that it would not load without a daemon. FAILED has no reason: a host then compiles by itself, as
 * its compiler, its limits and its files may be others, and has its own message. */
#ifndef KILN_JIT_DAEMON_PROTOCOL_H
#define KILN_JIT_DAEMON_PROTOCOL_H

#include "jit/worker/protocol.h"
#include "store/entry.h"

enum { KILN__DAEMON_LIMIT = 16 << 20 /* of a frame's body: hosts build larger units themselves */ };

typedef enum kiln__daemon_type {
    KILN__DAEMON_FIND = 201,
    KILN__DAEMON_BUILD,
    KILN__DAEMON_ASK_FIGURES,
    KILN__DAEMON_STOP,
    KILN__DAEMON_HELLO = 301,
    KILN__DAEMON_FOUND,
    KILN__DAEMON_ABSENT,
    KILN__DAEMON_FAILED,
    KILN__DAEMON_FIGURES
} kiln__daemon_type;

/* Beside those of workers, and behind them. Texts end with their NUL. */
typedef enum kiln__daemon_tag {
    KILN__DAEMON_TAG_VERSION = 101, /* Kiln's */
    KILN__DAEMON_TAG_DIRECTORY,
    KILN__DAEMON_TAG_KEY,
    KILN__DAEMON_TAG_TOOLCHAIN, /* "": of any */
    KILN__DAEMON_TAG_FOREIGN,   /* u32: 1 if the unit is; else it is left out */
    KILN__DAEMON_TAG_ORIGIN,    /* u32: a kiln_origin */
    KILN__DAEMON_TAG_JSON
} kiln__daemon_tag;

void kiln__daemon_put_hello(kiln__text *frame, const char *directory);

/* False: another version, or no such frame. *directory points into the frame. */
bool kiln__daemon_get_hello(const kiln__frame *frame, const char **directory);

void kiln__daemon_put_key(kiln__text *frame, const kiln__key *key);
bool kiln__daemon_get_key(const kiln__frame *frame, kiln__key *out);

void kiln__daemon_put_unit(kiln__text *frame, const kiln__unit *unit);
/* As kiln__worker_get_unit. */
bool kiln__daemon_get_unit(const kiln__frame *frame, kiln__unit *out);

#endif
