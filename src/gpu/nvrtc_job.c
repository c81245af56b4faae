#include "gpu/nvrtc_job.h"

#include "base/alloc.h"
#include "source/reads.h"
#include "source/standard.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_NAME "kiln.cu"

/* Besides the target. An optional one is left out for an NVRTC that does not know it; none of those changes what our
 * units compile to. */
typedef struct option {
    const char *text;
    bool optional;
    enum { EVERY, KILN, OWN, CLOSED } of; /* whose sources have it; CLOSED: users' own without a directory to search */
} option;

static const option options[] = {
    { "--no-cache", true, EVERY },          /* else NVRTC starts the driver and answers from its cache */
    { "-no-source-include", true, KILN },   /* else a header in the host's working directory is found */
    { "-no-source-include", true, CLOSED }, /* the same; a header among directories finds its neighbours by this */
    { "-modify-stack-limit=false", true, EVERY }, /* else the stack limit of the whole process goes up meanwhile */
    { "-frandom-seed=kiln", true, EVERY }, /* else names of internal symbols may hold the time and the process id */
    { "--minimal", true, KILN }, /* leaves textures and launches from kernels out: a tenth less time, the same bytes */
    { "-std=c++17", false, KILN },
    { "--fmad=false", false, KILN }, /* ops spell out where they fuse */
};
enum { OPTION_COUNT = sizeof(options) / sizeof(options[0]) };

static bool applies(const option *which, bool own, bool closed)
{
    return which->of == EVERY || which->of == (own ? OWN : KILN) || (which->of == CLOSED && own && closed);
}

void kiln__nvrtc_options(const kiln__unit *unit, kiln__text *out)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (applies(&options[i], kiln__unit_is_source(unit), false))
            kiln__text_printf(out, " %s", options[i].text);
}

/* Places are known to the compiler by number, wherever they are. */
static bool add_includes(kiln__nvrtc_job *job)
{
    const char *place = NULL, *path;
    while (kiln__list_next_pair(&job->unit->places, &place, &path)) {
        kiln__text_printf(&job->includes, "-I%s/%s", KILN__READS_ROOT, place);
        kiln__text_append_bytes(&job->includes, "", 1);
    }
    return !job->includes.failed;
}

static kiln_status create(kiln__nvrtc_job *job, kiln_report *report)
{
    const kiln__nvrtc *nvrtc = job->nvrtc;
    const kiln__unit *unit = job->unit;
    if (!kiln__unit_is_source(unit))
        return KILN__NVRTC(nvrtc, report, nvrtcCreateProgram,
                           (&job->program, unit->source, PROGRAM_NAME, 0, NULL, NULL));
    kiln__standard_headers(unit, &job->headers);
    const char **names = kiln__list_array(&job->headers, 0, 2), **texts = kiln__list_array(&job->headers, 1, 2);
    kiln_status status = KILN_ENOMEM;
    if (names != NULL && texts != NULL && !job->headers.bytes.failed && add_includes(job))
        status = KILN__NVRTC(nvrtc, report, nvrtcCreateProgram,
                             (&job->program, unit->source, unit->name, (int)(job->headers.count / 2), texts, names));
    else
        kiln__fail_memory(report, KILN__STAGE_COMPILE);
    kiln__free(names);
    kiln__free(texts);
    return status;
}

kiln_status kiln__nvrtc_job_start(kiln__nvrtc_job *out, const kiln__nvrtc *nvrtc, const kiln__unit *unit,
                                  kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    out->nvrtc = nvrtc;
    out->unit = unit;
    if (kiln__unit_is_source(unit) && (nvrtc->nvrtcAddNameExpression == NULL || nvrtc->nvrtcGetLoweredName == NULL))
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, 0,
                          "%s has no nvrtcGetLoweredName, which sources of your own need: install a newer NVRTC",
                          nvrtc->path);
    size_t room = OPTION_COUNT + 1 + unit->options.count + unit->places.count / 2;
    out->options = kiln__calloc(room, sizeof(*out->options));
    if (out->options == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    kiln_status status = create(out, report);
    for (const char *at = NULL; status == KILN_OK && (at = kiln__list_next(&unit->functions, at)) != NULL;)
        status = KILN__NVRTC(nvrtc, report, nvrtcAddNameExpression, (out->program, at));
    return status;
}

void kiln__nvrtc_job_end(kiln__nvrtc_job *job)
{
    if (job->program != NULL)
        job->nvrtc->nvrtcDestroyProgram(&job->program);
    kiln__free(job->log);
    kiln__free(job->options);
    kiln__text_fini(&job->includes);
    kiln__list_fini(&job->headers);
    memset(job, 0, sizeof(*job));
}

