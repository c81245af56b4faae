/* Sources of users' own: compiled, and loaded. */
#ifndef KILN_SERVICE_PROGRAM_H
#define KILN_SERVICE_PROGRAM_H

#include "service/service.h"
#include "source/source.h"

/* The contracts of these are those of the public functions of the same name; the source is complete. */
kiln_status kiln__program_build(kiln_service *service, const kiln_source *given, kiln_artifact **out,
                                kiln_report *report);

kiln_status kiln__program_get(kiln_service *service, kiln_device *device, const kiln_source *given, kiln_program **out,
                              kiln_report *report);

/* Fills *out with function number `index` of an artifact; KILN_ENOENT. */
kiln_status kiln__program_symbol(const kiln_artifact *artifact, size_t index, kiln_symbol_info *out);

#endif
