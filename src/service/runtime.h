/* Backends and open devices: what loaded kernels need, so it lives as long as the service or any kernel. */
#ifndef KILN_SERVICE_RUNTIME_H
#define KILN_SERVICE_RUNTIME_H

#include "backend/backend.h"
#include <pthread.h>
#include <stdatomic.h>

enum { KILN__DEVICES_MAX = 64 };

typedef struct kiln__runtime {
    atomic_uint refs;
    kiln__log log; /* a copy: kernels may outlive the service */
    kiln__backend *backends[KILN__BACKEND_END];
    pthread_mutex_t lock; /* held while a device is opened; each pointer is set once and read without it */
    _Atomic(kiln_device *) devices[KILN__BACKEND_END][KILN__DEVICES_MAX];
    _Atomic(kiln_device *) chosen; /* the default device once known */
    char *default_name;            /* what the host asked for; NULL: the first GPU, else the cpu */
} kiln__runtime;

/* Opens no driver. `drivers` are the libraries that the host names, and like `default_name` may be NULL; copied, as
 * is `log`. One reference. KILN_EINVAL (not a device's name), KILN_ENOMEM. */
kiln_status kiln__runtime_open(kiln__runtime **out, const char *const drivers[KILN__BACKEND_END],
                               const char *default_name, const kiln__log *log, kiln_report *report);
kiln__runtime *kiln__runtime_retain(kiln__runtime *runtime);
void kiln__runtime_release(kiln__runtime *runtime);

/* The device of that name, NULL for the default one; opened on first use and kept. Blocks then. KILN_EINVAL,
 * KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE. */
kiln_status kiln__runtime_device(kiln__runtime *runtime, const char *name, kiln_device **out, kiln_report *report);

/* Whether it is one of this runtime's devices, opened by kiln__runtime_device. */
bool kiln__runtime_owns(const kiln__runtime *runtime, const kiln_device *device);

/* The device if it is open already, without waiting for a thread that is opening one. */
bool kiln__runtime_has_device(kiln__runtime *runtime, const char *name, kiln_device **out);

#endif
