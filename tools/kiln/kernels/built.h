/* Compiled code of specs and sources, without a device, and facts about programs and kernels. */
#ifndef KILN_TOOLS_BUILT_H
#define KILN_TOOLS_BUILT_H

#include "cli/common.h"

/* Compiles, or finds in the stores. The errors of kiln_get. */
kiln_status build_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report);
kiln_status build_source(kiln_program **out, kiln_service *service, const kiln_source *source, kiln_report *report);

/* The same from the stores alone: KILN_ESTRICT where it would have to be compiled. */
kiln_status find_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report);

/* The notes of `report` on the options of a built source, and the compiler's warnings, also where the program was found
 * compiled; "": none. */
const char *built_log(const kiln_program *program, const kiln_report *report);

/* How many kernels a command has put into the cache, and how many are there at the end. Begins as all zero. */
typedef struct built_tally {
    size_t compiled, kept, lost;
    char *reason; /* why the first lost one was not kept */
} built_tally;

/* Looks for a program in the stores on disk, and counts it; exactly one of `spec` and `source` is given. True if it is
 * kept. At the end of the run, so that what has been evicted since is missed. */
bool built_is_kept(built_tally *sum, kiln_service *service, const kiln_spec *spec, const kiln_source *source,
                   kiln_origin origin);

/* STATUS_DONE, or STATUS_FAILED after a message if something is not kept. */
int built_end(const built_tally *sum);

/* Everything in it is borrowed. */
kiln_program_info built_info(const kiln_program *program);
kiln_kernel_info kernel_info(const kiln_kernel *kernel);

/* Whether kernels take arguments of the same roles, types and shapes at these sizes, on one device. A single size may
 * have two names. */
bool kernels_take_the_same(const kiln_kernel *a, const kiln_kernel *b, const uint64_t *sizes);

/* A section of a program; NULL, and a length of 0, where it has none. */
const void *built_section(size_t *length, const kiln_program *program, const char *name);

#endif
