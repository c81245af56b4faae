#include "gpu/nvrtc.h"

#include "base/alloc.h"
#include "gpu/nvrtc_call.h"
#include "gpu/table.h"
#include "os/file.h"
#include "os/trust.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const kiln__symbol rows[] = {
#define ROW(need, name, version, result, parameters) \
    { KILN__##need, #name, #name, version, offsetof(kiln__nvrtc, name) },
    KILN__NVRTC_SYMBOLS(ROW)
#undef ROW
};

/* Newest first: what a library of an older major version makes is older code, and it knows fewer targets. */
static const char *const sonames[] = { "libnvrtc.so.13", "libnvrtc.so.12" };
enum { SONAMES = sizeof(sonames) / sizeof(sonames[0]), ROOTS = 3, NAMES_MAX = SONAMES * (1 + ROOTS) };

/* The toolkit's directories, NULL where there is none. The environment of a user who runs this process with more
 * rights than his own must not choose what it loads. */
static void find_roots(const char *roots[ROOTS])
{
    bool elevated = kiln__trust_is_elevated();
    roots[0] = elevated ? NULL : getenv("CUDA_PATH");
    roots[1] = elevated ? NULL : getenv("CUDA_HOME");
    roots[2] = "/usr/local/cuda";
    for (int i = 0; i < ROOTS; i++)
        for (int k = 0; k < i && roots[i] != NULL; k++)
            if (roots[k] != NULL && strcmp(roots[i], roots[k]) == 0)
                roots[i] = NULL;
}

/* Calls fn with each path of a toolkit's directory where `soname` may be, as long as it returns true. False when out of
 * memory. */
static bool visit_roots(const char *const roots[ROOTS], const char *soname, bool (*fn)(void *data, const char *path),
                        void *data)
{
    bool more = true, failed = false;
    for (int i = 0; i < ROOTS && more && !failed; i++) {
        kiln__text path = { 0 };
        if (roots[i] == NULL || roots[i][0] == '\0')
            continue;
        kiln__text_append(&path, roots[i]);
        kiln__text_append(&path, "/lib64/");
        kiln__text_append(&path, soname);
        failed = path.failed;
        more = failed || fn(data, kiln__text_string(&path));
        kiln__text_fini(&path);
    }
    return !failed;
}

typedef struct opening {
    kiln__dylib *library;
    char *reason; /* of the first name that failed: the later ones are places where it need not be */
    size_t size;
    int error; /* ENOMEM or a shortage: then it was not found out whether there is one */
} opening;

static bool try_open(void *data, const char *name)
{
    opening *state = data;
    const char *const names[] = { name, NULL };
    char reason[256];
    state->library = kiln__dylib_open(names, reason, sizeof(reason));
    state->error = state->library == NULL && errno != ENOENT ? errno : 0;
    if (state->library == NULL && state->reason[0] == '\0')
        kiln__text_copy(state->reason, state->size, reason);
    return state->library == NULL && state->error == 0;
}

/* NULL if there is none, or if *error is not 0: then it was not found out whether there is one. */
static kiln__dylib *open_library(const char *path, char *reason, size_t size, int *error)
{
    const char *roots[ROOTS];
    opening state = { NULL, reason, size, 0 };
    find_roots(roots);
    reason[0] = '\0';
    if (path != NULL)
        try_open(&state, path);
    for (int i = 0; path == NULL && i < SONAMES && state.library == NULL && state.error == 0; i++)
        if (try_open(&state, sonames[i]) && !visit_roots(roots, sonames[i], try_open, &state))
            state.error = ENOMEM;
    *error = state.error;
    return state.library;
}

static void *find(void *data, const kiln__symbol *row)
{
    return kiln__dylib_symbol(data, row->exported);
}

/* NVRTC opens its builtins by soname, which the loader finds only in its own directories and not beside libnvrtc;
 * one that is already open under that soname is taken. Without them the first compile fails and says so. 0, ENOMEM
 * or a shortage. */
static int open_builtins(const kiln__nvrtc *nvrtc)
{
    char reason[256];
    const char *slash = strrchr(nvrtc->path, '/');
    kiln__dylib *builtins = NULL;
    kiln__text name = { 0 };
    if (slash == NULL)
        return 0;
    kiln__text_append_bytes(&name, nvrtc->path, (size_t)(slash - nvrtc->path));
    kiln__text_printf(&name, "/libnvrtc-builtins.so.%d.%d", nvrtc->major, nvrtc->minor);
    const char *const names[] = { kiln__text_string(&name), NULL };
    if (!name.failed)
        builtins = kiln__dylib_open(names, reason, sizeof(reason));
    int error = name.failed ? ENOMEM : builtins == NULL && errno != ENOENT ? errno : 0;
    kiln__table_keep(builtins);
    kiln__text_fini(&name);
    return error;
}

static kiln_status fail_open(const char *path, const char *reason, kiln_report *report)
{
    if (path != NULL)
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                          "cannot open the NVRTC named explicitly: %s: correct KILN_NVRTC or the nvrtc option", reason);
    return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                      "found no NVRTC (%s; nor any version 13 or 12 in lib64 under CUDA_PATH, CUDA_HOME and "
                      "/usr/local/cuda): install the CUDA toolkit or the wheel nvidia-cuda-nvrtc, or name the library "
                      "in KILN_NVRTC",
                      reason);
}

static kiln_status fail_unknown(int error, kiln_report *report)
{
    return kiln__is_shortage(error) ? kiln__fail_shortage(report, KILN__STAGE_OPEN, error, "open NVRTC")
                                    : kiln__fail_memory(report, KILN__STAGE_OPEN);
}

