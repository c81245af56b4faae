/* Devices, their memory, and a diagnosis of drivers and compilers. A host with its own memory and streams needs only
 * kiln_device_open.
 *
 * Contexts. A launch or copy in a stream uses the stream's context. Stream NULL is the legacy default stream, of the
 * thread's current context or else of the device's primary one. The other functions here use the primary context. No
 * function changes which context is current.
 *
 * Captures. Loading, unloading and allocating work while any thread captures a graph: Kiln relaxes its thread's capture
 * mode meanwhile. kiln_upload, kiln_download and kiln_sync must not be called for a stream that is being captured.
 *
 * Faults. After a fault in a kernel CUDA refuses all work of the process. Launches then fail with KILN_ELAUNCH and the
 * functions here with KILN_EDEVICE. All objects can still be released, freed and closed. */
#ifndef KILN_DEVICE_H
#define KILN_DEVICE_H

#include <kiln/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A GPU or the cpu. The service owns it, opens it once and closes it in kiln_close. */
typedef struct kiln_device kiln_device;

typedef struct kiln_device_info {
    size_t size;
    const char *name;         /* "cuda:0" or "cpu" */
    const char *model;        /* as its maker names it */
    const char *target;       /* "sm_90" or "cpu" */
    uint64_t memory_bytes;    /* in all */
    uint64_t l2_bytes;        /* of the last-level cache; 0: unknown */
    uint32_t multiprocessors; /* or cores */
    uint64_t free_bytes;      /* of the memory, that can be taken now; 0: unknown */
} kiln_device_info;

/* Opens a device: "cuda:1", "cpu"; NULL: the default device of the service. A host counts GPUs by opening "cuda:0",
 * "cuda:1", ... up to KILN_ENODEVICE. Blocks about 200 ms for the first GPU, which initialises the driver and retains
 * its primary context.
 * Errors: KILN_EINVAL (no device name), KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_device_open(kiln_device **out, kiln_service *service, const char *name,
                                                    kiln_report *report);

/* Fills *out. Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_device_get_info(const kiln_device *device, kiln_device_info *out);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Allocates device memory, aligned to 256 bytes. The caller frees it with kiln_free, when no launch uses it any more.
 * Errors: KILN_ENOMEM, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_alloc(void **out, kiln_device *device, size_t bytes, kiln_report *report);
KILN_API void kiln_free(kiln_device *device, void *memory);

/* Copy bytes to the device and back, after the work in the default stream. Block until the copy is done. They do not
 * wait for other streams: a host with streams uses the copies of CUDA. On the cpu both sides are host memory.
 * Errors: KILN_EDEVICE. */
KILN_API kiln_status kiln_upload(kiln_device *device, void *to, const void *from, size_t bytes, kiln_report *report);
KILN_API kiln_status kiln_download(kiln_device *device, void *to, const void *from, size_t bytes, kiln_report *report);

/* Copies bytes within the device, queued in `stream` as a launch is. Errors: KILN_EOVERLAP (the two places overlap),
 * KILN_EDEVICE. */
KILN_API kiln_status kiln_copy(kiln_device *device, void *to, const void *from, size_t bytes, void *stream,
                               kiln_report *report);

/* Blocks until the work of the device's primary context and of the thread's current context is done.
 * Errors: KILN_EDEVICE, also for a failure of that work. */
KILN_API kiln_status kiln_sync(kiln_device *device, kiln_report *report);

/* ---- Doctor ------------------------------------------------------------------------------------------------------ */

typedef struct kiln_finding {
    size_t size;
    const char *what; /* "NVRTC", "compile worker", "CUDA driver", "GPU", "C compiler", "cpu", "cache", "pack",
                         "shared" or "remote" */
    int ok;           /* 1: found and usable */
    const char *name; /* "cuda:0", "libnvrtc" */
    const char *path; /* "": none, as in the next three */
    const char *version;
    const char *detail; /* one line */
    const char *remedy;
} kiln_finding;

typedef int (*kiln_finding_fn)(void *data, const kiln_finding *finding);

/* Examines everything that Kiln can use and calls `fn` with each finding, in the order of kiln_finding.what. Opens the
 * driver and the compilers, measures the copy bandwidth of each device and reads every stored entry. Blocks for about a
 * second with a GPU. Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_doctor(kiln_service *service, kiln_finding_fn fn, void *data);

#ifdef __cplusplus
}
#endif
#endif
