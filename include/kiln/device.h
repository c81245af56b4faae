/* Devices, their memory, and a diagnosis of drivers and compilers.
 *
 * A host that has its own memory and streams needs nothing of this header but kiln_device_open.
 *
 * Contexts. A launch or copy in a stream uses the context of that stream. With stream NULL it uses the current context
 * of the thread, and the primary context of the device where none is current. The other functions here use the primary
 * context. No function changes which context is current. NULL is the legacy default stream.
 *
 * Captures. Loading, unloading and allocating work while any thread captures a graph: Kiln relaxes its thread's capture
 * mode meanwhile. kiln_upload, kiln_download and kiln_sync are not for the stream that is being captured.
 *
 * Faults. After a fault in a kernel CUDA refuses all work of the process. Launches then fail with KILN_ELAUNCH and the
 * functions here with KILN_EDEVICE; everything can still be released, freed and closed. */
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

#include <kiln/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A GPU or the cpu. The service owns it and opens it once; it is valid until kiln_close. */
typedef struct kiln_device kiln_device;

typedef struct kiln_device_info {
    size_t size;
    const char *name;         /* "cuda:0" or "cpu" */
    const char *model;        /* the maker's name for it */
    const char *target;       /* "sm_90" or "cpu" */
    uint64_t memory_bytes;    /* total */
    uint64_t l2_bytes;        /* last-level cache; 0: unknown */
    uint32_t multiprocessors; /* or cores */
} kiln_device_info;

/* Opens a device: "cuda:1", "cpu"; NULL: the default device of the service. The GPUs end where "cuda:N" is
 * KILN_ENODEVICE. The first GPU initialises the driver and retains its primary context, about 200 ms.
 * Errors: KILN_EINVAL (not a device name), KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_device_open(kiln_device **out, kiln_service *service, const char *name,
                                                    kiln_report *report);

/* Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_device_get_info(const kiln_device *device, kiln_device_info *out);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Allocates device memory, aligned to 256 bytes. kiln_free gives it back; no launch may use it then.
 * Errors: KILN_ENOMEM, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_alloc(void **out, kiln_device *device, size_t bytes, kiln_report *report);
KILN_API void kiln_free(kiln_device *device, void *memory);

/* Copy bytes to the device and back, after the work in the default stream, and return when that is done. Work in other
 * streams is not waited for: a host with streams uses the copies of CUDA. On the cpu both sides are host memory.
 * Errors: KILN_EDEVICE. */
KILN_API kiln_status kiln_upload(kiln_device *device, void *to, const void *from, size_t bytes, kiln_report *report);
KILN_API kiln_status kiln_download(kiln_device *device, void *to, const void *from, size_t bytes, kiln_report *report);

/* Copies bytes within the device, queued in `stream` as a launch is. The two places must not overlap.
 * Errors: KILN_EOVERLAP, KILN_EDEVICE. */
KILN_API kiln_status kiln_copy(kiln_device *device, void *to, const void *from, size_t bytes, void *stream,
                               kiln_report *report);

/* Waits for all queued work of the device's context. Its error is that of the work. Errors: KILN_EDEVICE. */
KILN_API kiln_status kiln_sync(kiln_device *device, kiln_report *report);

/* ---- Doctor ------------------------------------------------------------------------------------------------------ */

typedef struct kiln_finding {
    size_t size;
    const char *what; /* "NVRTC", "CUDA driver", "GPU", "C compiler", "cpu", "cache", "pack", "shared" */
    int ok;           /* 1: found and usable */
    const char *name; /* "cuda:0", "libnvrtc" */
    const char *path; /* "": none, as the next three */
    const char *version;
    const char *detail; /* one line */
    const char *remedy; /* what to do */
} kiln_finding;

typedef int (*kiln_finding_fn)(void *data, const kiln_finding *finding);

/* Looks for all that Kiln can use and reports it in a fixed order; of packs and shared directory those that were named.
 * It opens the driver and the compilers, measures the
 * copy bandwidth of each device and reads every stored entry: about a second for a GPU. Errors: KILN_EINVAL,
 * KILN_ENOMEM. */
KILN_API kiln_status kiln_doctor(kiln_service *service, kiln_finding_fn fn, void *data);

#ifdef __cplusplus
}
#endif
#endif
