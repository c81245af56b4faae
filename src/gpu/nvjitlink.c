/* Finds and opens nvJitLink, and links with it. */
#include "gpu/nvjitlink.h"

#include "base/alloc.h"
#include "base/report.h"
#include "gpu/driver.h"
#include "gpu/nvrtc.h"
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define RUNTIME "libcudadevrt.a"

enum { RUNTIME_MAX = 64 << 20 };

/* ---- Finding and opening */

kiln_status kiln__nvjitlink_find(const char *nvrtc, const char *version, kiln__list *files, kiln_report *report)
{
    char name[32], path[PATH_MAX];
    int major = (int)strcspn(version, ".");
    snprintf(name, sizeof(name), "libnvJitLink.so.%.*s", major, version);
    if (!kiln__nvrtc_find_companion(nvrtc, "nvjitlink", name, path, sizeof(path)))
        return kiln__fail(
            report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
            "linking needs %s, and there is none beside %s, in its wheel's directory, on the loader's path "
            "or in lib64 under CUDA_PATH, CUDA_HOME and /usr/local/cuda: install the CUDA toolkit of that "
            "NVRTC or the wheel nvidia-nvjitlink%s",
            name, nvrtc[0] != '\0' ? nvrtc : "NVRTC", major == 2 && version[1] < '3' ? "-cu12" : "");
    kiln__list_add(files, path);
    if (kiln__nvrtc_find_companion(nvrtc, "cuda_runtime", RUNTIME, path, sizeof(path)))
        kiln__list_add(files, path);
    return files->bytes.failed ? kiln__fail_memory(report, KILN__STAGE_OPEN) : KILN_OK;
}

static const kiln__symbol symbols[] = {
#define ROW(name, result, parameters) { KILN__REQUIRED, #name, #name, 12030, offsetof(kiln__nvjitlink, name) },
    KILN__NVJITLINK_SYMBOLS(ROW)
#undef ROW
};

static kiln_status prepare_linker(kiln__nvjitlink *linker, kiln__dylib *library, const char *version,
                                  kiln_report *report)
{
    unsigned major = 0, minor = 0;
    const char *path = kiln__dylib_name(library);
    const kiln__symbol *missing =
        kiln__table_fill(linker, symbols, sizeof(symbols) / sizeof(symbols[0]), library, NULL);
    if (missing != NULL)
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                          "%s has no %s (new in CUDA 12.3): install the nvJitLink of NVRTC %s", path, missing->name,
                          version);
    if (linker->nvJitLinkVersion(&linker->major, &linker->minor) != KILN__NVJITLINK_SUCCESS ||
        sscanf(version, "%u.%u", &major, &minor) != 2 || linker->major != major || linker->minor < minor)
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                          "%s is nvJitLink %u.%u, and code of NVRTC %s needs %u.%u or a later %u: install the CUDA "
                          "toolkit or the wheels of one version",
                          path, linker->major, linker->minor, version, major, minor, major);
    return KILN_OK;
}

static kiln_status open_linker(kiln__nvjitlink *linker, const char *path, const char *version, kiln_report *report)
{
    const char *const names[] = { path, NULL };
    char reason[256];
    kiln__dylib *library = kiln__dylib_open(names, reason, sizeof(reason));
    if (library == NULL && errno != ENOENT)
        return errno == ENOMEM ? kiln__fail_memory(report, KILN__STAGE_OPEN)
                               : kiln__fail_shortage(report, KILN__STAGE_OPEN, errno, "open nvJitLink");
    if (library == NULL)
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                          "cannot open nvJitLink: %s: install the one of NVRTC %s", reason, version);
    kiln_status status = prepare_linker(linker, library, version, report);
    kiln__table_keep(library);
    return status;
}

kiln_status kiln__nvjitlink_load(kiln__nvjitlink **out, const kiln__list *files, const char *version,
                                 kiln_report *report)
{
    const char *path = kiln__list_next(files, NULL), *runtime = kiln__list_next(files, path);
    struct stat unused;
    kiln__nvjitlink *linker = kiln__calloc(1, sizeof(*linker));
    *out = NULL;
    if (linker == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    kiln_status status = open_linker(linker, path, version, report);
    int error = 0;
    if (status == KILN_OK && runtime != NULL)
        error = kiln__file_read(&linker->runtime, &linker->runtime_length, AT_FDCWD, runtime, 0, RUNTIME_MAX, &unused);
    if (error == -ENOMEM)
        status = kiln__fail_memory(report, KILN__STAGE_OPEN);
    else if (error != 0)
        status = kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, -error, "cannot read %s: %s: reinstall it",
                            runtime, strerrordesc_np(-error));
    if (status == KILN_OK)
        *out = linker;
    else
        kiln__nvjitlink_free(linker);
    return status;
}

void kiln__nvjitlink_free(kiln__nvjitlink *linker)
{
    if (linker != NULL)
        kiln__free(linker->runtime);
    kiln__free(linker);
}

/* ---- Linking */

/* The first failure sets `code`, and later calls are not made. */
typedef struct link_job {
    const kiln__nvjitlink *linker;
    nvJitLinkHandle handle;
    kiln__nvjitlink_enum code;
    bool no_memory; /* Kiln's */
    char *log;
} link_job;