/* Lets exit() wait for what is being compiled before it destroys NVRTC's static objects. Those that NVRTC registers
 * in a compile would be destroyed before that handler runs. They are never destroyed: the call that registers them goes
 * to nvrtcGetErrorString, which does nothing and stays as long as NVRTC. */
static kiln_status prepare_exit(const kiln__nvrtc *nvrtc, const kiln__dylib *library, kiln_report *report)
{
    kiln__dylib_redirect(library, "__cxa_atexit", *(void *const *)&nvrtc->nvrtcGetErrorString);
    return kiln__nvrtc_drain_at_exit(nvrtc, report);
}

kiln_status kiln__nvrtc_load(kiln__nvrtc **out, const char *path, kiln_report *report)
{
    char reason[256];
    int error;
    *out = NULL;
    kiln_status status = kiln__nvrtc_drain_at_exit(NULL, report);
    if (status != KILN_OK)
        return status;
    kiln__nvrtc *nvrtc = kiln__calloc(1, sizeof(*nvrtc));
    if (nvrtc == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    kiln__dylib *library = open_library(path, reason, sizeof(reason), &error);
    if (library == NULL) {
        kiln__nvrtc_unload(nvrtc);
        return error != 0 ? fail_unknown(error, report) : fail_open(path, reason, report);
    }
    kiln__text_copy(nvrtc->path, sizeof(nvrtc->path), kiln__dylib_path(library));
    const kiln__symbol *missing = kiln__table_fill(nvrtc, rows, sizeof(rows) / sizeof(rows[0]), find, library);
    if (missing == NULL)
        status = prepare_exit(nvrtc, library, report);
    /* NVRTC is not unmapped: each time that happens, it leaves 72 KB of heap behind. */
    kiln__table_keep(library);
    if (missing != NULL)
        status = kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                            "%s has no %s (new in CUDA %d.%d): it is not a usable NVRTC; name one of CUDA 12 or newer "
                            "in KILN_NVRTC",
                            nvrtc->path, missing->name, missing->version / 1000, missing->version % 1000 / 10);
    else if (status == KILN_OK)
        status = KILN__NVRTC(nvrtc, report, nvrtcVersion, (&nvrtc->major, &nvrtc->minor));
    if (status == KILN_OK && (error = open_builtins(nvrtc)) != 0)
        status = fail_unknown(error, report);
    if (status != KILN_OK) {
        kiln__nvrtc_unload(nvrtc);
        return status;
    }
    *out = nvrtc;
    return KILN_OK;
}

void kiln__nvrtc_unload(kiln__nvrtc *nvrtc)
{
    kiln__free(nvrtc);
}

/* One line for a file that is there: which one it is and whether it has changed. */
static bool append_file(void *data, const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return true;
    kiln__text_append(data, "file ");
    kiln__text_append(data, path);
    kiln__text_append(data, " ");
    kiln__file_append_stamp(&status, ":", data);
    kiln__text_append(data, "\n");
    return true;
}

/* The loader's directories for this library's dlopen, LD_LIBRARY_PATH and run paths included, as they were when the
 * process started: what the environment says now need not be what the loader uses. NULL if it does not tell. */
static Dl_serinfo *loader_directories(void)
{
    Dl_info info;
    struct link_map *self = NULL;
    Dl_serinfo size, *out = NULL;
    if (dladdr1(rows, &info, (void **)&self, RTLD_DL_LINKMAP) == 0 || self == NULL ||
        dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0)
        return NULL;
    out = kiln__calloc(1, size.dls_size);
    if (out == NULL)
        return NULL;
    out->dls_size = size.dls_size;
    out->dls_cnt = size.dls_cnt;
    if (dlinfo(self, RTLD_DI_SERINFO, out) == 0)
        return out;
    kiln__free(out);
    return NULL;
}

void kiln__nvrtc_search(const char *path, kiln__text *out)
{
    if (path != NULL) {
        kiln__text_printf(out, "path %s\n", path);
        if (strchr(path, '/') != NULL) {
            append_file(out, path);
            return;
        }
    }
    const char *roots[ROOTS];
    find_roots(roots);
    append_file(out, "/etc/ld.so.cache");
    Dl_serinfo *directories = loader_directories();
    kiln__text file = { 0 };
    size_t before = out->length;
    for (int i = 0; i < (path != NULL ? 1 : SONAMES) && out->length == before; i++) {
        const char *name = path != NULL ? path : sonames[i];
        for (unsigned k = 0; directories != NULL && k < directories->dls_cnt; k++) {
            file.length = 0;
            kiln__text_append(&file, directories->dls_serpath[k].dls_name);
            kiln__text_append(&file, "/");
            kiln__text_append(&file, name);
            append_file(out, kiln__text_string(&file));
        }
        if (path == NULL)
            visit_roots(roots, name, append_file, out);
    }
    kiln__text_fini(&file);
    kiln__free(directories);
}

kiln_status kiln__nvrtc_result(const kiln__nvrtc *nvrtc, const char *function, kiln__nvrtc_enum code,
                               kiln_report *report)
{
    if (code == KILN__NVRTC_SUCCESS)
        return KILN_OK;
    const char *text = nvrtc->nvrtcGetErrorString(code);
    if (text == NULL)
        text = "an unknown error";
    if (code == KILN__NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, (int)code,
                          "%s failed: %s (%u): put libnvrtc-builtins.so.%d.%d beside %s", function, text, code,
                          nvrtc->major, nvrtc->minor, nvrtc->path);
    kiln_status status = code == KILN__NVRTC_ERROR_OUT_OF_MEMORY ? KILN_ENOMEM : KILN_ECOMPILE;
    return kiln__fail(report, status, KILN__STAGE_COMPILE, (int)code, "%s failed: %s (%u)", function, text, code);
}
