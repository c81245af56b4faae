/* What was found, what is missing, what to do. */
#ifndef KILN_SERVICE_DOCTOR_H
#define KILN_SERVICE_DOCTOR_H

#include "service/service.h"

/* The contract is kiln_doctor's. */
kiln_status kiln__doctor(kiln_service *service, kiln_finding_fn fn, void *data);

#endif