#define LINK(job, name, arguments)                       \
    do {                                                 \
        if ((job)->code == KILN__NVJITLINK_SUCCESS)      \
            (job)->code = (job)->linker->name arguments; \
    } while (0)

static void read_log(link_job *job)
{
    size_t size = 0;
    if (job->handle == NULL || job->linker->nvJitLinkGetErrorLogSize(job->handle, &size) != KILN__NVJITLINK_SUCCESS ||
        size == 0)
        return;
    job->log = kiln__calloc(size + 1, 1);
    job->no_memory = job->no_memory || job->log == NULL;
    if (job->log != NULL)
        job->linker->nvJitLinkGetErrorLog(job->handle, job->log);
}

static void read_cubin(link_job *job, void **cubin, size_t *length)
{
    *length = 0;
    LINK(job, nvJitLinkGetLinkedCubinSize, (job->handle, length));
    *cubin = job->code == KILN__NVJITLINK_SUCCESS ? kiln__calloc(*length + 1, 1) : NULL;
    job->no_memory = job->no_memory || (job->code == KILN__NVJITLINK_SUCCESS && *cubin == NULL);
    if (*cubin != NULL)
        LINK(job, nvJitLinkGetLinkedCubin, (job->handle, *cubin));
}

static void run_link(link_job *job, const char **options, size_t option_count, kiln__nvjitlink_enum type,
                     const kiln__link_input *inputs, size_t count, bool with_runtime)
{
    const kiln__nvjitlink *linker = job->linker;
    LINK(job, nvJitLinkCreate, (&job->handle, (uint32_t)option_count, options));
    for (size_t i = 0; i < count; i++)
        LINK(job, nvJitLinkAddData, (job->handle, type, inputs[i].data, inputs[i].length, inputs[i].name));
    if (with_runtime)
        LINK(job, nvJitLinkAddData,
             (job->handle, KILN__NVJITLINK_INPUT_LIBRARY, linker->runtime, linker->runtime_length, RUNTIME));
    LINK(job, nvJitLinkComplete, (job->handle));
    read_log(job);
}

static void end_link(link_job *job)
{
    if (job->handle != NULL)
        job->linker->nvJitLinkDestroy(&job->handle);
    kiln__free(job->log);
    *job = (link_job){ .linker = job->linker };
}

/* The forms of the linker and of the assembler that it calls. */
static bool lacks_symbol(const char *log)
{
    return log != NULL && (strstr(log, "Undefined reference to") != NULL || strstr(log, "Unresolved extern") != NULL);
}

/* The log begins with the first error. "error   : Undefined reference to 'f' in 'a.cu'" */
static kiln_status fail_link(const link_job *job, kiln_report *report)
{
    char line[320];
    const char *log = job->log != NULL && job->log[0] != '\0' ? job->log : "the linker gave no reason", *at = log;
    if (strncmp(at, "error", 5) == 0)
        at += 5 + strspn(at + 5, " :");
    if (strncmp(at, "ERROR in nvvmCompileProgram", 27) == 0 && strchr(at, '\n') != NULL)
        at = strchr(at, '\n') + 1;
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
    bool runtime = job->linker->runtime == NULL && strstr(log, "__cudaCDP") != NULL;
    kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, (int)job->code, "linking failed: %s%s", line,
               runtime ? ": kernels that launch kernels need " RUNTIME
                         ", which is not beside nvJitLink or NVRTC: install "
                         "the CUDA toolkit or the wheel nvidia-cuda-runtime"
                       : "");
    kiln__report_set_log(report, job->log);
    return KILN_ECOMPILE;
}

/* The runtime comes only where something is missing: the linker takes all of it, 200 KB, whether it is used or not. */
kiln_status kiln__nvjitlink_link(const kiln__nvjitlink *linker, const kiln__list *options, bool optimize,
                                 const kiln__link_input *inputs, size_t count, void **cubin, size_t *length,
                                 kiln_report *report)
{
    kiln__nvjitlink_enum type = optimize ? KILN__NVJITLINK_INPUT_LTOIR : KILN__NVJITLINK_INPUT_CUBIN;
    link_job job = { .linker = linker };
    const char **array = kiln__list_array(options, 0, 1);
    *cubin = NULL;
    if (array == NULL || options->bytes.failed) {
        kiln__free(array);
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    }
    run_link(&job, array, options->count, type, inputs, count, false);
    if (job.code != KILN__NVJITLINK_SUCCESS && lacks_symbol(job.log) && linker->runtime != NULL) {
        end_link(&job);
        run_link(&job, array, options->count, type, inputs, count, true);
    }
    if (job.code == KILN__NVJITLINK_SUCCESS)
        read_cubin(&job, cubin, length);
    kiln_status status = job.no_memory                         ? kiln__fail_memory(report, KILN__STAGE_COMPILE)
                         : job.code != KILN__NVJITLINK_SUCCESS ? fail_link(&job, report)
                                                               : KILN_OK;
    if (status != KILN_OK) {
        kiln__free(*cubin);
        *cubin = NULL;
    }
    end_link(&job);
    kiln__free(array);
    return status;
}
