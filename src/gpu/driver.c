/* Opens the driver's library, and says in words what its codes mean. */
#include "gpu/driver.h"

#include "base/alloc.h"
#include "base/text.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_NAME "libcuda.so.1"

static const kiln__symbol symbols[] = {
#define ROW(need, name, suffix, version, result, parameters) \
    { KILN__##need, #name, #name #suffix, version, offsetof(kiln__driver, name) },
    KILN__CUDA_SYMBOLS(ROW)
#undef ROW
};

/* The driver has functions under names that carry a version, and cuGetProcAddress to find the right one. A library that
 * stands in for the driver may export one that cuGetProcAddress does not know. */
static void *find_function(kiln__dylib *library, kiln__cu_get_proc_address get, const kiln__symbol *row)
{
    void *address = NULL;
    kiln__cu_enum found = KILN__CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (get != NULL &&
        get(row->name, &address, row->version, KILN__CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) == KILN__CUDA_SUCCESS &&
        found == KILN__CU_GET_PROC_ADDRESS_SUCCESS && address != NULL)
        return address;
    return kiln__dylib_symbol(library, row->exported);
}

const kiln__symbol *kiln__table_fill(void *table, const kiln__symbol *rows, size_t count, kiln__dylib *library,
                                     kiln__cu_get_proc_address get)
{
    const kiln__symbol *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        void *address = find_function(library, get, &rows[i]);
        memcpy((char *)table + rows[i].offset, &address, sizeof(address));
        if (address == NULL && rows[i].need == KILN__REQUIRED && missing == NULL)
            missing = &rows[i];
    }
    return missing;
}

/* A library that the loader does not find again by its path keeps its handle: the tables point into it. */
void kiln__table_keep(kiln__dylib *library)
{
    if (library != NULL && kiln__dylib_pin(library))
        kiln__dylib_close(library);
}

static kiln_status fail_missing(const kiln__driver *driver, const kiln__symbol *missing, kiln_report *report)
{
    if (driver->version == 0)
        return kiln__fail(report, KILN_ENODRIVER, KILN__STAGE_OPEN, 0,
                          "%s has no %s: it is not a usable CUDA driver; name the driver's libcuda in KILN_LIBCUDA",
                          driver->path, missing->exported);
    return kiln__fail(report, KILN_ENODRIVER, KILN__STAGE_OPEN, 0,
                      "the CUDA driver %s is for CUDA %d.%d and has no %s (new in CUDA %d.%d): %s", driver->path,
                      driver->version / 1000, driver->version % 1000 / 10, missing->exported, missing->version / 1000,
                      missing->version % 1000 / 10,
                      driver->version < 12000 ? "install a driver for CUDA 12.0 or newer (version 525 or newer)"
                                              : "it is incomplete; reinstall the NVIDIA driver");
}

static kiln_status fail_open(const char *path, const char *reason, kiln_report *report)
{
    if (path != NULL)
        return kiln__fail(
            report, KILN_ENODRIVER, KILN__STAGE_OPEN, 0,
            "cannot open the CUDA driver named explicitly: %s: correct KILN_LIBCUDA or the libcuda option", reason);
    return kiln__fail(report, KILN_ENODRIVER, KILN__STAGE_OPEN, 0,
                      "cannot open the CUDA driver: %s: install the NVIDIA driver, which brings " DEFAULT_NAME
                      " (the CUDA toolkit does not), or name the library in KILN_LIBCUDA",
                      reason);
}

