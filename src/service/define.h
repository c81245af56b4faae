/* Ops and templates that a service is taught at run time. The contracts are those of <kiln/define.h>. */
#ifndef KILN_SERVICE_DEFINE_H
#define KILN_SERVICE_DEFINE_H

#include "service/service.h"

kiln_status kiln__service_define_op(kiln_service *service, const char *definition, kiln_report *report);

#endif
