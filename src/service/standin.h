/* Stand-ins: kernels that compute what is wanted with another geometry. */
#ifndef KILN_SERVICE_STANDIN_H
#define KILN_SERVICE_STANDIN_H

#include "service/service.h"

/* The loaded kernel of the same template, op, dtype, device and target whose geometry is nearest to what is wanted,
 * with a new reference, or NULL. Looks at every loaded kernel. Any thread. */
kiln_program *kiln__stand_in_loaded(kiln_service *service, const kiln__want *want);

/* The kernel of the same spec with no geometry named, loaded now from a store, with a new reference. NULL: that is
 * what is wanted, or no store has it. */
kiln_program *kiln__stand_in_stored(kiln_service *service, const kiln__want *want);

#endif
