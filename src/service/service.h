/* The service: one object that owns catalogue, stores, compilers, devices and loaded kernels. */
#ifndef KILN_SERVICE_SERVICE_H
#define KILN_SERVICE_SERVICE_H

#include "jit/builder.h"
#include "jit/daemon/client.h"
#include "service/apply.h"
#include "service/record.h"
#include "service/table.h"
#include "service/workpool.h"
#include "source/source.h"
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
    kiln__tiers tiers, local;             /* local: without the remote; borrows the others */
    char remote_problem[256];             /* why the remote that is named is not used */
    kiln__store *disk;                    /* also in tiers; NULL if there is none */
    kiln_origin origins[KILN__TIERS_MAX]; /* of the tiers */
    kiln__named_store *named;             /* packs and the shared directory */
    kiln__daemon *daemon;                 /* NULL: none is asked */
    char *cache_dir;                      /* "" if there is none */
    char *warm_options;                   /* the end of the kiln warm line that strict mode names */
    char cache_problem[256];              /* why there is none */
    kiln__builder builders[KILN__BACKEND_END];
    kiln__compiler *workers; /* the compiler of CUDA text; NULL until it is open */
    kiln_isolate isolate;    /* the process in which it compiles */
    kiln__record *record;    /* NULL if there is none */
    kiln__wisdom *wisdom;
    bool wise; /* wisdom is asked; else it only learns */
    kiln__runtime *runtime;
    kiln__program_table programs;
    kiln__apply_table applied;
    pthread_mutex_t native_lock;
    struct {
        atomic_bool known;
        kiln__target target;      /* constant once known */
    } natives[KILN__DEVICES_MAX]; /* the targets of specs that leave them open, for each GPU */
    atomic_uint_least64_t gets, hits_loaded, loads, ptx_loads, cancelled, timed_out;
    atomic_uint_least64_t hits[KILN__ORIGINS];  /* of gets and builds, by the origin of their entries */
    atomic_uint_least64_t misses[KILN__MISSES]; /* of gets and builds, by reason */
    atomic_uint_least64_t refused, load_ns;
    kiln__keylock keylock;
    kiln__workpool pool;
    kiln__workpool tunings; /* one after the other: they would disturb each other */
    atomic_bool closing;    /* running tunings are to end */
    pthread_mutex_t flights_lock;
    struct kiln__flight
        *flights; /* by the id of their wants; guarded by flights_lock. A source's flight is unlisted once it
                                     runs, and the latest is found */
    atomic_uint_least64_t joined;
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

/* Fills the options that the host left open, from the environment or with the defaults. A process with raised
 * rights does not read the environment. Strings are the host's, the environment's or *directory, which the caller
 * frees. cache_dir becomes "" if no store is wanted or can be had. KILN_EINVAL, KILN_ENOMEM. */
kiln_status kiln__options_complete(kiln_options *options, char **directory, kiln_report *report);

/* The path of the daemon's socket by complete options, "" for none. The caller frees it; NULL: out of memory. */
char *kiln__options_socket(const kiln_options *options);

/* Why the environment names no directory for the user's store, in words. */
const char *kiln__options_no_cache(void);

/* KILN_ENOENT with the reason if the service has no user's store. */
kiln_status kiln__service_need_disk(const kiln_service *service, kiln_report *report);

/* KILN_ENOENT with the reason if the service has no remote. */
kiln_status kiln__service_need_remote(const kiln_service *service, kiln_report *report);

/* Adds a tier, which is asked last, and takes it over. NULL is allowed. Before the first request. */
void kiln__stores_add(kiln_service *service, kiln__store *store, kiln_origin origin);

/* The compiler that builds for a target. */
static inline kiln__builder *kiln__service_builder(kiln_service *service, const kiln__target *target)
{
    return &service->builders[target->backend];
}

/* ---- headers.c: what the text of a unit may include */

/* KILN_EINVAL: a directory cannot be used. */
kiln_status kiln__fail_directory(const char *directory, int error, kiln_report *report);

