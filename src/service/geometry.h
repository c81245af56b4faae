/* What is open of a spec's geometry, from wisdom: the way from a spec and a device to a query. docs/tuning.md says
 * which record is taken. Any thread. */
#ifndef KILN_SERVICE_GEOMETRY_H
#define KILN_SERVICE_GEOMETRY_H

#include "backend/backend.h"
#include "wisdom/wisdom.h"

/* What a choice of geometry depends on besides the canonical spec and the device. Equal where there is nothing to
 * choose. */
typedef struct kiln__geometry_basis {
    uint64_t generation; /* of what is known */
    uint8_t size;        /* of the spec's n, as its power of two */
} kiln__geometry_basis;

/* Costs a look at the clock, and nothing where the spec sets all or wisdom is off. False without `look` where it is
 * time to look at the files: no file is read then. */
bool kiln__geometry_basis_of(kiln_service *service, const kiln__fields *spec, bool look, kiln__geometry_basis *out);

/* Sets what wisdom chooses. KILN_ENOMEM. `on` is NULL or the device that the spec is for; without it the one that is
 * open, if it is of this target. Opens no driver. */
kiln_status kiln__geometry_choose(kiln_service *service, const kiln_device *on, const kiln__target *target,
                                  kiln__fields *spec, kiln_report *report);

/* What records say of the device that is meant: of the target alone where none is known, or a spec names another
 * target than the device's. The texts are those of the device and the target. */
void kiln__geometry_device(kiln_service *service, const kiln_device *on, const kiln__target *target,
                           const kiln__fields *spec, kiln__wisdom_device *out);

#endif
