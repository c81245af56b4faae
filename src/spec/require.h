/* The constraints that a template declares, and what to change where one does not hold. Pure. */
#ifndef KILN_SPEC_REQUIRE_H
#define KILN_SPEC_REQUIRE_H

#include "spec/fields.h"

/* Checks every constraint whose names all have values under `spec`: a spec as given or, where `target` is not NULL,
 * the resolution of `given` for it. Errors: KILN_ESPEC that names the values, the reason and the nearest values that
 * hold. */
kiln_status kiln__requires_check(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target,
                                 kiln_report *report);

#endif
