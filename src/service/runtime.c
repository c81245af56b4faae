#include "service/runtime.h"

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "base/number.h"
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
        number >= KILN__DEVICES_MAX)
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

static kiln_status open_locked(kiln__runtime *runtime, int ordinal, kiln_device **out, kiln_report *report)
{
    bool is_cpu = ordinal == CPU_ORDINAL;
    kiln_device **slot = is_cpu ? &runtime->cpu_device : &runtime->gpus[ordinal];
    kiln_status status = KILN_OK;
    if (*slot == NULL) {
        kiln__backend *backend = is_cpu ? runtime->cpu : runtime->cuda;
        status = backend->vtable->device_open(backend, is_cpu ? 0 : ordinal, slot, report);
    }
    *out = *slot;
    return status;
}

/* The first GPU if there is a driver that shows one, else the cpu. A driver that is there but does not work is not
 * passed over in silence: the host asked for the fastest device and should hear why it does not get it. */
static kiln_status open_default(kiln__runtime *runtime, kiln_device **out, kiln_report *report)
{
    int ordinal = CPU_ORDINAL, count = 0;
    if (runtime->default_name != NULL) {
        parse_device(runtime->default_name, &ordinal);
    } else {
        kiln_status status = runtime->cuda->vtable->device_count(runtime->cuda, &count, report);
        if (status == KILN_OK && count > 0)
            ordinal = 0;
        else if (status != KILN_OK && status != KILN_ENODRIVER && status != KILN_ENODEVICE)
            return status;
        else
            kiln_report_clear(report);
    }
    kiln_status status = open_locked(runtime, ordinal, out, report);
    if (status == KILN_OK)
        runtime->chosen = *out;
    return status;
}

kiln_status kiln__runtime_device(kiln__runtime *runtime, const char *name, kiln_device **out, kiln_report *report)
{
    int ordinal = 0;
    *out = NULL;
    if (name != NULL && !parse_device(name, &ordinal))
        return refuse_name(name, report);
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&runtime->lock);
    if (name != NULL)
        status = open_locked(runtime, ordinal, out, report);
    else if (runtime->chosen != NULL)
        *out = runtime->chosen;
    else
        status = open_default(runtime, out, report);
    pthread_mutex_unlock(&runtime->lock);
    return status;
}

bool kiln__runtime_has_device(kiln__runtime *runtime, const char *name, kiln_device **out)
{
    int ordinal = 0;
    *out = NULL;
    if ((name != NULL && !parse_device(name, &ordinal)) || pthread_mutex_trylock(&runtime->lock) != 0)
        return false;
    if (name == NULL)
        *out = runtime->chosen;
    else
        *out = ordinal == CPU_ORDINAL ? runtime->cpu_device : runtime->gpus[ordinal];
    pthread_mutex_unlock(&runtime->lock);
    return *out != NULL;
}
