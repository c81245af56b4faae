/* The cuda backend: NVRTC and the CUDA driver, both opened at run time. */
#ifndef KILN_BACKEND_CUDA_CUDA_H
#define KILN_BACKEND_CUDA_CUDA_H

#include "backend/backend.h"

/* Opens nothing yet. `libcuda` is an explicit path or NULL (then libcuda.so.1); copied. `log` is borrowed until close.
 * NULL when out of memory. */
kiln__backend *kiln__cuda_open(const char *libcuda, const kiln__log *log);

/* Path (links not resolved) and version of the driver library that was opened, "" and 0 before that. Version as
 * cuDriverGetVersion gives it. */
void kiln__cuda_driver_facts(const kiln__backend *backend, const char **path, int *version);

/* NVRTC as a compiler. Opens nothing yet. `nvrtc` is an explicit path or NULL for a search; copied. */
kiln__compiler *kiln__nvrtc_open(const char *nvrtc, const kiln__log *log);

/* Appends the options that every user's own source is compiled with: they are part of its key. */
void kiln__nvrtc_own_options(kiln__text *out);

/* Whether an image's cubin is whole, its PTX is text for the target, and both have every entry point of the unit: NVRTC can end well with a cubin that holds
 * none, and such a thing must never get into a store. Of a user's own source, whether image->names are as many as it asks for and
 * the functions among them are there. KILN_ECOMPILE. */
kiln_status kiln__nvrtc_check_image(const kiln__image *image, const kiln__unit *unit, kiln_report *report);

#endif
