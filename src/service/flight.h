/* Flights: the one compile in progress for a key in this service, with everyone who waits for it. */
#ifndef KILN_SERVICE_FLIGHT_H
#define KILN_SERVICE_FLIGHT_H

#include "base/table.h"
#include "jit/compiler.h"
#include "service/program.h"
#include "service/workpool.h"

/* What came of a flight, an entry, or of a request, its program. */
typedef struct kiln__outcome {
    kiln_status status;
    kiln_program *program;
    kiln__built built;
    bool counted;       /* another request counts where the entry came from, or has counted it */
    kiln_report report; /* of a failure; on success only its log */
} kiln__outcome;

void kiln__outcome_init(kiln__outcome *out);
void kiln__outcome_fini(kiln__outcome *outcome);

/* Copies all but the program. */
void kiln__outcome_copy(kiln__outcome *out, const kiln__outcome *from);

/* Makes *out, which holds nothing, that of what is given up: KILN_ECANCELED, and why. */
void kiln__outcome_cancel(kiln__outcome *out, const char *why);

/* Why, where the service ends. */
#define KILN__SERVICE_CLOSED "cancelled: the service was closed"

/* Hands the report over as a failing or warning call would. `report` may be NULL. Returns the status. */
kiln_status kiln__outcome_tell(const kiln__outcome *outcome, kiln_report *report);

/* A request that waits without a thread; embedded in it. */
typedef struct kiln__waiter {
    struct kiln__waiter *next, *prev;
    atomic_bool gone; /* its result is not needed any more */
    void (*landed)(struct kiln__waiter *waiter, kiln__outcome *outcome);
} kiln__waiter;

typedef enum kiln__flight_state { KILN__FLIGHT_QUEUED, KILN__FLIGHT_RUNNING, KILN__FLIGHT_LANDED } kiln__flight_state;

typedef struct kiln__flight {
    kiln__job job; /* while a thread of the pool is to do it */
    char *key;
    void *cargo; /* for the job; freed with the flight by free_cargo */
    void (*free_cargo)(void *cargo);
    /* Guarded by the table's lock. */
    UT_hash_handle hh;
    bool listed;            /* it is in the table */
    unsigned refs, threads; /* threads: how many wait for it in kiln__flights_wait */
    kiln__flight_state state;
    kiln__waiter *waiters;
    pthread_cond_t landed;
    kiln__outcome outcome;
} kiln__flight;

/* Embedded in the service. Any thread after init. */
typedef struct kiln__flights {
    pthread_mutex_t lock;
    kiln__workpool *pool; /* borrowed */
    kiln__flight *table;  /* by key, the latest of each */
    atomic_uint_least64_t joined;
} kiln__flights;

void kiln__flights_init(kiln__flights *flights, kiln__workpool *pool);
void kiln__flights_fini(kiln__flights *flights); /* every flight must have landed */

/* Enters the flight of a key for a thread that will wait. *lead: the caller does the work on its own thread and
 * lands the flight. It leads a new flight, and a queued one, which it takes from the pool. Otherwise the caller must
 * call wait. NULL when out of memory: the caller works on its own. */
kiln__flight *kiln__flights_enter(kiln__flights *flights, const char *key, bool *lead);

/* Waits until the flight has landed and copies what came of it. Uses up the caller's part in the flight. */
void kiln__flights_wait(kiln__flights *flights, kiln__flight *flight, kiln__outcome *out);

/* A flight that is not in the table yet, for join. Takes over the cargo, also on failure. NULL: out of memory. */
kiln__flight *kiln__flight_new(const char *key, void *cargo, void (*free_cargo)(void *),
                               void (*run)(kiln__job *job, bool stopped));
void kiln__flight_free(kiln__flight *flight);

/* Lets a waiter wait for the flight of a key, and raises the flight's priority to the waiter's. With `later` a
 * flight that has begun does not count, and gives up its place in the table. If there is none, `fresh` takes the place
 * and goes to the pool (*fresh is then NULL). False: no flight fits and `fresh` is NULL, memory is out, or the pool
 * stops. */
bool kiln__flights_join(kiln__flights *flights, const char *key, bool later, kiln__waiter *waiter, int priority,
                        kiln__flight **fresh);

/* At the beginning of the flight's job. False: nobody waits for it any more; it was landed as cancelled, and the job is
 * done. */
bool kiln__flights_begin(kiln__flights *flights, kiln__flight *flight);

/* Ends a flight: gives the outcome to all who wait, to each waiter on this thread. The caller keeps the outcome, but
 * not the flight. */
void kiln__flights_land(kiln__flights *flights, kiln__flight *flight, kiln__outcome *outcome);

#endif
