/* The service: one object that owns catalogue, stores, compilers, devices and loaded kernels. */
#ifndef KILN_SERVICE_SERVICE_H
#define KILN_SERVICE_SERVICE_H

#include "base/list.h"
#include "compile/compiler.h"
#include "service/artifact.h"
#include "service/flight.h"
#include "service/geometry.h"
#include "service/kernel.h"
#include "service/loaded.h"
#include "service/record.h"
#include "service/table.h"
#include "store/disk.h"
#include "template/spec.h"
#include "wisdom/wisdom.h"

typedef struct kiln__named_store kiln__named_store; /* service/stores.h */

struct kiln_service {
    unsigned generation; /* os/fork.h */
    kiln__log log;
    kiln__catalog catalog;
    pthread_mutex_t define_lock; /* held while something is added to the catalog; readers need no lock */
    kiln__store_counters store_counters;
    kiln__tiers tiers;
    kiln__store *disk;                    /* also in tiers; NULL if there is none */
    kiln_origin origins[KILN__TIERS_MAX]; /* of the tiers */
    kiln__named_store *named;             /* packs and the shared directory */
    char *cache_dir;                      /* "" if there is none */
    char *warm_options;                   /* what follows the spec in a kiln warm line that strict mode names */
    char cache_problem[256];              /* why there is none, "" if it was not wanted */
    kiln__builder builders[KILN__BACKEND_END];
    kiln__compiler *workers; /* of CUDA text, which may be compiled in other processes; NULL until it is open */
    kiln_isolate isolate;    /* where that compiles */
    kiln__record *record;    /* NULL if there is none */
    kiln__wisdom *wisdom;
    bool wise; /* wisdom is asked; else it only learns */
    kiln__runtime *runtime;
    kiln__kernel_table kernels;
    kiln__loaded_table programs; /* of users' own sources */
    pthread_mutex_t native_lock;
    struct {
        atomic_bool known;
        kiln__target target;      /* constant once known */
    } natives[KILN__DEVICES_MAX]; /* what to compile for on each GPU where a spec leaves the target open */
    atomic_uint_least64_t gets, hits_loaded, hits_memory, hits_disk, loads, ptx_loads;
    atomic_uint_least64_t hits_pack, hits_shared, cancelled, timed_out;
    atomic_uint_least64_t misses[KILN__MISSES]; /* of gets and builds, by reason */
    atomic_uint_least64_t refused, load_ns;
    kiln__hostlock hostlock;
    kiln__workpool pool;
    kiln__workpool tunings; /* one after the other: they would disturb each other */
    atomic_bool closing;    /* what runs in it is to end */
    kiln__flights flights;
    pthread_mutex_t queues_lock;
    kiln_queue *queues; /* those that were opened and not yet closed; guarded by queues_lock */
};

/* The service whose catalog a spec borrows. */
static inline kiln_service *kiln__service_of(const kiln_spec *spec)
{
    return (kiln_service *)((uintptr_t)spec->fields.catalog - offsetof(kiln_service, catalog));
}

/* `on` is the device asked for here and below, NULL for the default one. With `strict` nothing is compiled, whatever the service
 * does. The errors of the gets and of the build are those of kiln_get. */
kiln_status kiln__service_open(kiln_service **out, const kiln_options *options, kiln_report *report);
void kiln__service_close(kiln_service *service);
kiln_status kiln__service_get(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool strict,
                              kiln_kernel **out, kiln_report *report);

/* As kiln__service_get, and leaves no trace but in the stores and the statistics: it is not recorded, no later get finds the
 * kernel, and its last reference unloads it. One that is loaded already is given all the same. */
kiln_status kiln__service_get_unlisted(kiln_service *service, kiln_device *on, const kiln__fields *spec,
                                       kiln_kernel **out, kiln_report *report);
kiln_status kiln__service_build(kiln_service *service, kiln_device *on, const kiln__fields *spec, bool strict,
                                kiln__artifact **out, kiln_report *report);
void kiln__service_stats(const kiln_service *service, kiln_stats *out);

