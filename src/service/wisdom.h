/* What the public API shows of wisdom. The contracts are those of the public functions of like name. */
#ifndef KILN_SERVICE_WISDOM_H
#define KILN_SERVICE_WISDOM_H

#include "service/service.h"
#include <kiln/tune.h>

kiln_status kiln__service_wisdom_visit(kiln_service *service, kiln_wisdom_fn fn, void *data);
kiln_status kiln__service_wisdom_explain(kiln_service *service, const kiln__fields *spec, const char *model,
                                         kiln_wisdom_candidate_fn fn, void *data, char **out, kiln_report *report);
kiln_status kiln__service_wisdom_import(kiln_service *service, const char *const *paths, size_t count,
                                        kiln_wisdom_tally *out, kiln_report *report);
kiln_status kiln__service_wisdom_export(kiln_service *service, kiln_wisdom_fn keep, void *data, char **out,
                                        kiln_report *report);

#endif
