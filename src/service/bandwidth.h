/* How fast a device copies its own memory. */
#ifndef KILN_SERVICE_BANDWIDTH_H
#define KILN_SERVICE_BANDWIDTH_H

#include "backend/backend.h"

/* Bytes read and written per second by device copies of that length, in GB/s; 0 if it cannot be measured. Takes about a
 * second and twice the memory. */
double kiln__copy_bandwidth(kiln_device *device, size_t bytes);

#endif