/* Adds a directory as a place. A relative one starts from `from`, where that is not NULL. KILN_EINVAL. */
kiln_status kiln__places_add(kiln__list *places, const char *place, const char *from, const char *directory,
                             kiln_report *report);

/* Adds the places of CUDA's headers. */
void kiln__places_add_cuda(kiln_service *service, kiln__unit *unit);

/* KILN_EINVAL for what only a worker may compile, where there is none. */
kiln_status kiln__check_unwatched(const kiln__unit *unit, kiln_report *report);

/* Gives the unit of a user's template its places or, where it is of a cpu twin, the headers beside the file, whose
 * contents are then in its key. Reads files. KILN_EINVAL, KILN_EIO, KILN_ENOMEM. */
kiln_status kiln__unit_add_headers(kiln_service *service, kiln__unit *unit, kiln_report *report);

/* ---- want.c: the device, target and geometry of a request. `on` is the device asked for, NULL for the default
 * one. Any thread. */

/* KILN_EINVAL unless the device is this service's, or NULL. */
kiln_status kiln__service_check_device(const kiln_service *service, const kiln_device *on, kiln_report *report);

/* KILN_ETARGET unless kernels for the target are of the device's kind. */
kiln_status kiln__service_check_target(const kiln_device *on, const kiln__target *target, kiln_report *report);

/* Gives the device on which a spec is loaded: `on`, or if it is NULL that of the spec's target, or else the default
 * one. Wisdom about it counts, even if the device was not open. KILN_ETARGET if `on` cannot run the target,
 * KILN_ENODEVICE if the default device cannot. */
kiln_status kiln__service_find_device(kiln_service *service, kiln_device *on, const kiln__fields *spec,
                                      kiln_device **out, kiln_report *report);

/* Whether kiln__want_settle would return at once: all that it needs is open, and there is no record. */
bool kiln__service_is_ready(kiln_service *service, kiln_device *on, const kiln__fields *spec);

/* The target of a spec: the one that it names, else the best for the device. The default device is looked for only
 * when the spec leaves the target open, so that building for a named target touches no driver. *device, if that is
 * NULL, becomes the default one. */
kiln_status kiln__service_target(kiln_service *service, kiln_device **device, const kiln__fields *spec,
                                 kiln__target *out, kiln_report *report);

/* Sets the template that suits the length of rows on the device, or on any with this target where it is NULL: where the
 * spec leaves the template open, its op reduces, n says how long rows are, and the template takes the parameters that
 * are set. */
kiln_status kiln__service_choose_template(const kiln_device *on, const kiln__target *target, kiln__fields *spec,
                                          kiln_report *report);

/* Fills the open fields: the template, the geometry from wisdom, and all that is still open with the template's
 * defaults. */
kiln_status kiln__service_resolve(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__fields *out,
                                  kiln_report *report);

/* The unit of a spec, its open fields chosen as a get on the device chooses them. The target may be of another kind
 * than the device. */
kiln_status kiln__service_unit(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__unit **out,
                               kiln_report *report);

/* All that a choice of geometry depends on besides the canonical spec and the device. Equal if there is nothing to
 * choose. */
typedef struct kiln__geometry_basis {
    uint64_t generation; /* of the wisdom */
    uint64_t cols;       /* of the spec's rows, as formulas know them; 0: not named */
    uint8_t size;        /* of the spec's n, as its power of two */
} kiln__geometry_basis;

/* Costs a look at the clock, and nothing if the spec sets all or wisdom is off. Without `look` it reads no file, and is
 * false when a look at the wisdom's files is due. */
bool kiln__geometry_basis_of(kiln_service *service, const kiln__fields *spec, bool look, kiln__geometry_basis *out);

/* The device in the words of a record: the target alone if no device is known, or a spec names another target than the
 * device's. `on` is NULL or the device that the spec is for; without it the one that is open, if it is of this target.
 * Opens no driver. The texts are those of the device and the target. */
