/* Compiled code of specs and sources, without a device, and facts about programs and kernels. */
#ifndef KILN_TOOLS_BUILT_H
#define KILN_TOOLS_BUILT_H

#include "cli/common.h"

/* Compiles, or finds in the stores. The errors of kiln_get. */
kiln_status build_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report);
kiln_status build_source(kiln_program **out, kiln_service *service, const kiln_source *source, kiln_report *report);

/* The same from the stores alone: KILN_ESTRICT where it would have to be compiled. */
kiln_status find_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report);

/* Everything in it is borrowed. */
kiln_program_info built_info(const kiln_program *program);
kiln_kernel_info kernel_info(const kiln_kernel *kernel);

/* A section of a program; NULL, and a length of 0, where it has none. */
const void *built_section(size_t *length, const kiln_program *program, const char *name);

#endif
