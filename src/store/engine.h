/* The interface of libkiln-remote.so, the module that speaks with servers of many machines. The library opens
 * it when a remote is named, so that it links no client itself. An engine moves bytes under names; signatures, keys and
 * the breaker are the library's (store/remote.h). */
#ifndef KILN_STORE_ENGINE_H
#define KILN_STORE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

enum { KILN__ENGINE_VERSION = 1 };
#define KILN__ENGINE_SYMBOL "kiln_remote_module"

typedef struct kiln__engine_options {
    const char *url;
    uint32_t connect_ms; /* longest connecting */
    uint32_t answer_ms;  /* longest wait of the engine for the next answer, after which the connection is given up */
    size_t value_max;    /* a longer value is not read */
    size_t waiting_max;  /* bytes of asynchronous puts that may wait; those beyond are refused */
} kiln__engine_options;

typedef enum kiln__engine_verb {
    KILN__ENGINE_GET,
    KILN__ENGINE_EXISTS,
    KILN__ENGINE_PUT,
    KILN__ENGINE_TAKE, /* a lease: the value is its holder's token, `ms` its life */
    KILN__ENGINE_GIVE  /* gives a lease back, if it is still of this token */
} kiln__engine_verb;

/* One question. `name` is of letters, digits and ":.-_". */
typedef struct kiln__engine_call {
    kiln__engine_verb verb;
    const char *name;
    const void *value;
    size_t length;
    uint32_t ms;
} kiln__engine_call;

/* Told of an asynchronous call's result, once, on the engine's thread or within close. */
typedef void (*kiln__engine_done)(void *data, int result);

typedef struct kiln__engine kiln__engine;

/* Results: 0; -ENOENT, there is no such value; -EBUSY, the lease is another's; -ENOTSUP, the server has no leases;
 * -ETIMEDOUT, no answer in time; -EMSGSIZE, the value is longer than value_max; -EACCES, the server refuses this user;
 * -EPERM, it refuses this call; -EBADMSG, the value is of another kind; -ENOBUFS, waiting_max; -ENOSPC, -EROFS, the
 * server cannot take it; -EREMOTEIO, it failed; -EPROTO, the answer is none; -ECANCELED, the engine or the connection
 * was given up for another reason; -ENOMEM; other negative errno of the connection. Any thread. */
typedef struct kiln__engine_module {
    uint32_t version; /* KILN__ENGINE_VERSION */
    /* Opens an engine for a URL of one of these kinds; connects at the first call. NULL: `problem` says why. */
    kiln__engine *(*open)(const kiln__engine_options *options, char *problem, size_t room);
    /* Asks and waits for the answer, at most wait_ms. *value of a get: malloc; the caller frees it with `release`. */
    int (*ask)(kiln__engine *engine, const kiln__engine_call *call, uint32_t wait_ms, void **value, size_t *length);
    /* Asks and does not wait; copies the name and the value. Where it fails, `done` is not called. */
    int (*send)(kiln__engine *engine, const kiln__engine_call *call, kiln__engine_done done, void *data);
    /* Waits until every call is answered: 0, -ETIMEDOUT. */
    int (*drain)(kiln__engine *engine, uint32_t wait_ms);
    void (*release)(void *value);
    /* Gives up what is not answered. A thread that the system keeps, by a silent name server, is left behind after
     * 100 ms: it settles its calls when it can. So the module must stay loaded. */
    void (*close)(kiln__engine *engine);
} kiln__engine_module;

#endif