void kiln__geometry_device(kiln_service *service, const kiln_device *on, const kiln__target *target,
                           const kiln__fields *spec, kiln__wisdom_device *out);

/* A request of a spec or a source, whose open parts are found out step by step. Belongs to one thread at a
 * time, but for its references. */
typedef struct kiln__want {
    atomic_uint refs;
    kiln_goal goal;
    bool strict;           /* nothing is compiled for it */
    bool unlisted;         /* set by its maker: it is not recorded, and no later request finds its program */
    bool unasked;          /* the service made the spec (a stand-in): kiln__obtain_hit finds no program by its text */
    kiln_device *asked_on; /* as the caller named it, NULL for the default one */
    kiln__miss miss;       /* the fault that an earlier look found in the stored entry */
    /* Once settled. */
    const char *id;      /* equal for all wants of the same unit; names their flight */
    kiln_device *device; /* to load on; NULL for a build */
    kiln__unit *unit;    /* of a spec made by kiln__want_unit */
    kiln_spec *asked;    /* of a spec, as the caller wrote it, else NULL */
    kiln__geometry_basis basis;
    kiln__fields spec;      /* every field set; its op is that of `asked` */
    char *text;             /* the id */
    kiln__list directories; /* place, directory as it was given, place, ... */
    char *from;             /* the start of relative ones; NULL: the working directory */
    bool targeted;          /* a target was named */
} kiln__want;

/* Retains the spec of a complete request, or checks and copies its source. Looks at no file. With `later` the want is
 * settled after the caller's call, perhaps in another working directory. One reference. KILN_EINVAL, KILN_ETARGET,
 * KILN_ENOMEM. */
kiln_status kiln__want_make(kiln__want **out, const kiln_request *request, bool later, kiln_report *report);

/* NULL is allowed. */
kiln__want *kiln__want_retain(kiln__want *want);
void kiln__want_release(kiln__want *want);

/* Finds out device, target, geometry and directories, and records a spec unless it is unlisted. May open a driver and a
 * compiler, and read the wisdom's files. */
kiln_status kiln__want_settle(kiln_service *service, kiln__want *want, kiln_report *report);

/* Makes the unit of a settled want if there is none yet, with what its text may include. KILN_ESPEC, KILN_ENOMEM, and
 * those of kiln__unit_add_headers. */
kiln_status kiln__want_unit(kiln_service *service, kiln__want *want, kiln_report *report);

/* The same request without geometry, settled on the same device. NULL: its id is equal, or it cannot be settled. */
kiln__want *kiln__want_open_geometry(kiln_service *service, const kiln__want *want);

/* Whether the entry depends on files that the compiler reads. The id then does not tell which entry it is. */
bool kiln__want_reads_files(const kiln__want *want);

/* ---- define.c. The contracts are those of the public functions of like name. */

/* The record gets the definition before any request can use it. */
kiln_status kiln__service_define_op(kiln_service *service, const char *definition, kiln_report *report);

/* `origin` is shown by lists: the template's path, or "defined". */
kiln_status kiln__service_define_template(kiln_service *service, const char *text, const char *cpu_text,
                                          const char *origin, const char **name, kiln_report *report);
kiln_status kiln__service_load_template(kiln_service *service, const char *path, const char **name,
                                        kiln_report *report);

/* ---- manifest.c. The contracts are those of the public functions of like name. */

kiln_status kiln__service_expand(kiln_service *service, const char *line, kiln_spec_fn fn, void *data,
                                 kiln_report *report);

/* Of a complete manifest. */
kiln_status kiln__manifest_read(kiln_service *service, const kiln_manifest *manifest, kiln_manifest_fn fn, void *data,
                                kiln_report *report);

/* ---- doctor.c */

/* Examines what the service uses, until fn returns non-zero: the contract is kiln_doctor's. */
void kiln__doctor(kiln_service *service, kiln_finding_fn fn, void *data);

#endif
