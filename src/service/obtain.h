/* From a unit to its entry, and from that to a loaded module: what the stores have, else what a compiler makes. */
#ifndef KILN_SERVICE_OBTAIN_H
#define KILN_SERVICE_OBTAIN_H

#include "service/service.h"

/* "disk". */
const char *kiln__origin_name(kiln_origin origin);

/* Where an entry came from. */
kiln_origin kiln__built_origin(const kiln_service *service, const kiln__built *built);

/* The entry of a unit, from the stores or, unless it is `strict`, compiled; a build in progress is waited for. Counts why it was
 * missing, with `earlier`.
 * *lead: nobody else brought it, so that it is for the caller to count where it came from. The caller ends `built` in either case.
 * Errors: those of kiln_get, but for those of a device. */
kiln_status kiln__obtain_entry(kiln_service *service, const kiln__unit *unit, bool strict, kiln__miss earlier,
                               kiln__built *built, bool *lead, kiln_report *report);

/* Counts where an entry came from. For one that has proved to be usable, and once. */
void kiln__obtain_count(kiln_service *service, const kiln__built *built);

/* Loads such an entry; where the driver refuses it, another one of the unit, which then is what `built` holds. With `strict` that is
 * no fresh one. */
kiln_status kiln__obtain_load(kiln_service *service, kiln_device *device, const kiln__unit *unit, bool strict,
                              kiln__built *built, kiln__module **out, kiln_report *report);

/* The entry from the stores alone: nothing is compiled, or counted. False, and built->miss, if they do not have it. The caller ends
 * `built` in either case. */
bool kiln__obtain_known(kiln_service *service, const kiln__unit *unit, kiln__built *built);

/* Loads such an entry. False: the driver does not take it. */
bool kiln__obtain_try(kiln_service *service, kiln_device *device, const kiln__unit *unit, const kiln__built *built,
                      kiln__module **out);

/* Loads the module if a store has it and the driver takes that, and counts it; built->miss says why not. The caller ends `built`
 * in either case. */
bool kiln__obtain_stored(kiln_service *service, kiln_device *device, const kiln__unit *unit, kiln__built *built,
                         kiln__module **out);

/* Loads the module, wherever its entry has to come from, and counts that. The caller ends `built` in either case. Errors: those of
 * kiln_get. */
kiln_status kiln__obtain(kiln_service *service, const kiln__want *want, const kiln__unit *unit, kiln__built *built,
                         kiln__module **out, kiln_report *report);

#endif
