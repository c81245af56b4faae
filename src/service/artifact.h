/* Compiled code that is not loaded: what a build gives. */
#ifndef KILN_SERVICE_ARTIFACT_H
#define KILN_SERVICE_ARTIFACT_H

#include "base/list.h"
#include "compile/compiler.h"
#include <kiln/kernel.h>

/* Immutable and reference-counted. */
typedef struct kiln__artifact {
    atomic_uint refs;
    kiln__blob *blob;
    char *spec;
    kiln__target target;
    kiln_origin origin;
    double compile_ms;
    kiln__list symbols; /* the functions in the code */
    /* Of a user's own source, else empty. */
    char *shown_log;      /* in the user's words */
    kiln__list functions; /* as asked for */
} kiln__artifact;

/* Wraps what was built of a unit. One reference. KILN_ENOMEM. */
kiln_status kiln__artifact_make(kiln__artifact **out, const kiln__unit *unit, const kiln__built *built,
                                kiln_origin origin, kiln_report *report);
kiln__artifact *kiln__artifact_retain(kiln__artifact *artifact);
void kiln__artifact_release(kiln__artifact *artifact);

/* Fills *out with function number `index`, all but its size. False: there are not so many. */
bool kiln__artifact_function(const kiln__artifact *artifact, size_t index, kiln_function_info *out);

/* A section of the entry, its log in the user's words, or "key". KILN_ENOENT. */
kiln_status kiln__artifact_section(const kiln__artifact *artifact, const char *name, const void **out, size_t *length);

#endif
