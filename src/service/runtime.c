#include "service/runtime.h"

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "base/number.h"
#include "os/fork.h"
#include <limits.h>
#include <string.h>

enum { CPU_ORDINAL = -1 };

/* "cuda:2" is 2, "cpu" is CPU_ORDINAL. */
static bool parse_device(const char *name, int *ordinal)
{
    uint64_t number;
    if (strcmp(name, "cpu") == 0) {
        *ordinal = CPU_ORDINAL;
        return true;
    }
    if (strcmp(name, "cuda") == 0) {
        *ordinal = 0;
        return true;
    }
    if (strncmp(name, "cuda:", 5) != 0 || !kiln__number_parse_uint(name + 5, strlen(name + 5), &number) ||
        number > INT_MAX)
        return false;
    *ordinal = (int)number;
    return true;
}

static kiln_status refuse_name(const char *name, kiln_report *report)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "unknown device '%.40s': cuda:0, cuda:1, ... or cpu",
                      name);
}

kiln_status kiln__runtime_open(kiln__runtime **out, const char *libcuda, const char *default_name, const kiln__log *log,
                               kiln_report *report)
{
    int ordinal;
    *out = NULL;
    if (default_name != NULL && !parse_device(default_name, &ordinal))
        return refuse_name(default_name, report);
    kiln__runtime *runtime = kiln__calloc(1, sizeof(*runtime));
    if (runtime == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    atomic_init(&runtime->refs, 1);
    runtime->log = *log;
    pthread_mutex_init(&runtime->lock, NULL);
    runtime->cuda = kiln__cuda_open(libcuda, &runtime->log);
    runtime->cpu = kiln__cpu_open(&runtime->log);
    runtime->default_name = kiln__strdup(default_name);
    runtime->driver_named = libcuda != NULL;
    if (runtime->cuda == NULL || runtime->cpu == NULL || (default_name != NULL && runtime->default_name == NULL)) {
        kiln__runtime_release(runtime);
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    }
    *out = runtime;
    return KILN_OK;
}

kiln__runtime *kiln__runtime_retain(kiln__runtime *runtime)
{
    atomic_fetch_add_explicit(&runtime->refs, 1, memory_order_relaxed);
    return runtime;
}

static void close_device(kiln_device *device)
{
    if (device != NULL)
        device->backend->vtable->device_close(device);
}

void kiln__runtime_release(kiln__runtime *runtime)
{
    if (runtime == NULL || atomic_fetch_sub_explicit(&runtime->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < KILN__DEVICES_MAX; i++)
        close_device(runtime->gpus[i]);
    close_device(runtime->cpu_device);
    if (runtime->cuda != NULL)
        runtime->cuda->vtable->close(runtime->cuda);
    if (runtime->cpu != NULL)
        runtime->cpu->vtable->close(runtime->cpu);
    pthread_mutex_destroy(&runtime->lock);
    kiln__free(runtime->default_name);
    kiln__free(runtime);
}

static _Atomic(kiln_device *) *slot_of(kiln__runtime *runtime, int ordinal)
{
    return ordinal == CPU_ORDINAL ? &runtime->cpu_device : &runtime->gpus[ordinal];
}

static kiln_status open_locked(kiln__runtime *runtime, int ordinal, kiln_device **out, kiln_report *report)
{
    bool is_cpu = ordinal == CPU_ORDINAL;
    kiln__backend *backend = is_cpu ? runtime->cpu : runtime->cuda;
    *out = ordinal < KILN__DEVICES_MAX ? atomic_load(slot_of(runtime, ordinal)) : NULL;
    if (*out != NULL)
        return KILN_OK;
    kiln_status status = backend->vtable->device_open(backend, is_cpu ? 0 : ordinal, out, report);
    if (status != KILN_OK)
        return status;
    (*out)->generation = kiln__fork_generation();
    atomic_store(slot_of(runtime, ordinal), *out);
    return KILN_OK;
}

/* The first GPU if there is one, else the cpu. A driver that is there, or that the host named, and does not work is not
 * passed over: the host would launch on device pointers where host pointers are expected. */
static kiln_status choose_ordinal(kiln__runtime *runtime, int *ordinal, kiln_report *report)
{
    kiln_report trouble = KILN_INIT(kiln_report);
    const char *path = "";
    int count = 0, version = 0;
    *ordinal = CPU_ORDINAL;
    if (runtime->default_name != NULL) {
        parse_device(runtime->default_name, ordinal);
        return KILN_OK;
    }
    kiln_status status = runtime->cuda->vtable->device_count(runtime->cuda, &count, &trouble);
    kiln__cuda_driver_facts(runtime->cuda, &path, &version);
    if (status == KILN_OK && count > 0)
        *ordinal = 0;
    else if (status == KILN_ENODEVICE || (status == KILN_ENODRIVER && path[0] == '\0' && !runtime->driver_named))
        status = KILN_OK;
    else if (status != KILN_OK)
        kiln__report_move(report, &trouble);
    kiln_report_clear(&trouble);
    return status;
}

static kiln_status open_default(kiln__runtime *runtime, kiln_device **out, kiln_report *report)
{
    int ordinal;
    kiln_status status = choose_ordinal(runtime, &ordinal, report);
    if (status == KILN_OK)
        status = open_locked(runtime, ordinal, out, report);
    if (status == KILN_OK)
        atomic_store(&runtime->chosen, *out);
    return status;
}

/* What was opened before, or NULL. A NULL name means the default device. */
static kiln_device *opened(kiln__runtime *runtime, const char *name, int ordinal)
{
    if (name == NULL)
        return atomic_load(&runtime->chosen);
    return ordinal < KILN__DEVICES_MAX ? atomic_load(slot_of(runtime, ordinal)) : NULL;
}

kiln_status kiln__runtime_device(kiln__runtime *runtime, const char *name, kiln_device **out, kiln_report *report)
{
    int ordinal = 0;
    *out = NULL;
    if (name != NULL && !parse_device(name, &ordinal))
        return refuse_name(name, report);
    *out = opened(runtime, name, ordinal);
    if (*out != NULL)
        return KILN_OK;
    pthread_mutex_lock(&runtime->lock);
    kiln_status status = name != NULL ? open_locked(runtime, ordinal, out, report) : open_default(runtime, out, report);
    pthread_mutex_unlock(&runtime->lock);
    return status;
}

bool kiln__runtime_owns(const kiln__runtime *runtime, const kiln_device *device)
{
    return device->backend == runtime->cuda || device->backend == runtime->cpu;
}

bool kiln__runtime_has_device(kiln__runtime *runtime, const char *name, kiln_device **out)
{
    int ordinal = 0;
    *out = name == NULL || parse_device(name, &ordinal) ? opened(runtime, name, ordinal) : NULL;
    return *out != NULL;
}
