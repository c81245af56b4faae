/* The stores of a service: which there are, and in which order they are asked. */
#ifndef KILN_SERVICE_STORES_H
#define KILN_SERVICE_STORES_H

#include "service/options.h"
#include "service/service.h"

/* A pack or the shared directory, as the host named it. */
struct kiln__named_store {
    kiln__named_store *next; /* in the order in which they are asked */
    kiln_origin origin;
    kiln__store *store; /* one of the tiers; NULL: it is not used, for `problem` */
    char problem[256];
    char path[];
};

/* Opens memory, the user's directory, the packs and the shared directory. One that cannot be used is logged, and its
 * problem is kept; the service works without it. */
void kiln__stores_open(kiln_service *service, const kiln__settings *settings);

/* Adds a tier, asked after those that there are, and takes it over. NULL is allowed. Before the first request. */
void kiln__stores_add(kiln_service *service, kiln__store *store, kiln_origin origin);

/* The shared directory's store, NULL if there is none. */
kiln__store *kiln__stores_shared(const kiln_service *service);

void kiln__stores_close(kiln_service *service); /* also of a service that never opened them */

#endif
