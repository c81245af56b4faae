/* A stand-in for libnvJitLink that gives its first input for the linked code. The name of an input can let it
 * misbehave: STAND_IN_CRASH.cu kills the process, and STAND_IN_LAUNCH.cu lacks a function of libcudadevrt.a. */
#include "gpu/nvjitlink_symbols.h"
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct nvJitLink {
    const void *data;
    size_t size;
    bool crashes, launches;
};

/* Prototypes from the one list, so that a parameter cannot differ from what Kiln calls. */
#define EXPORTED                            __attribute__((visibility("default")))
#define PROTOTYPE(name, result, parameters) EXPORTED result name parameters;
KILN__NVJITLINK_SYMBOLS(PROTOTYPE)

static const char missing[] = "error   : Undefined reference to '__cudaCDP2LaunchDeviceV2' in 'STAND_IN_LAUNCH.cu'\n";

kiln__nvjitlink_enum nvJitLinkVersion(unsigned *major, unsigned *minor)
{
    *major = 13;
    *minor = 0;
    return KILN__NVJITLINK_SUCCESS;
}

kiln__nvjitlink_enum nvJitLinkCreate(nvJitLinkHandle *handle, uint32_t count, const char **options)
{
    (void)count;
    (void)options;
    *handle = calloc(1, sizeof(**handle));
    return *handle != NULL ? KILN__NVJITLINK_SUCCESS : 6;
}

kiln__nvjitlink_enum nvJitLinkDestroy(nvJitLinkHandle *handle)
{
    free(*handle);
    *handle = NULL;
    return KILN__NVJITLINK_SUCCESS;
}

kiln__nvjitlink_enum nvJitLinkAddData(nvJitLinkHandle handle, kiln__nvjitlink_enum type, const void *data, size_t size,
                                      const char *name)
{
    if (type == KILN__NVJITLINK_INPUT_LIBRARY)
        handle->launches = false;
    else if (handle->data == NULL) {
        handle->data = data;
        handle->size = size;
    }
    handle->crashes = handle->crashes || strcmp(name, "STAND_IN_CRASH.cu") == 0;
    handle->launches = handle->launches || strcmp(name, "STAND_IN_LAUNCH.cu") == 0;
    return KILN__NVJITLINK_SUCCESS;
}

kiln__nvjitlink_enum nvJitLinkComplete(nvJitLinkHandle handle)
{
    if (handle->crashes)
        raise(SIGSEGV);
    return handle->launches ? 6 : KILN__NVJITLINK_SUCCESS;
}

kiln__nvjitlink_enum nvJitLinkGetLinkedCubinSize(nvJitLinkHandle handle, size_t *size)
{
    *size = handle->size;
    return KILN__NVJITLINK_SUCCESS;
}

kiln__nvjitlink_enum nvJitLinkGetLinkedCubin(nvJitLinkHandle handle, void *cubin)
{
    memcpy(cubin, handle->data, handle->size);
    return KILN__NVJITLINK_SUCCESS;
}

kiln__nvjitlink_enum nvJitLinkGetErrorLogSize(nvJitLinkHandle handle, size_t *size)
{
    *size = handle->launches ? sizeof(missing) : 0;
    return KILN__NVJITLINK_SUCCESS;
}

kiln__nvjitlink_enum nvJitLinkGetErrorLog(nvJitLinkHandle handle, char *log)
{
    if (handle->launches)
        memcpy(log, missing, sizeof(missing));
    return KILN__NVJITLINK_SUCCESS;
}
