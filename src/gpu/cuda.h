/* The cuda backend: NVRTC and the CUDA driver, both opened at run time. */
#ifndef KILN_GPU_CUDA_H
#define KILN_GPU_CUDA_H

#include "backend/backend.h"

/* Path (links not resolved) and version of the driver library that was opened, "" and 0 before that. Version as
 * cuDriverGetVersion gives it. */
void kiln__cuda_driver_facts(const kiln__backend *backend, const char **path, int *version);

/* Whether an image's cubin is whole, its PTX is text for the target, and both have every entry point of the unit:
 * NVRTC can end well with a cubin that holds none, and such a thing must never get into a store. Of a user's own
 * source, whether image->names are as many as it asks for and the functions among them are there. KILN_ECOMPILE. */
kiln_status kiln__nvrtc_check_image(const kiln__image *image, const kiln__unit *unit, kiln_report *report);

#endif
