/* Wants: everything that a request asks for, found out step by step, of a spec as of a source. */
#ifndef KILN_SERVICE_WANT_H
#define KILN_SERVICE_WANT_H

#include "service/geometry.h"
#include "service/table.h"
#include "source/source.h"
#include "spec/spec.h"

/* A want belongs to one thread at a time, but for its references. */
typedef struct kiln__want {
    atomic_uint refs;
    kiln_goal goal;
    bool strict;           /* nothing is compiled for it */
    bool unlisted;         /* it is not recorded, and no later request finds its program */
    bool unasked;          /* no caller used these words, so kiln__obtain_hit does not find the program by them */
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
    kiln__list directories; /* the include directories as they were given */
    char *from;             /* where relative ones start; NULL: the working directory */
    bool targeted;          /* a target was named */
} kiln__want;

/* How a request is to be served, besides the spec or the source. */
typedef struct kiln__terms {
    kiln_device *on; /* the device asked for, NULL for the default one */
    kiln_goal goal;
    bool strict, unlisted;
} kiln__terms;

/* kiln__want_spec retains the spec. kiln__want_source checks and copies the source. Neither looks at a file. With
 * `later` the want is settled after the caller's call, perhaps in another working directory. One reference.
 * KILN_EINVAL, KILN_ETARGET, KILN_ENOMEM. */
kiln_status kiln__want_spec(kiln__want **out, const kiln_spec *spec, const kiln__terms *terms, kiln_report *report);
kiln_status kiln__want_source(kiln__want **out, const kiln_source *given, bool later, const kiln__terms *terms,
                              kiln_report *report);

/* NULL is allowed. */
kiln__want *kiln__want_retain(kiln__want *want);
void kiln__want_release(kiln__want *want);

/* Finds out device, target, geometry and directories, and records a spec unless it is unlisted. May open a driver and a
 * compiler, and read the wisdom's files. */
kiln_status kiln__want_settle(kiln_service *service, kiln__want *want, kiln_report *report);

/* Makes the unit of a settled want if there is none yet. KILN_ESPEC, KILN_ENOMEM. */
kiln_status kiln__want_unit(kiln__want *want, kiln_report *report);

/* The same request without geometry, settled on the same device. NULL: its id is equal, or it cannot be settled. */
kiln__want *kiln__want_open_geometry(kiln_service *service, const kiln__want *want);

/* Whether the entry depends on files that the compiler reads. The id then does not tell which entry it is. */
bool kiln__want_reads_files(const kiln__want *want);

/* The name under which the spec that was asked for finds its program. Borrows the want's text. */
kiln__name kiln__want_asked_name(const kiln__want *want);

/* The name of the want's program by its id. Borrows the want's text. */
kiln__name kiln__want_name(const kiln__want *want);

#endif
