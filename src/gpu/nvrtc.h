/* libnvrtc, found and opened at run time: the table of its functions, the one way from its codes to a kiln_status, and
 * the way into it: with stack enough, and never while its destructors run. */
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
 * kiln__free, when no compile uses the table any more; the library stays mapped. Inside a kiln__nvrtc_call, as all
 * calls of the table. KILN_ENOCOMPILER says what to do;
 * KILN_ENOMEM. */
kiln_status kiln__nvrtc_load(kiln__nvrtc **out, const char *path, kiln_report *report);

/* Appends what decides which library kiln__nvrtc_load opens: the path, and the identity of the loader's cache and of
 * each file that the search would come across, of the first name that there is one of. Opens nothing. */
void kiln__nvrtc_search(const char *path, kiln__text *out);

/* Finds another file of CUDA's libraries: beside the NVRTC at `nvrtc`, in the directory that NVIDIA's wheel `wheel` has
 * beside NVRTC's, in the loader's directories, then in lib64 under CUDA_PATH, CUDA_HOME and /usr/local/cuda. Opens
 * nothing. */
bool kiln__nvrtc_find_companion(const char *nvrtc, const char *wheel, const char *file, char *out, size_t size);

/* The only way from an nvrtcResult to a kiln_status: KILN_OK, KILN_ENOMEM, KILN_ENOCOMPILER (its builtins are missing)
 * or KILN_ECOMPILE. */
kiln_status kiln__nvrtc_result(const kiln__nvrtc *nvrtc, const char *function, kiln__nvrtc_enum code,
                               kiln_report *report);

/* KILN__NVRTC(nvrtc, report, nvrtcGetPTX, (program, ptx)) calls a function of the table and returns a kiln_status. */
#define KILN__NVRTC(nvrtc, report, name, arguments) \
    kiln__nvrtc_result((nvrtc), #name, (nvrtc)->name arguments, (report))

/* Calls fn(data, report), which may call NVRTC; returns its status. On a new thread if less than 1 MiB of the
 * caller's stack is left. Until fn has returned, exit() waits. fn may not wait for a thread that may be inside
 * exit(). KILN_ECANCELED if the process is ending; KILN_ENOMEM. Any thread. */
kiln_status kiln__nvrtc_call(kiln_status (*fn)(void *data, kiln_report *report), void *data, kiln_report *report);

#endif
