/* Backends, and their devices that are opened when they are first needed. */
#include "service/program.h"

#include "base/alloc.h"
#include "base/number.h"
#include "os/fork.h"
#include <limits.h>
#include <string.h>

static kiln__backend *(*const open_backend[KILN__BACKEND_END])(const char *driver, const kiln__log *log) = {
#define ROW(id, name, prefix, numbered, section, twin, words) kiln__##name##_open,
    KILN__BACKENDS(ROW)
#undef ROW
};

/* A device by its backend and its number there. */
typedef struct place {
    kiln__backend_id backend;
    int ordinal;
} place;

/* "cuda:2", "cuda" and "cpu". */
static bool parse_device(const char *name, place *out)
{
    uint64_t number = 0;
    for (int i = 0; i < KILN__BACKEND_END; i++) {
        const kiln__backend_facts *facts = kiln__backend_facts_of((kiln__backend_id)i);
        size_t length = strlen(facts->name);
        const char *rest = name + length;
        if (strncmp(name, facts->name, length) != 0)
            continue;
        if (*rest != '\0' && (!facts->numbered || *rest != ':' ||
                              !kiln__number_parse_uint(rest + 1, strlen(rest + 1), &number) || number > INT_MAX))
            return false;
        *out = (place){ (kiln__backend_id)i, (int)number };
        return true;
    }
    return false;
}

static kiln_status refuse_name(const char *name, kiln_report *report)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "unknown device '%.40s': cuda:0, cuda:1, ... or cpu",
                      name);
}

kiln_status kiln__runtime_open(kiln__runtime **out, const char *const drivers[KILN__BACKEND_END],
                               const char *default_name, const kiln__log *log, kiln_report *report)
{
    place ignored;
    bool whole = true;
    *out = NULL;
    if (default_name != NULL && !parse_device(default_name, &ignored))
        return refuse_name(default_name, report);
    kiln__runtime *runtime = kiln__calloc(1, sizeof(*runtime));
    if (runtime == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    atomic_init(&runtime->refs, 1);
    runtime->log = *log;
    pthread_mutex_init(&runtime->lock, NULL);
    for (int i = 0; i < KILN__BACKEND_END; i++) {
        runtime->backends[i] = open_backend[i](drivers[i], &runtime->log);
        whole = whole && runtime->backends[i] != NULL;
    }
    runtime->default_name = kiln__strdup(default_name);
    if (!whole || (default_name != NULL && runtime->default_name == NULL)) {
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

void kiln__runtime_release(kiln__runtime *runtime)
{
    if (runtime == NULL || atomic_fetch_sub_explicit(&runtime->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < KILN__BACKEND_END; i++) {
        for (int k = 0; k < KILN__DEVICES_MAX; k++)
            if (runtime->devices[i][k] != NULL)
                runtime->backends[i]->vtable->device_close(runtime->devices[i][k]);
        if (runtime->backends[i] != NULL)
            runtime->backends[i]->vtable->close(runtime->backends[i]);
    }
    pthread_mutex_destroy(&runtime->lock);
    kiln__free(runtime->default_name);
    kiln__free(runtime);
}

static _Atomic(kiln_device *) *slot_of(kiln__runtime *runtime, place at)
{
    return &runtime->devices[at.backend][at.ordinal];
}

/* With the lock held. The generation lets public functions refuse the device in a forked child. */
static kiln_status open_locked(kiln__runtime *runtime, place at, kiln_device **out, kiln_report *report)
{
    kiln__backend *backend = runtime->backends[at.backend];
    *out = at.ordinal < KILN__DEVICES_MAX ? atomic_load(slot_of(runtime, at)) : NULL;
    if (*out != NULL)
        return KILN_OK;
    kiln_status status = backend->vtable->device_open(backend, at.ordinal, out, report);
    if (status != KILN_OK)
        return status;
    (*out)->generation = kiln__fork_generation();
    atomic_store(slot_of(runtime, at), *out);
    return KILN_OK;
}

/* The first device of the first backend that has one. A driver that is there, or that the host named, and does not
 * work is a failure: on the next backend, the host would pass device pointers to kernels that expect host pointers. */
static kiln_status choose_place(kiln__runtime *runtime, place *out, kiln_report *report)
{
    kiln_report trouble = KILN_INIT(kiln_report);
    kiln_status status = KILN_OK;
    int count = 0;
    *out = (place){ KILN__BACKEND_END, 0 };
    if (runtime->default_name != NULL)
        parse_device(runtime->default_name, out);
    for (int i = 0; i < KILN__BACKEND_END && status == KILN_OK && out->backend == KILN__BACKEND_END; i++) {
        kiln__backend *backend = runtime->backends[i];
        status = backend->vtable->device_count(backend, &count, &trouble);
        if (status == KILN_OK && count > 0)
            out->backend = (kiln__backend_id)i;
        else if (status == KILN_ENODEVICE || (status == KILN_ENODRIVER && backend->vtable->lacks_driver(backend)))
            status = KILN_OK;
    }
    if (status != KILN_OK)
        kiln__report_move(report, &trouble);
    kiln_report_clear(&trouble);
    if (status == KILN_OK && out->backend == KILN__BACKEND_END)
        status = kiln__fail(report, KILN_ENODEVICE, KILN__STAGE_DEVICE, 0, "this machine has no device");
    return status;
}

/* The device if it was opened before, or NULL. A NULL name means the default device. */
static kiln_device *opened(kiln__runtime *runtime, const char *name, place at)
{
    if (name == NULL)
        return atomic_load(&runtime->chosen);
    return at.ordinal < KILN__DEVICES_MAX ? atomic_load(slot_of(runtime, at)) : NULL;
}

kiln_status kiln__runtime_device(kiln__runtime *runtime, const char *name, kiln_device **out, kiln_report *report)
{
    place at = { 0 };
    *out = NULL;
    if (name != NULL && !parse_device(name, &at))
        return refuse_name(name, report);
    *out = opened(runtime, name, at);
    if (*out != NULL)
        return KILN_OK;
    pthread_mutex_lock(&runtime->lock);
    kiln_status status = name != NULL ? KILN_OK : choose_place(runtime, &at, report);
    if (status == KILN_OK)
        status = open_locked(runtime, at, out, report);
    if (status == KILN_OK && name == NULL)
        atomic_store(&runtime->chosen, *out);
    pthread_mutex_unlock(&runtime->lock);
    return status;
}

bool kiln__runtime_has_device(kiln__runtime *runtime, const char *name, kiln_device **out)
{
    place at = { 0 };
    *out = name == NULL || parse_device(name, &at) ? opened(runtime, name, at) : NULL;
    return *out != NULL;
}
