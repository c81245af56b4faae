/* From a settled want to its program: loaded already, else in a store, else compiled, each once for all who want it. */
#ifndef KILN_SERVICE_OBTAIN_H
#define KILN_SERVICE_OBTAIN_H

#include "service/service.h"

/* A request that waits without a thread; embedded in it. */
typedef struct kiln__wait {
    kiln__waiter waiter;  /* in the flight */
    kiln__job job;        /* once that has landed on a thread of the host's */
    kiln__outcome landed; /* for the job */
    kiln_service *service;
    kiln__want *want; /* its own, released by the embedder */
    /* Called once, on any thread. May take the outcome's program. */
    void (*done)(struct kiln__wait *wait, kiln__outcome *outcome);
} kiln__wait;

/* The loaded program of a spec that was asked for in the same words, with a new reference, else NULL. Such a spec is
 * recorded already. Counts the hit. Without `look` it reads no file: NULL also where it is time to look at the
 * wisdom's files. */
kiln_program *kiln__obtain_hit(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool look);

/* The program if it is loaded under the want's id, with a new reference, else NULL. Counts the hit. */
kiln_program *kiln__obtain_loaded(kiln_service *service, const kiln__want *want);

/* Fills *out with the program if it is loaded or in a store. False: it must be compiled, and *out is empty. A strict
 * want always gets its answer here, and no other one waits for a thread. */
bool kiln__obtain_now(kiln_service *service, kiln__want *want, kiln__outcome *out);

/* Fills *out with the program, wherever it has to come from, or with the failure. Compiles on this thread, or waits
 * for the flight of another one. */
void kiln__obtain(kiln_service *service, kiln__want *want, kiln__outcome *out);

/* Lets a request wait for the flight of its want's id, if there is one. A want that reads files joins only a flight
 * that has not begun. */
bool kiln__obtain_join(kiln__wait *wait, int priority);

/* The same, and where there is no such flight, a thread of the service compiles. False, and `done` is not called:
 * out of memory, or the service is being closed. */
bool kiln__obtain_later(kiln__wait *wait, int priority);

#endif
