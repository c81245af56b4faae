/* Finds and opens NVRTC, and lets threads into it. */
#include "gpu/nvrtc.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "gpu/cuda.h"
#include "gpu/driver.h"
#include "os/file.h"
#include "os/fork.h"
#include "os/trust.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STACK_NEEDED = 1024 * 1024, /* NVRTC needs more than 64 KiB for an ordinary kernel, and a deep one much more */
    STACK_OWN = 8 * 1024 * 1024,
    DRAIN_POLL_US = 500
};

/* ---- Exit: NVRTC's static objects are destroyed by exit(), while other threads may be using them. They are NVRTC's,
 * and so the process's, hence what follows belongs to no service. */

static atomic_bool ending;
static atomic_uint_least64_t calls; /* in progress, of all threads; above their number, the generation of the process */
static _Thread_local unsigned nested; /* of these, the thread's own: a log callback may call exit() */
static _Atomic(void *) drained;       /* a function of the NVRTC for which `drain` was registered last */

/* With none in progress. */
static uint64_t no_calls(void)
{
    return (uint64_t)kiln__fork_generation() << 32;
}

/* No lock, because a forked child may get here as well. */
static void drain(void)
{
    atomic_store(&ending, true);
    while (atomic_load(&calls) > no_calls() + nested)
        usleep(DRAIN_POLL_US);
}

/* Handlers run in the reverse order. The first, which is older than what NVRTC's constructors register, is for an
 * exit that begins before them; the second runs before what they have registered. */
static kiln_status drain_at_exit(const kiln__nvrtc *nvrtc, kiln_report *report)
{
    static char before;
    void *which = nvrtc != NULL ? *(void **)&nvrtc->nvrtcVersion : &before;
    void *last = atomic_load(&drained);
    if (last == which || (nvrtc == NULL && last != NULL))
        return KILN_OK;
    if (atexit(drain) != 0)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    atomic_store(&drained, which);
    return KILN_OK;
}

/* ---- Stack */

typedef struct call {
    kiln_status (*fn)(void *data, kiln_report *report);
    void *data;
    kiln_report *report;
    kiln_status status;
} call;

/* Counts the call before the look at `ending`, which drain() sets before it looks at the calls. A forked child begins
 * anew: it has none of the threads whose calls were in progress. */
static void *run_call(void *data)
{
    call *self = data;
    kiln__fpenv host;
    uint64_t before = atomic_load(&calls), none = no_calls();
    while (!atomic_compare_exchange_weak(&calls, &before, (before < none ? none : before) + 1))
        continue;
    nested++;
    kiln__fpenv_enter(&host); /* NVRTC calculates constants */
    self->status = !atomic_load(&ending) ? self->fn(self->data, self->report)
                                         : kiln__fail(self->report, KILN_ECANCELED, KILN__STAGE_COMPILE, 0,
                                                      "the process is ending: nothing is compiled any more");
    kiln__fpenv_leave(&host);
    nested--;
    atomic_fetch_sub(&calls, 1);
    return NULL;
}

/* Of the main thread's stack, on whose bottom the kernel puts the random bytes of a new process. */
static size_t main_stack_left(const char *here)
{
    struct rlimit limit;
    const char *bottom = (const char *)getauxval(AT_RANDOM);
    if (gettid() != getpid() || here >= bottom || getrlimit(RLIMIT_STACK, &limit) != 0)
        return 0;
    size_t used = (size_t)(bottom - here);
    return limit.rlim_cur > used ? (size_t)limit.rlim_cur - used : 0;
}

/* Bytes of stack that the calling thread has left, 0 where the system does not tell. Of the main thread the C library
 * learns it from /proc/self/maps, which a process may not be allowed to open. */
static size_t stack_left(void)
{
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0;
    const char *here = __builtin_frame_address(0);
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return main_stack_left(here);
    int error = pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    return error == 0 && here > (const char *)lowest ? (size_t)(here - (const char *)lowest) : 0;
}

/* Signals stay blocked there: one that is meant for a thread of the host must not land on Kiln's. */
static int run_on_own_thread(call *self)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    pthread_attr_setstacksize(&attributes, STACK_OWN);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, run_call, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error != 0 ? error : pthread_join(thread, NULL);
}

