/* Calls on their way to a server: threads of the host put them into a list, and the engine's own thread takes them out,
 * asks, and settles each once. A thread that has waited long enough leaves its call behind. */
#ifndef KILN_REMOTE_REQUESTS_H
#define KILN_REMOTE_REQUESTS_H

#include "store/engine.h"
#include <pthread.h>
#include <stdbool.h>

/* One call. The engine's thread owns it between take and settle. */
typedef struct kiln__remote_request {
    struct kiln__remote_request *next;
    kiln__engine_verb verb;
    uint32_t ms;
    char *name;  /* behind the struct, as the value */
    void *value; /* of the call */
    size_t length;
    void *answer; /* of a get; malloc */
    size_t answer_length;
    int result;
    bool settled, left; /* guarded by the engine's lock */
    bool synchronous;
    kiln__engine_done done;
    void *data;
    void *handle; /* free for the engine */
} kiln__remote_request;

typedef struct kiln__remote_list {
    kiln__remote_request *first, *last;
} kiln__remote_list;

void kiln__remote_append(kiln__remote_list *list, kiln__remote_request *request);
kiln__remote_request *kiln__remote_take_first(kiln__remote_list *list); /* NULL: empty */

/* The part that all engines share. Embedded first in each. */
struct kiln__engine {
    const struct kiln__engine_kind *kind;
    kiln__engine_options options; /* the url is a copy */
    pthread_mutex_t lock;
    pthread_cond_t settled;
    kiln__remote_list waiting;
    size_t waiting_bytes;               /* of asynchronous calls that are not settled */
    size_t open;                        /* calls that are not settled */
    bool started, closing, ended, left; /* left: the thread ends the engine */
    pthread_t thread;
    int wake; /* an eventfd: something waits, or the engine is to end */
};

/* A protocol. */
typedef struct kiln__engine_kind {
    const char *const *schemes; /* NULL-terminated: "redis" */
    size_t size;                /* of its engine */
    /* Reads the URL into the engine. False: `problem` says why. */
    bool (*init)(kiln__engine *engine, const char *url, char *problem, size_t room);
    /* The thread: until kiln__remote_collect says that the engine is to end. */
    void (*run)(kiln__engine *engine);
    void (*fini)(kiln__engine *engine); /* also after an init that failed */
} kiln__engine_kind;

extern const kiln__engine_kind kiln__redis_kind, kiln__http_kind;

/* ---- For the engine's thread */

/* Moves all that waits to the end of `out`; clears the wake. False: the engine is to end. */
bool kiln__remote_collect(kiln__engine *engine, kiln__remote_list *out);

/* Settles a request and gives it up; `answer` goes with it. */
void kiln__remote_settle(kiln__engine *engine, kiln__remote_request *request, int result);
void kiln__remote_settle_all(kiln__engine *engine, kiln__remote_list *list, int result);

/* Milliseconds of a clock that only grows. */
uint64_t kiln__remote_now(void);

#endif
