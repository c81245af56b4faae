/* Compiled code of specs and sources, without a device. */
#ifndef KILN_TOOLS_BUILT_H
#define KILN_TOOLS_BUILT_H

#include <kiln/kernel.h>

/* Compiles, or finds in the stores. The errors of kiln_get. */
kiln_status build_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report);
kiln_status build_source(kiln_program **out, kiln_service *service, const kiln_source *source, kiln_report *report);

/* The same from the stores alone: KILN_ESTRICT where it would have to be compiled. */
kiln_status find_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report);

/* Everything in it is borrowed. */
kiln_program_info built_info(const kiln_program *program);

#endif
