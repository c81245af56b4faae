/* Ops and templates that a service is taught at run time. The contracts are those of <kiln/kernel.h>. */
#ifndef KILN_SERVICE_DEFINE_H
#define KILN_SERVICE_DEFINE_H

#include "service/service.h"

kiln_status kiln__service_define_op(kiln_service *service, const char *definition, kiln_report *report);

/* `origin` is what lists show: the template's path, or "defined". */
kiln_status kiln__service_define_template(kiln_service *service, const char *text, const char *cpu_text,
                                          const char *origin, const char **name, kiln_report *report);
kiln_status kiln__service_load_template(kiln_service *service, const char *path, const char **name,
                                        kiln_report *report);

#endif
