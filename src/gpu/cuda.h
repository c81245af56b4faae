/* The cuda backend: NVRTC and the CUDA driver, both opened at run time. */
#ifndef KILN_GPU_CUDA_H
#define KILN_GPU_CUDA_H

#include "backend/backend.h"

/* Path (links not resolved) and version of the driver library that was opened, "" and 0 before that. Version as
 * cuDriverGetVersion gives it. */
void kiln__cuda_driver_facts(const kiln__backend *backend, const char **path, int *version);

/* Whether an image's cubin is whole, its PTX is text for the target, and both have every entry point of the unit:
 * NVRTC can end well with a cubin that holds none, and such a thing must never get into a store. Of a
 * user-defined source, whether image->names are as many as it asks for and the functions among them are there.
 * KILN_ECOMPILE. */
kiln_status kiln__nvrtc_check_image(const kiln__image *image, const kiln__unit *unit, kiln_report *report);

/* Whether the parameters of a template's entry points have the number and the bytes of its declared arguments, as far
 * as a checked image tells them: a launch would pass too few, and the driver would read beyond them. KILN_ECOMPILE. */
kiln_status kiln__nvrtc_check_parameters(const kiln__image *image, const kiln__unit *unit, kiln_report *report);

/* Appends every option of a unit's compile but the target and what a source asks for, each with a space in front:
 * they are part of the key. */
void kiln__nvrtc_options(const kiln__unit *unit, kiln__text *out);

/* The name of a variable in the environment that NVRTC would heed, NULL if there is none. NVRTC would then make
 * other code than the key says. */
const char *kiln__nvrtc_steering(void);

/* Lets a compiler link, with the files that its vtable's `linker` names. NVRTC is open. Once, before any compile.
 * KILN_ENOCOMPILER, KILN_EIO, KILN_ENOMEM. */
kiln_status kiln__cuda_compiler_load_linker(kiln__compiler *compiler, const kiln__list *files, kiln_report *report);

/* Opens the linker of such a list to ask for its version ("13.0"). `nvrtc` is the version of NVRTC. The same errors. */
kiln_status kiln__cuda_linker_version(const kiln__list *files, const char *nvrtc, char *out, size_t size,
                                      kiln_report *report);

/* Appends the two include directories of CUDA's toolkit, "cuda" and "cccl", to `places`, with a path that leads to
 * nothing for one that is not there: found beside the NVRTC at `nvrtc` (may be ""), as toolkits and wheels have
 * them, else under CUDA_PATH, CUDA_HOME or /usr/local/cuda. Where CUDA's headers lack CCCL, as those of wheels do,
 * it is that of the next of these places whose CUDA has the same major version. */
void kiln__cuda_find_headers(const char *nvrtc, kiln__list *places);

/* Whether the directory of a place was found; `version` gets that of its headers, "" if they do not tell. */
enum { KILN__HEADERS_VERSION_SIZE = 32 };
bool kiln__cuda_headers_facts(const char *place, const char *path, char version[KILN__HEADERS_VERSION_SIZE]);

#endif
