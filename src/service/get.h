/* From a request to its program: a loaded program, else an entry of a store, else a compile, once for all requests
 * that want it. */
#ifndef KILN_SERVICE_GET_H
#define KILN_SERVICE_GET_H

#include "service/service.h"

/* The result of a flight has an entry in `built`; that of a request has its program. Either may have neither: a
 * failure, or a flight whose leader found the program loaded. */
typedef struct kiln__outcome {
    kiln_status status;
    kiln_program *program;
    kiln__built built;
    bool counted;       /* the entry's origin is in the statistics, or another request puts it there */
    kiln_report report; /* of a failure; on success only its log */
} kiln__outcome;

void kiln__outcome_init(kiln__outcome *out);
void kiln__outcome_fini(kiln__outcome *outcome);

/* Hands the report over as a failing or warning call would. `report` may be NULL. Returns the status. */
kiln_status kiln__outcome_tell(const kiln__outcome *outcome, kiln_report *report);

/* The reason of a request that is cancelled because the service closes. */
#define KILN__SERVICE_CLOSED "cancelled: the service was closed"

/* A request that waits without a thread; embedded in it. */
typedef struct kiln__wait {
    struct kiln__wait *next, *prev; /* in the flight */
    atomic_bool gone;               /* its result is not needed any more */
    kiln__job job;        /* its embedder's, until it waits; then for a flight that landed on a host's thread */
    kiln__outcome landed; /* for the job */
    kiln_service *service;
    kiln__want *want; /* its own, released by the embedder */
    /* Called once, on any thread. May take the outcome's program. */
    void (*done)(struct kiln__wait *wait, kiln__outcome *outcome);
} kiln__wait;

/* The loaded program of a spec that was asked for in the same words, with a new reference, else NULL. Such a spec is
 * recorded already. Counts the hit. Without `look` it reads no file: NULL also when a look at the wisdom's
 * files is due. */
kiln_program *kiln__obtain_hit(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool look);

/* The program if it is loaded under the want's id, with a new reference, else NULL. Counts the hit. */
kiln_program *kiln__obtain_loaded(kiln_service *service, const kiln__want *want);

/* Fills *out with the program if it is in a store. False: it must be compiled, and *out is empty. A strict want always
 * gets its answer here. A want that is not strict waits for no thread here. */
bool kiln__obtain_stored(kiln_service *service, kiln__want *want, kiln__outcome *out);

/* Lets a request wait for the flight of its want's id, if there is one. A want that reads files joins only a flight
 * that has not begun. */
bool kiln__obtain_join(kiln__wait *wait, int priority);

/* The same, and if there is no such flight, a thread of the service compiles. False, and `done` is not called:
 * out of memory, or the service is being closed. */
bool kiln__obtain_later(kiln__wait *wait, int priority);

/* The contract is kiln_get's; the request is complete. With `unlisted` the program is not recorded and not listed: its
 * last reference unloads it. With `capture`, which points to a stream, KILN_ECAPTURE if it is captured and the
 * program is not loaded. */
kiln_status kiln__get(kiln_program **out, kiln_service *service, const kiln_request *request, bool unlisted,
                      void *const *capture, kiln_report *report);

/* The contract is kiln_kept's; the request is complete. */
kiln_status kiln__service_kept(kiln_service *service, const kiln_request *request, kiln_report *report);

/* The unlisted kernel of a spec. A loaded listed program is given as it is. */
kiln_status kiln__get_unlisted(kiln_kernel **out, kiln_service *service, kiln_device *on, const kiln__fields *spec,
                               kiln_report *report);

/* The kernel that kiln_call launches for a text, with a new reference. A text that was given before means the
 * kernel that it meant then, and is not parsed. `capture` is that of kiln__get. */
kiln_status kiln__get_text(kiln_kernel **out, kiln_service *service, const char *text, void *const *capture,
                           kiln_report *report);

/* The loaded kernel of the same template, op, dtype, device and target whose geometry is nearest to that of the want,
 * with a new reference, or NULL. Looks at every loaded kernel. Any thread. */
kiln_program *kiln__stand_in_loaded(kiln_service *service, const kiln__want *want);

/* The kernel of the same spec with no geometry named, loaded now from a store, with a new reference. NULL: that is
 * the wanted kernel, or no store has it. */
kiln_program *kiln__stand_in_stored(kiln_service *service, const kiln__want *want);

#endif
