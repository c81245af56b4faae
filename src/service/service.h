/* The service: one object that owns catalogue, stores, compilers, devices and loaded kernels. */
#ifndef KILN_SERVICE_SERVICE_H
#define KILN_SERVICE_SERVICE_H

#include "compile/compiler.h"
#include "service/kernel.h"
#include "service/record.h"
#include "store/disk.h"

struct kiln_service {
    kiln__log log;
    kiln__catalog catalog;
    kiln__store_counters store_counters;
    kiln__tiers tiers;
    kiln__store *disk;                    /* also in tiers; NULL if there is none */
    kiln_source sources[KILN__TIERS_MAX]; /* of the tiers */
    char *cache_dir;                      /* "" if there is none */
    char *warm_options;      /* what follows the spec in a kiln warm line that strict mode names; NULL unless strict */
    char cache_problem[256]; /* why there is none, "" if it was not wanted */
    kiln__builder nvrtc, cc;
    kiln__record *record; /* NULL if there is none */
    kiln__runtime *runtime;
    kiln__kernel_table requests; /* by the spec as it was asked for: the way of a hit */
    kiln__kernel_table kernels;  /* by device and complete canonical text */
    pthread_mutex_t native_lock;
    atomic_bool native_known;
    kiln__target native; /* what to compile for where a spec leaves the target open; constant once known */
    atomic_uint_least64_t gets, hits_kernel, hits_memory, hits_disk, loads, ptx_loads;
    atomic_uint_least64_t hits_pack, hits_shared;
};

struct kiln_artifact {
    kiln__blob *blob;
    char *spec;
    kiln_source source;
    double compile_ms;
};

/* The contracts of these are those of the public functions of the same name. */
kiln_status kiln__service_open(kiln_service **out, const kiln_options *options, kiln_report *report);
void kiln__service_close(kiln_service *service);
kiln_status kiln__service_get(kiln_service *service, const kiln_spec *spec, kiln_kernel **out, kiln_report *report);
kiln_status kiln__service_build(kiln_service *service, const kiln_spec *spec, kiln_artifact **out, kiln_report *report);
kiln_status kiln__service_probe(kiln_service *service, const kiln_spec *spec, kiln_source *out, kiln_report *report);
void kiln__service_stats(const kiln_service *service, kiln_stats *out);

/* The unit of a spec, its open fields chosen: the target from the default device when `spec` leaves it open. */
kiln_status kiln__service_unit(kiln_service *service, const kiln_spec *spec, kiln__unit **out, kiln_report *report);

/* The compiler that builds for a target. */
kiln__builder *kiln__service_builder(kiln_service *service, const kiln__target *target);

#endif
