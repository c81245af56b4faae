/* libnvrtc, found and opened at run time: the table of its functions and the one way from its codes to a
 * kiln_status. */
#ifndef KILN_GPU_NVRTC_H
#define KILN_GPU_NVRTC_H

#include "base/text.h"
#include "gpu/nvrtc_symbols.h"

/* Constant after kiln__nvrtc_load; any thread may use it, a program at a time. */
typedef struct kiln__nvrtc {
#define KILN__MEMBER(need, name, version, result, parameters) result(*name) parameters;
    KILN__NVRTC_SYMBOLS(KILN__MEMBER)
#undef KILN__MEMBER
    int major, minor;
    char path[1024];
} kiln__nvrtc;

/* Opens the library at `path`; with NULL libnvrtc.so.13, else .12, each as the loader finds it, then under
 * CUDA_PATH, CUDA_HOME and /usr/local/cuda. Preloads the builtins library beside it. The caller frees *out with
 * kiln__nvrtc_unload. Inside a kiln__nvrtc_call, as all calls of the table. KILN_ENOCOMPILER says what to do;
 * KILN_ENOMEM. */
kiln_status kiln__nvrtc_load(kiln__nvrtc **out, const char *path, kiln_report *report);

/* Frees the table, which no compile may be using; the library stays mapped. NULL is allowed. */
void kiln__nvrtc_unload(kiln__nvrtc *nvrtc);

/* Appends what decides which library kiln__nvrtc_load opens: the path, and the identity of the loader's cache and of
 * each file that the search would come across, of the first name that there is one of. Opens nothing. */
void kiln__nvrtc_search(const char *path, kiln__text *out);

/* The only way from an nvrtcResult to a kiln_status: KILN_OK, KILN_ENOMEM, KILN_ENOCOMPILER (its builtins are missing)
 * or KILN_ECOMPILE. */
kiln_status kiln__nvrtc_result(const kiln__nvrtc *nvrtc, const char *function, kiln__nvrtc_enum code,
                               kiln_report *report);

/* KILN__NVRTC(nvrtc, report, nvrtcGetPTX, (program, ptx)) calls a function of the table and returns a kiln_status. */
#define KILN__NVRTC(nvrtc, report, name, arguments) \
    kiln__nvrtc_result((nvrtc), #name, (nvrtc)->name arguments, (report))

#endif
