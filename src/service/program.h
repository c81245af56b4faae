/* Sources of users' own: compiled, and loaded. */
#ifndef KILN_SERVICE_PROGRAM_H
#define KILN_SERVICE_PROGRAM_H

#include "service/service.h"
#include "source/source.h"

/* What a call wants: the source as it was given, and, once it is settled, with all that decides what it compiles to. */
typedef struct kiln__program_want {
    kiln__source_unit *unit;
    kiln__list directories; /* the include directories as they were given */
    char *from;             /* what relative ones start from; NULL: the working directory */
    bool targeted;          /* a target was named */
    bool strict;            /* nothing is compiled for it */
    kiln_device *device;    /* to load on, NULL for none; once settled that is which */
} kiln__program_want;

/* Checks and copies a source; looks at no file. With `later` it will be settled after the call that gave it, when the working
 * directory may be another. KILN_EINVAL, KILN_ETARGET, KILN_ENOMEM. kiln__program_want_fini also after a failure. */
kiln_status kiln__program_want_copy(kiln__program_want *out, const kiln_source *given, bool later, kiln_report *report);
void kiln__program_want_fini(kiln__program_want *want);

/* Finds the directories, and the device (NULL: the default one) on which it is to be loaded; may open a driver and a
 * compiler. */
kiln_status kiln__program_want_settle(kiln_service *service, kiln__program_want *want, kiln_report *report);

/* The program if it is loaded, or a store has it and the driver takes it: NULL if it has to be compiled, and `miss` why. */
kiln__loaded *kiln__program_take(kiln_service *service, const kiln__program_want *want, kiln__miss *miss);

/* The program, wherever it has to come from. With `earlier` it counts why an earlier look missed. */
kiln_status kiln__program_make(kiln_service *service, const kiln__program_want *want, kiln__miss earlier,
                               kiln__loaded **out, kiln_report *report);

/* Compiles a source, or finds it in the stores. The target is the one that was named, else that of the device, NULL for the
 * default one. The errors of kiln_get. */
kiln_status kiln__program_build(kiln_service *service, kiln__program_want *want, kiln__artifact **out,
                                kiln_report *report);

#endif