kiln_status kiln__driver_open(kiln__driver **out, const char *path, kiln_report *report)
{
    const char *const names[] = { path != NULL ? path : DEFAULT_NAME, NULL };
    char reason[256];
    *out = NULL;
    kiln__driver *driver = kiln__calloc(1, sizeof(*driver));
    if (driver == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    kiln__dylib *library = kiln__dylib_open(names, reason, sizeof(reason));
    if (library == NULL) {
        int error = errno;
        kiln__free(driver);
        /* Without a driver the host goes on with the cpu. A shortage must not decide that. */
        if (kiln__is_shortage(error))
            return kiln__fail_shortage(report, KILN__STAGE_OPEN, error, "open the CUDA driver");
        return error == ENOMEM ? kiln__fail_memory(report, KILN__STAGE_OPEN) : fail_open(path, reason, report);
    }
    const char *found = kiln__dylib_name(library);
    kiln__text_copy(driver->path, sizeof(driver->path), found[0] != '\0' ? found : names[0]);
    kiln__cu_get_proc_address get;
    void *symbol = kiln__dylib_symbol(library, KILN__CUDA_GET_PROC_ADDRESS);
    memcpy(&get, &symbol, sizeof(get));
    const kiln__symbol *missing = kiln__table_fill(driver, symbols, sizeof(symbols) / sizeof(symbols[0]), library, get);
    /* The driver has threads, thread-local data and exit handlers, and does not survive being unmapped. */
    kiln__table_keep(library);
    if (driver->cuDriverGetVersion != NULL && driver->cuDriverGetVersion(&driver->version) != KILN__CUDA_SUCCESS)
        driver->version = 0;
    if (missing != NULL) {
        kiln_status status = fail_missing(driver, missing, report);
        kiln__free(driver);
        return status;
    }
    *out = driver;
    return KILN_OK;
}

void kiln__cuda_describe(const kiln__driver *driver, kiln__cu_enum code, char *out, size_t size)
{
    const char *name = NULL, *text = NULL;
    if (driver->cuGetErrorName(code, &name) != KILN__CUDA_SUCCESS || name == NULL)
        name = "an error this driver has no name for";
    if (driver->cuGetErrorString(code, &text) != KILN__CUDA_SUCCESS || text == NULL)
        text = "no description";
    snprintf(out, size, "%s (%u): %s", name, code, text);
}

bool kiln__cuda_is_fatal(kiln__cu_enum code)
{
    switch (code) {
    case KILN__CUDA_ERROR_CONTAINED:
    case KILN__CUDA_ERROR_ILLEGAL_ADDRESS:
    case KILN__CUDA_ERROR_LAUNCH_TIMEOUT:
    case KILN__CUDA_ERROR_ASSERT:
    case KILN__CUDA_ERROR_HARDWARE_STACK_ERROR:
    case KILN__CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case KILN__CUDA_ERROR_MISALIGNED_ADDRESS:
    case KILN__CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case KILN__CUDA_ERROR_INVALID_PC:
    case KILN__CUDA_ERROR_LAUNCH_FAILED:
    case KILN__CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case KILN__CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case KILN__CUDA_ERROR_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

static const char *remedy(kiln__cu_enum code)
{
    switch (code) {
    case KILN__CUDA_ERROR_DEINITIALIZED:
        return ": the process is exiting and the driver has shut down";
    case KILN__CUDA_ERROR_NOT_INITIALIZED:
        return ": a child made by fork cannot use CUDA that its parent has used; start a new program instead";
    case KILN__CUDA_ERROR_STUB_LIBRARY:
        return ": this is the toolkit's stub for linking; name the driver's own libcuda in KILN_LIBCUDA";
    case KILN__CUDA_ERROR_SYSTEM_NOT_READY:
        return ": start the NVIDIA fabric manager, or wait until it has set the GPUs up";
    case KILN__CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return ": the kernel module and libcuda are of different driver versions; reboot, or reinstall the driver";
    case KILN__CUDA_ERROR_OUT_OF_MEMORY:
        return ": free device memory or use less of it";
    case KILN__CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return ": update the NVIDIA driver, or use an older NVRTC";
    case KILN__CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
        return ": a graph is being captured; do this before or after";
    case KILN__CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
        return ": another stream is being captured, and the default stream waits for it; name a stream";
    case KILN__CUDA_ERROR_UNKNOWN:
        return ": see whether nvidia-smi works and /dev/nvidia* can be opened by this user";
    default:
        return kiln__cuda_is_fatal(code) ? ": the GPU context is lost and this process must be restarted" : "";
    }
}

kiln_status kiln__cuda_fail(kiln__cuda_call *call, const char *function, kiln__cu_enum code)
{
    char words[256];
    call->status = call->failure;
    if (kiln__cuda_is_fatal(code))
        call->status = KILN_EDEVICE;
    else if (code == KILN__CUDA_ERROR_OUT_OF_MEMORY && call->status != KILN_ELAUNCH)
        call->status = KILN_ENOMEM;
    kiln__cuda_describe(call->driver, code, words, sizeof(words));
    return kiln__fail(call->report, call->status, call->stage, (int)code, "%s%s%s failed: %s%s", call->where,
                      call->where[0] != '\0' ? ": " : "", function, words, remedy(code));
}
