/* libcuda.so.1, opened at run time: the table of its functions and the one way from its codes to a kiln_status. */
#ifndef KILN_GPU_DRIVER_H
#define KILN_GPU_DRIVER_H

#include "base/report.h"
#include "gpu/cuda_symbols.h"
#include "os/dylib.h"

/* ---- Tables of functions from libraries that are opened at run time, for the driver and for NVRTC */

typedef enum kiln__need { KILN__REQUIRED, KILN__OPTIONAL } kiln__need;

/* One function of a table. */
typedef struct kiln__symbol {
    kiln__need need;
    const char *name, *exported;
    int version;   /* the CUDA version that brought it: 12040 for 12.4 */
    size_t offset; /* of the pointer to it in the table */
} kiln__symbol;

/* Fills a table from its rows; members without a function become NULL. `get` is the driver's function that finds the
 * others, NULL where the library has none. Returns the first required row that is missing, or NULL. */
const kiln__symbol *kiln__table_fill(void *table, const kiln__symbol *rows, size_t count, kiln__dylib *library,
                                     kiln__cu_get_proc_address get);

/* Closes the handle of an open library but keeps the library mapped for the rest of the process. NULL is allowed. */
void kiln__table_keep(kiln__dylib *library);

/* ---- The driver */

/* Constant after kiln__driver_open; any thread may read it. OPTIONAL members may be NULL. */
typedef struct kiln__driver {
#define KILN__MEMBER(need, name, suffix, version, result, parameters) result(*name) parameters;
    KILN__CUDA_SYMBOLS(KILN__MEMBER)
#undef KILN__MEMBER
    int version;     /* 13000 for CUDA 13.0; 0 if the driver does not tell */
    char path[1024]; /* as the loader has it, links not resolved */
} kiln__driver;

/* Opens the library (`path`, or libcuda.so.1 if NULL) and fills the table; does not initialise CUDA. The caller
 * frees *out with kiln__free, after which the library stays mapped. KILN_ENODRIVER says what is missing and what to
 * do; KILN_ENOMEM. */
kiln_status kiln__driver_open(kiln__driver **out, const char *path, kiln_report *report);

/* Calls of the driver for one caller, on the stack. The first failure fills the report and sets `status`, and later
 * calls are not made: the caller makes them all and checks once. */
typedef struct kiln__cuda_call {
    const kiln__driver *driver;
    kiln_status failure; /* the status of a failure that means nothing more special */
    const char *stage;   /* KILN__STAGE_... */
    const char *where;   /* the device's name, "" if none */
    kiln_report *report;
    kiln_status status;
    CUcontext primary;          /* the device's context, for kiln__cuda_enter */
    bool pushed, relaxed;       /* what kiln__cuda_leave undoes */
    kiln__cu_enum capture_mode; /* the thread's, while it is relaxed */
} kiln__cuda_call;

/* The only way from a CUresult to a kiln_status. Sets call->status: KILN_EDEVICE for an error that the process cannot
 * recover from, KILN_ENOMEM for a device out of memory (but KILN_ELAUNCH stays), else call->failure. The report gets
 * the function's name, the device and the driver's own words. Returns the status. */
kiln_status kiln__cuda_fail(kiln__cuda_call *call, const char *function, kiln__cu_enum code);

/* Takes the code of a call. True if it and all before it have succeeded. */
static inline bool kiln__cuda_result(kiln__cuda_call *call, const char *function, kiln__cu_enum code)
{
    return call->status == KILN_OK && (code == KILN__CUDA_SUCCESS || kiln__cuda_fail(call, function, code) == KILN_OK);
}

/* KILN__CUDA(&call, cuMemFree, (memory)): calls a function of the table, unless a call has failed before. True if it
 * was called and succeeded. */
#define KILN__CUDA(call, name, arguments) \
    kiln__cuda_result((call), #name, (call)->status == KILN_OK ? (call)->driver->name arguments : KILN__CUDA_SUCCESS)

/* "CUDA_ERROR_NOT_FOUND (500): named symbol not found" into out; also for codes the driver does not know. */
void kiln__cuda_describe(const kiln__driver *driver, kiln__cu_enum code, char *out, size_t size);

/* Whether the context, and with it this process's use of the GPU, is lost after this code. */
bool kiln__cuda_is_fatal(kiln__cu_enum code);

#endif
