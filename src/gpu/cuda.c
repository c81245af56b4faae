#include "gpu/cuda.h"

#include "base/alloc.h"
#include "gpu/device.h"
#include "gpu/launch.h"
#include "gpu/module.h"
#include "gpu/tape.h"
#include "gpu/timing.h"

typedef struct cuda_backend {
    kiln__backend backend;
    const kiln__log *log;
    char *libcuda; /* NULL: the loader's choice */
    pthread_mutex_t lock;
    kiln__driver *driver; /* NULL until opened, under the lock; constant from then on */
} cuda_backend;

/* A driver that could not be opened is tried again by the next call: it may have been installed meanwhile, and looking
 * for a library that is not there costs microseconds. */
static kiln_status driver_of(cuda_backend *cuda, const kiln__driver **out, kiln_report *report)
{
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&cuda->lock);
    if (cuda->driver == NULL) {
        status = kiln__driver_open(&cuda->driver, cuda->libcuda, report);
        if (status == KILN_OK)
            kiln__log_line(cuda->log, KILN_LOG_INFO, "CUDA driver %s, for CUDA %d.%d", cuda->driver->path,
                           cuda->driver->version / 1000, cuda->driver->version % 1000 / 10);
    }
    *out = cuda->driver;
    pthread_mutex_unlock(&cuda->lock);
    return status;
}

static kiln_status device_count(kiln__backend *backend, int *out, kiln_report *report)
{
    const kiln__driver *driver;
    *out = 0;
    kiln_status status = driver_of((cuda_backend *)backend, &driver, report);
    return status == KILN_OK ? kiln__cuda_device_count(driver, out, report) : status;
}

static kiln_status device_open(kiln__backend *backend, int ordinal, kiln_device **out, kiln_report *report)
{
    const kiln__driver *driver;
    *out = NULL;
    kiln_status status = driver_of((cuda_backend *)backend, &driver, report);
    return status == KILN_OK ? kiln__cuda_device_open(backend, driver, ordinal, out, report) : status;
}

static bool lacks_driver(kiln__backend *backend)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    pthread_mutex_lock(&cuda->lock);
    bool lacks = cuda->driver == NULL && cuda->libcuda == NULL;
    pthread_mutex_unlock(&cuda->lock);
    return lacks;
}

static void close_backend(kiln__backend *backend)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    if (cuda == NULL)
        return;
    kiln__driver_free(cuda->driver);
    pthread_mutex_destroy(&cuda->lock);
    kiln__free(cuda->libcuda);
    kiln__free(cuda);
}

static const kiln__backend_vtable vtable = {
    .name = "cuda",
    .cores = "multiprocessors",
    .usual_elements = 1 << 26,
    .copy_bytes = 1 << 30,
    .device_count = device_count,
    .lacks_driver = lacks_driver,
    .device_open = device_open,
    .device_close = kiln__cuda_device_close,
    .device_info = kiln__cuda_device_info,
    .load = kiln__cuda_load,
    .unload = kiln__cuda_unload,
    .launch = kiln__cuda_launch,
    .capturing = kiln__cuda_capturing,
    .resources = kiln__cuda_resources,
    .functions = &kiln__cuda_functions,
    .alloc = kiln__cuda_alloc,
    .free = kiln__cuda_free,
    .copy = kiln__cuda_copy,
    .sync = kiln__cuda_sync,
    .time = kiln__cuda_time,
    .tapes = &kiln__cuda_tapes,
    .close = close_backend,
};

kiln__backend *kiln__cuda_open(const char *libcuda, const kiln__log *log)
{
    cuda_backend *cuda = kiln__calloc(1, sizeof(*cuda));
    if (cuda == NULL)
        return NULL;
    cuda->backend.vtable = &vtable;
    cuda->log = log;
    cuda->libcuda = kiln__strdup(libcuda);
    if (libcuda != NULL && cuda->libcuda == NULL) {
        kiln__free(cuda);
        return NULL;
    }
    pthread_mutex_init(&cuda->lock, NULL);
    return &cuda->backend;
}

void kiln__cuda_driver_facts(const kiln__backend *backend, const char **path, int *version)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    pthread_mutex_lock(&cuda->lock);
    *path = cuda->driver != NULL ? cuda->driver->path : "";
    *version = cuda->driver != NULL ? cuda->driver->version : 0;
    pthread_mutex_unlock(&cuda->lock);
}