static kiln_status read_log(kiln__nvrtc_job *job, kiln_report *report)
{
    size_t size = 0;
    kiln__free(job->log);
    job->log = NULL;
    if (job->nvrtc->nvrtcGetProgramLogSize(job->program, &size) != KILN__NVRTC_SUCCESS || size <= 1)
        return KILN_OK;
    char *log = kiln__calloc(size + 1, 1);
    if (log == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (job->nvrtc->nvrtcGetProgramLog(job->program, log) == KILN__NVRTC_SUCCESS && log[0] != '\0')
        job->log = log;
    else
        kiln__free(log);
    return KILN_OK;
}

static void choose_options(kiln__nvrtc_job *job, const char *arch, unsigned dropped)
{
    const kiln__unit *unit = job->unit;
    const char *end = job->includes.data + job->includes.length;
    job->option_count = 0;
    job->options[job->option_count++] = arch;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (!(dropped >> i & 1) && applies(&options[i], kiln__unit_is_source(unit), job->includes.length == 0))
            job->options[job->option_count++] = options[i].text;
    for (const char *at = NULL; (at = kiln__list_next(&unit->options, at)) != NULL;)
        job->options[job->option_count++] = at;
    for (const char *at = job->includes.data; at != NULL && at < end; at += strlen(at) + 1)
        job->options[job->option_count++] = at;
}

/* The optional option that NVRTC complains of, -1 if none. */
static int refused_option(const kiln__nvrtc_job *job, unsigned dropped)
{
    if (job->code != KILN__NVRTC_ERROR_INVALID_OPTION || job->log == NULL)
        return -1;
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(options[i].text, "="), options[i].text);
        if (options[i].optional && !(dropped >> i & 1) && strstr(job->log, name) != NULL)
            return i;
    }
    return -1;
}

/* Those that NVRTC 13.0 asks for and that change what it makes, write files or may do either; and
 * NVRTC_PREPEND_FLAGS in advance, for nvcc has variables of both kinds. */
const char *kiln__nvrtc_steering(void)
{
    static const char *const names[] = { "NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS", "NVRTCWIZ",
                                         "NV_NVVM_VERSION",    "NVVM_IR_VER_CHK",     "LLVM_OVERRIDE_PRODUCER",
                                         "EDG_BASE",           "EDG_MODULES_PATH",    "CAN_FINALIZE_DEBUG",
                                         "DUMP_KNOBS_TO_FILE", "AS_SECURE_LOG_FILE" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]) != NULL)
            return names[i];
    return NULL;
}

kiln_status kiln__nvrtc_job_run(kiln__nvrtc_job *job, const char *arch, atomic_uint *dropped, const kiln__log *log,
                                kiln_report *report)
{
    const char *steering = kiln__nvrtc_steering();
    if (steering != NULL)
        return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, 0,
                          "%s is set, by which NVRTC would make other code: unset it, or let workers compile "
                          "(KILN_ISOLATE=auto), which do not get it",
                          steering);
    for (;;) {
        unsigned left_out = atomic_load(dropped);
        choose_options(job, arch, left_out);
        job->code = job->nvrtc->nvrtcCompileProgram(job->program, job->option_count, job->options);
        kiln_status status = read_log(job, report);
        int refused = status == KILN_OK ? refused_option(job, left_out) : -1;
        if (refused < 0)
            return status;
        atomic_fetch_or(dropped, 1u << refused);
        kiln__log_line(log, KILN_LOG_DEBUG, "this NVRTC does not know %s: left out", options[refused].text);
    }
}

kiln_status kiln__nvrtc_job_ptx(const kiln__nvrtc_job *job, char **out, size_t *length, kiln_report *report)
{
    size_t size = 0;
    *out = NULL;
    *length = 0;
    kiln_status status = KILN__NVRTC(job->nvrtc, report, nvrtcGetPTXSize, (job->program, &size));
    if (status != KILN_OK)
        return status;
    char *ptx = *out = kiln__calloc(size + 1, 1);
    if (ptx == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    status = KILN__NVRTC(job->nvrtc, report, nvrtcGetPTX, (job->program, ptx));
    *length = strlen(ptx);
    return status;
}

kiln_status kiln__nvrtc_job_cubin(const kiln__nvrtc_job *job, void **out, size_t *length, kiln_report *report)
{
    size_t size = 0;
    *out = NULL;
    *length = 0;
    kiln_status status = KILN__NVRTC(job->nvrtc, report, nvrtcGetCUBINSize, (job->program, &size));
    if (status != KILN_OK)
        return status;
    *out = kiln__calloc(size + 1, 1);
    if (*out == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    *length = size;
    return KILN__NVRTC(job->nvrtc, report, nvrtcGetCUBIN, (job->program, *out));
}

kiln_status kiln__nvrtc_job_names(const kiln__nvrtc_job *job, kiln__text *out, kiln_report *report)
{
    const kiln__list *functions = &job->unit->functions;
    for (const char *at = kiln__list_next(functions, NULL); at != NULL; at = kiln__list_next(functions, at)) {
        const char *lowered = NULL;
        kiln_status status = KILN__NVRTC(job->nvrtc, report, nvrtcGetLoweredName, (job->program, at, &lowered));
        if (status != KILN_OK)
            return status;
        kiln__text_printf(out, "%s\n", lowered);
    }
    return out->failed ? kiln__fail_memory(report, KILN__STAGE_COMPILE) : KILN_OK;
}