kiln_status kiln__nvrtc_call(kiln_status (*fn)(void *data, kiln_report *report), void *data, kiln_report *report)
{
    call self = { .fn = fn, .data = data, .report = report, .status = KILN_OK };
    if (nested > 0 || stack_left() >= STACK_NEEDED)
        run_call(&self);
    else if (run_on_own_thread(&self) != 0)
        return kiln__fail(report, KILN_ENOMEM, KILN__STAGE_COMPILE, 0,
                          "cannot start a thread to compile on, and the calling one has less than 1 MiB of stack left");
    return self.status;
}

/* ---- Finding and opening */

static const kiln__symbol symbols[] = {
#define ROW(need, name, version, result, parameters) \
    { KILN__##need, #name, #name, version, offsetof(kiln__nvrtc, name) },
    KILN__NVRTC_SYMBOLS(ROW)
#undef ROW
};

/* Newest first: what a library of an older major version makes is older code, and it knows fewer targets. */
static const char *const sonames[] = { "libnvrtc.so.13", "libnvrtc.so.12" };
enum { SONAMES = sizeof(sonames) / sizeof(sonames[0]), ROOTS = 3 };

/* The toolkit's directories, NULL where there is none. In a process with raised rights the environment must not choose
 * what is loaded. */
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

/* Adds each path of a toolkit's directory where `soname` may be. */
static void add_toolkit_paths(kiln__list *out, const char *soname)
{
    const char *roots[ROOTS];
    char path[PATH_MAX];
    find_roots(roots);
    for (int i = 0; i < ROOTS; i++)
        if (roots[i] != NULL && roots[i][0] != '\0' &&
            snprintf(path, sizeof(path), "%s/lib64/%s", roots[i], soname) < (int)sizeof(path))
            kiln__list_add(out, path);
}

/* NULL if there is none, or if *error is not 0: ENOMEM or a shortage, by which it was not found out whether there is
 * one. `reason` is that of the first name: the later ones are places where it need not be. */
static kiln__dylib *open_library(const char *path, char *reason, size_t size, int *error)
{
    kiln__dylib *library = NULL;
    kiln__list names = { 0 };
    reason[0] = '\0';
    if (path != NULL)
        kiln__list_add(&names, path);
    for (int i = 0; path == NULL && i < SONAMES; i++) {
        kiln__list_add(&names, sonames[i]);
        add_toolkit_paths(&names, sonames[i]);
    }
    *error = names.bytes.failed ? ENOMEM : 0;
    for (const char *at = NULL; library == NULL && *error == 0 && (at = kiln__list_next(&names, at)) != NULL;) {
        const char *const one[] = { at, NULL };
        char why[256];
        library = kiln__dylib_open(one, why, sizeof(why));
        *error = library == NULL && errno != ENOENT ? errno : 0;
        if (library == NULL && reason[0] == '\0')
            kiln__text_copy(reason, size, why);
    }
    kiln__list_fini(&names);
    return library;
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

/* Lets exit() wait for what is being compiled before it destroys NVRTC's static objects. Those that NVRTC registers in
 * a compile would be destroyed before that handler runs. They are never destroyed: the call that registers them goes
 * to nvrtcGetErrorString, which does nothing and stays as long as NVRTC. */
static kiln_status prepare_library(kiln__nvrtc *nvrtc, kiln__dylib *library, kiln_report *report)
{
    const kiln__symbol *missing = kiln__table_fill(nvrtc, symbols, sizeof(symbols) / sizeof(symbols[0]), library, NULL);
    if (missing != NULL)
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                          "%s has no %s (new in CUDA %d.%d): it is not a usable NVRTC; name one of CUDA 12 or newer "
                          "in KILN_NVRTC",
                          nvrtc->path, missing->name, missing->version / 1000, missing->version % 1000 / 10);
    kiln__dylib_redirect(library, "__cxa_atexit", *(void *const *)&nvrtc->nvrtcGetErrorString);
    kiln_status status = drain_at_exit(nvrtc, report);
    if (status == KILN_OK)
        status = KILN__NVRTC(nvrtc, report, nvrtcVersion, (&nvrtc->major, &nvrtc->minor));
    int error = status == KILN_OK ? open_builtins(nvrtc) : 0;
    return error != 0 ? fail_unknown(error, report) : status;
}

kiln_status kiln__nvrtc_load(kiln__nvrtc **out, const char *path, kiln_report *report)
{
    char reason[256];
    int error;
    *out = NULL;
    kiln_status status = drain_at_exit(NULL, report);
    if (status != KILN_OK)
        return status;
    kiln__nvrtc *nvrtc = kiln__calloc(1, sizeof(*nvrtc));
    if (nvrtc == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    kiln__dylib *library = open_library(path, reason, sizeof(reason), &error);
    if (library != NULL) {
        kiln__text_copy(nvrtc->path, sizeof(nvrtc->path), kiln__dylib_path(library));
        status = prepare_library(nvrtc, library, report);
        /* NVRTC is not unmapped: each time that happens, it leaves 72 KB of heap behind. */
        kiln__table_keep(library);
    } else {
        status = error != 0 ? fail_unknown(error, report) : fail_open(path, reason, report);
    }
    if (status == KILN_OK)
        *out = nvrtc;
    else
        kiln__free(nvrtc);
    return status;
}

/* One line for a file that is there: which one it is and whether it has changed. */
static void append_file(kiln__text *out, const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return;
    kiln__text_append(out, "file ");
    kiln__text_append(out, path);
    kiln__text_append(out, " ");
    kiln__file_append_stamp(&status, ":", out);
    kiln__text_append(out, "\n");
}

/* The loader's directories for this library's dlopen, LD_LIBRARY_PATH and run paths included, as they were when the
 * process started: what the environment says now need not be what the loader uses. NULL if it does not tell. */
static Dl_serinfo *loader_directories(void)
{
    Dl_info info;
    struct link_map *self = NULL;
    Dl_serinfo size, *out = NULL;
    if (dladdr1(symbols, &info, (void **)&self, RTLD_DL_LINKMAP) == 0 || self == NULL ||
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
    append_file(out, "/etc/ld.so.cache");
    Dl_serinfo *directories = loader_directories();
    kiln__text file = { 0 };
    size_t before = out->length;
    for (int i = 0; i < (path != NULL ? 1 : SONAMES) && out->length == before; i++) {
        const char *name = path != NULL ? path : sonames[i];
        kiln__list files = { 0 };
        for (unsigned k = 0; directories != NULL && k < directories->dls_cnt; k++) {
            file.length = 0;
            kiln__text_append(&file, directories->dls_serpath[k].dls_name);
            kiln__text_append(&file, "/");
            kiln__text_append(&file, name);
            append_file(out, kiln__text_string(&file));
        }
        if (path == NULL)
            add_toolkit_paths(&files, name);
        for (const char *at = NULL; (at = kiln__list_next(&files, at)) != NULL;)
            append_file(out, at);
        out->failed = out->failed || files.bytes.failed;
        kiln__list_fini(&files);
    }
    kiln__text_fini(&file);
    kiln__free(directories);
}

static bool has_file(const char *directory, const char *beside, const char *file, char *out, size_t size)
{
    return snprintf(out, size, "%s%s/%s", directory, beside, file) < (int)size && access(out, R_OK) == 0;
}

bool kiln__nvrtc_find_companion(const char *nvrtc, const char *wheel, const char *file, char *out, size_t size)
{
    char from[PATH_MAX], layout[64];
    const char *slash = strrchr(nvrtc, '/'), *roots[ROOTS];
    snprintf(layout, sizeof(layout), "/../../%s/lib", wheel);
    if (slash != NULL && snprintf(from, sizeof(from), "%.*s", (int)(slash - nvrtc), nvrtc) < (int)sizeof(from) &&
        (has_file(from, "", file, out, size) || has_file(from, layout, file, out, size)))
        return true;
    Dl_serinfo *directories = loader_directories();
    bool found = false;
    for (unsigned i = 0; directories != NULL && i < directories->dls_cnt && !found; i++)
        found = has_file(directories->dls_serpath[i].dls_name, "", file, out, size);
    kiln__free(directories);
    find_roots(roots);
    for (int i = 0; i < ROOTS && !found; i++)
        found = roots[i] != NULL && roots[i][0] == '/' && has_file(roots[i], "/lib64", file, out, size);
    return found;
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

/* ---- CUDA's own headers */

/* In place of a directory that is not there: nothing is ever in it. The compiler asks it as any other, so that what
 * was read says of each header that there was none, and one that appears is noticed. */
static const char nowhere[] = "/dev/null/none";

/* Directory `from`/`path`, resolved, if it has the file `witness`. */
static bool find_directory(char resolved[PATH_MAX], const char *from, const char *path, const char *witness)
{
    char directory[PATH_MAX], file[PATH_MAX + NAME_MAX];
    if (snprintf(directory, sizeof(directory), "%s/%s", from, path) >= (int)sizeof(directory) ||
        realpath(directory, resolved) == NULL)
        return false;
    snprintf(file, sizeof(file), "%s/%s", resolved, witness);
    return access(file, R_OK) == 0;
}

/* The number that a header defines a macro as, 0 if it cannot be read or does not. */
static long read_define(const char *directory, const char *header, const char *macro)
{
    enum { LIMIT = 4 << 20 };
    char path[PATH_MAX], wanted[64];
    void *text = NULL;
    size_t length;
    struct stat status;
    long number = 0;
    snprintf(wanted, sizeof(wanted), "#define %s ", macro);
    if (snprintf(path, sizeof(path), "%s/%s", directory, header) < (int)sizeof(path) &&
        kiln__file_read(&text, &length, AT_FDCWD, path, 0, LIMIT, &status) == 0) {
        const char *at = strstr(text, wanted);
        number = at != NULL ? strtol(at + strlen(wanted), NULL, 10) : 0;
    }
    kiln__free(text);
    return number;
}

/* CUDA_VERSION, 13000 for 13.0. */
static long cuda_version(const char *directory)
{
    return read_define(directory, "cuda.h", "CUDA_VERSION");
}

/* The directories found so far on the way through the places of CUDA's headers; "": not yet. */
typedef struct headers {
    char cuda[PATH_MAX], cccl[PATH_MAX];
} headers;

/* Looks for what is missing, seen from the directory of libnvrtc or from one beside it: a toolkit or a wheel of
 * CUDA 13, wheels of CUDA 12. CCCL may lie beside other headers of CUDA than those that were found, but of the same
 * major version. True if nothing is missing any more. */
static bool look_from(headers *found, const char *from)
{
    static const struct {
        const char *cuda, *cccl;
    } layouts[] = { { "../include", "../include/cccl" }, { "../../cuda_runtime/include", "../../cuda_cccl/include" } };
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]) && found->cccl[0] == '\0'; i++) {
        char cuda[PATH_MAX], cccl[PATH_MAX];
        bool first = found->cuda[0] == '\0';
        if (!find_directory(cuda, from, layouts[i].cuda, "cuda_fp16.h"))
            continue;
        if (first)
            memcpy(found->cuda, cuda, sizeof(cuda));
        if (find_directory(cccl, from, layouts[i].cccl, "cuda/std/version") &&
            (first || cuda_version(cuda) / 1000 == cuda_version(found->cuda) / 1000))
            memcpy(found->cccl, cccl, sizeof(cccl));
    }
    return found->cccl[0] != '\0';
}

void kiln__cuda_find_headers(const char *nvrtc, kiln__list *places)
{
    char from[PATH_MAX];
    const char *slash = strrchr(nvrtc, '/'), *roots[ROOTS];
    headers found;
    found.cuda[0] = found.cccl[0] = '\0';
    find_roots(roots);
    bool done = slash != NULL &&
                snprintf(from, sizeof(from), "%.*s", (int)(slash - nvrtc), nvrtc) < (int)sizeof(from) &&
                look_from(&found, from);
    for (int i = 0; i < ROOTS && !done; i++)
        done = roots[i] != NULL && roots[i][0] == '/' &&
               snprintf(from, sizeof(from), "%s/include", roots[i]) < (int)sizeof(from) && look_from(&found, from);
    kiln__list_add(places, "cuda");
    kiln__list_add(places, found.cuda[0] != '\0' ? found.cuda : nowhere);
    kiln__list_add(places, "cccl");
    kiln__list_add(places, found.cccl[0] != '\0' ? found.cccl : nowhere);
}

bool kiln__cuda_headers_facts(const char *place, const char *path, char version[KILN__HEADERS_VERSION_SIZE])
{
    bool cccl = strcmp(place, "cccl") == 0;
    long number = cccl ? read_define(path, "cuda/std/__cccl/version.h", "CCCL_VERSION") : cuda_version(path);
    version[0] = '\0';
    if (number > 0 && cccl)
        snprintf(version, KILN__HEADERS_VERSION_SIZE, "%ld.%ld.%ld", number / 1000000, number / 1000 % 1000,
                 number % 1000);
    else if (number > 0)
        snprintf(version, KILN__HEADERS_VERSION_SIZE, "%ld.%ld", number / 1000, number % 1000 / 10);
    return strcmp(path, nowhere) != 0;
}
