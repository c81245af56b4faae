/* libcuda.so.1, opened at run time: the table of its functions and the one way from its codes to a kiln_status. */
#ifndef KILN_GPU_DRIVER_H
#define KILN_GPU_DRIVER_H

#include "base/report.h"
#include "gpu/cuda_symbols.h"
#include <stdbool.h>

/* Constant after kiln__driver_open; any thread may read it. OPTIONAL members may be NULL. */
typedef struct kiln__driver {
#define KILN__MEMBER(need, name, suffix, version, result, parameters) result(*name) parameters;
    KILN__CUDA_SYMBOLS(KILN__MEMBER)
#undef KILN__MEMBER
    int version;     /* 13000 for CUDA 13.0; 0 if the driver does not tell */
    char path[1024]; /* as the loader has it, links not resolved */
} kiln__driver;

/* Opens the library (`path`, or libcuda.so.1 if NULL) and fills the table; does not initialise CUDA. The caller
 * frees *out with kiln__driver_free, after which the library stays mapped. KILN_ENODRIVER says what is missing and
 * what to do; KILN_ENOMEM. */
kiln_status kiln__driver_open(kiln__driver **out, const char *path, kiln_report *report);
void kiln__driver_free(kiln__driver *driver);

/* Who calls the driver and what a failure means to the caller. Lives on the stack. */
typedef struct kiln__cuda_call {
    const kiln__driver *driver;
    kiln_status failure; /* the status of a failure with no status of its own */
    const char *stage;   /* KILN__STAGE_... */
    const char *where;   /* the device's name, "" if none */
    kiln_report *report;
} kiln__cuda_call;

/* KILN__CUDA(&call, cuMemFree, (memory)): calls a function of the table and returns a kiln_status; a failure fills the
 * report with the function's name, the device and the driver's own words. */
#define KILN__CUDA(call, name, arguments) kiln__cuda_result((call), #name, (call)->driver->name arguments)

/* The only way from a CUresult to a kiln_status. KILN_EDEVICE for an error that the process cannot recover from,
 * KILN_ENOMEM for a device out of memory (but KILN_ELAUNCH stays), else call->failure. */
kiln_status kiln__cuda_result(const kiln__cuda_call *call, const char *function, kiln__cu_enum code);

/* "CUDA_ERROR_NOT_FOUND (500): named symbol not found" into out; also for codes the driver does not know. */
void kiln__cuda_describe(const kiln__driver *driver, kiln__cu_enum code, char *out, size_t size);

/* Whether the context, and with it this process's use of the GPU, is lost after this code. */
bool kiln__cuda_is_fatal(kiln__cu_enum code);

#endif
