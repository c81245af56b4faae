/* The service: one object that owns catalogue, stores, compilers, devices and loaded kernels. */
#ifndef KILN_SERVICE_SERVICE_H
#define KILN_SERVICE_SERVICE_H

#include "base/list.h"
#include "jit/compiler.h"
#include "service/flight.h"
#include "service/geometry.h"
#include "service/record.h"
#include "service/table.h"
#include "service/want.h"
#include "spec/spec.h"
#include "store/disk.h"
#include "wisdom/wisdom.h"

/* A pack or the shared directory, as the host named it. */
typedef struct kiln__named_store {
    struct kiln__named_store *next; /* in the order in which they are asked */
    kiln_origin origin;
    kiln__store *store; /* one of the tiers; NULL: it is not used, for `problem` */
    char problem[256];
    char path[];
} kiln__named_store;

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
    kiln__program_table programs;
    pthread_mutex_t native_lock;
    struct {
        atomic_bool known;
        kiln__target target;      /* constant once known */
    } natives[KILN__DEVICES_MAX]; /* what to compile for on each GPU where a spec leaves the target open */
    atomic_uint_least64_t gets, hits_loaded, loads, ptx_loads, cancelled, timed_out;
    atomic_uint_least64_t hits[KILN__ORIGINS];  /* of gets and builds, by where their entries came from */
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

/* Completes the options, which lie in the caller's copy of them. KILN_EINVAL, KILN_ENOMEM. */
kiln_status kiln__service_open(kiln_service **out, kiln_options *options, kiln_report *report);
void kiln__service_close(kiln_service *service);
void kiln__service_stats(const kiln_service *service, kiln_stats *out);

/* Fills what the host left open, from the environment or with the defaults; the environment is not read where the
 * process runs with raised rights. Strings are the host's, the environment's or *directory, which the caller frees.
 * cache_dir becomes "" where nothing shall be or can be kept. KILN_EINVAL, KILN_ENOMEM. */
kiln_status kiln__options_complete(kiln_options *options, char **directory, kiln_report *report);

/* Adds a tier, asked after those that there are, and takes it over. NULL is allowed. Before the first request. */
void kiln__stores_add(kiln_service *service, kiln__store *store, kiln_origin origin);

/* KILN_EINVAL unless the device is this service's, or NULL. */
kiln_status kiln__service_check_device(const kiln_service *service, const kiln_device *on, kiln_report *report);

/* KILN_ETARGET unless kernels for the target are of the device's kind. */
kiln_status kiln__service_check_target(const kiln_device *on, const kiln__target *target, kiln_report *report);

/* The device that a get loads on. Wisdom about it counts, even if the device was not open. `on` is the device asked
 * for here and below, NULL for the default one. */
kiln_status kiln__service_find_device(kiln_service *service, kiln_device *on, const kiln__fields *spec,
                                      kiln_device **out, kiln_report *report);

/* Whether kiln__want_settle would return at once: nothing that it needs has still to be opened, and there is no
 * record. */
bool kiln__service_is_ready(kiln_service *service, kiln_device *on, const kiln__fields *spec);

/* Adds a spec to the record of requests, if there is one. Called before anything is compiled: what strict mode
 * refuses is recorded too. */
void kiln__service_record(kiln_service *service, const kiln__fields *spec);

/* What a spec is compiled for: its own target, else the best for the device. The default device is looked for only
 * when the spec leaves the target open, so that building for a named target touches no driver; *device, if that is
 * NULL, gets it. */
kiln_status kiln__service_target(kiln_service *service, kiln_device **device, const kiln__fields *spec,
                                 kiln__target *out, kiln_report *report);

/* Fills the open fields: what is open of the geometry from wisdom, what is open then with the template's defaults. */
kiln_status kiln__service_resolve(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__fields *out,
                                  kiln_report *report);

/* The unit of a spec, its open fields chosen as a get on the device chooses them. The target may be of another kind
 * than the device. */
kiln_status kiln__service_unit(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__unit **out,
                               kiln_report *report);

/* The compiler that builds for a target. */
kiln__builder *kiln__service_builder(kiln_service *service, const kiln__target *target);

/* ---- define.c. The contracts are those of the public functions of like name. */

/* The record gets the definition before any request can use it. */
kiln_status kiln__service_define_op(kiln_service *service, const char *definition, kiln_report *report);

/* `origin` is what lists show: the template's path, or "defined". */
kiln_status kiln__service_define_template(kiln_service *service, const char *text, const char *cpu_text,
                                          const char *origin, const char **name, kiln_report *report);
kiln_status kiln__service_load_template(kiln_service *service, const char *path, const char **name,
                                        kiln_report *report);

/* ---- doctor.c */

/* Examines what the service uses, until fn returns non-zero: the contract is kiln_doctor's. */
void kiln__doctor(kiln_service *service, kiln_finding_fn fn, void *data);

#endif