/* The kernel that kiln_call launches for a text that it was given before, with a new reference, or NULL. Parses nothing. */
kiln_kernel *kiln__service_called(kiln_service *service, const char *text);

/* The same for any text, with a new reference: the kernel is got, and the text means it from now on. With `refuse` a kernel
 * that is not loaded is refused while the stream is captured. */
kiln_status kiln__service_call(kiln_service *service, const char *text, bool refuse, void *stream, kiln_kernel **out,
                               kiln_report *report);

/* KILN_EINVAL unless the device is this service's, or NULL. */
kiln_status kiln__service_check_device(const kiln_service *service, const kiln_device *on, kiln_report *report);

/* KILN_ETARGET unless kernels for the target are of the device's kind. */
kiln_status kiln__service_check_target(const kiln_device *on, const kiln__target *target, kiln_report *report);

/* What a get wants, once device and target are known. */
typedef struct kiln__want {
    kiln_device *asked_on; /* as the caller named it */
    kiln__geometry_basis basis;
    kiln_device *device;
    bool strict;       /* nothing is compiled for it */
    bool unlisted;     /* leaves no trace: see kiln__service_get_unlisted */
    bool unasked;      /* nobody asked for it in these words: kiln__service_hit is not to find it by them */
    char *key;         /* names its flight */
    const char *name;  /* names its kernel, the device and the canonical spec behind it; in `key` */
    kiln__miss miss;   /* what kiln__service_take found wrong with what is stored */
    kiln_spec *asked;  /* as the caller wrote it */
    kiln__fields spec; /* every field set; its op is that of `asked` */
} kiln__want;

/* The kernel if it was asked for like this before, and so recorded, and is loaded, with a new reference, else NULL. Counts the
 * hit. Without `look` it reads no file: NULL also where it would be time to look what is known of geometry. */
kiln_kernel *kiln__service_hit(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool look);

/* Finds out what is wanted, and records it unless it is unlisted; may open a driver and a compiler. kiln__want_fini also
 * after a failure. */
kiln_status kiln__service_want(kiln_service *service, kiln_device *on, const kiln_spec *asked, bool unlisted,
                               kiln__want *out, kiln_report *report);
void kiln__want_fini(kiln__want *want);

/* Whether kiln__service_want would return at once: nothing that it needs has still to be opened, and there is no
 * record. */
bool kiln__service_is_ready(kiln_service *service, kiln_device *on, const kiln__fields *spec);

/* The kernel if it is already loaded, with a new reference, else NULL. Counts the hit. */
kiln_kernel *kiln__service_loaded(kiln_service *service, const kiln__want *want);

/* Fills *out with the kernel if it is loaded or in a store, or with what is wrong with the spec. False if it must be
 * compiled, *out then being empty. */
bool kiln__service_take(kiln_service *service, kiln__want *want, kiln__outcome *out);

/* Fills *out with the kernel, wherever it has to come from, or with the failure. */
void kiln__service_make(kiln_service *service, const kiln__want *want, kiln__outcome *out);

/* Adds a spec to the record of requests, if there is one. Called before anything is compiled: what strict mode refuses is
 * recorded too. */
void kiln__service_record(kiln_service *service, const kiln__fields *spec);

/* What a spec is compiled for: its own target, else the best for the device. The default device is looked for only when the
 * spec leaves the target open, so that building for a named target touches no driver; *device, if that is NULL, gets it. */
kiln_status kiln__service_target(kiln_service *service, kiln_device **device, const kiln__fields *spec,
                                 kiln__target *out, kiln_report *report);

/* Fills the open fields: what is open of the geometry from wisdom, what is open then with the template's defaults. */
kiln_status kiln__service_resolve(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__fields *out,
                                  kiln_report *report);

/* The unit of a spec, its open fields chosen as a get on the device chooses them. The target may be of another kind than the
 * device. */
kiln_status kiln__service_unit(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__unit **out,
                               kiln_report *report);

/* The compiler that builds for a target. */
kiln__builder *kiln__service_builder(kiln_service *service, const kiln__target *target);

#endif
