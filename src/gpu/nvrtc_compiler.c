#include "base/alloc.h"
#include "base/digest.h"
#include "gpu/cubin.h"
#include "gpu/cuda.h"
#include "gpu/nvrtc_call.h"
#include "gpu/nvrtc_job.h"
#include "source/kernels.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct compiler {
    kiln__compiler compiler;
    const kiln__log *log;
    char *path;          /* NULL: search */
    atomic_uint dropped; /* options that the opened NVRTC does not know, a bit each */
    pthread_mutex_t lock;
    kiln__nvrtc *nvrtc;         /* NULL until opened, under the lock; constant from then on */
    kiln__toolchain *toolchain; /* the same, under the lock; large */
} compiler;

static void search(const kiln__compiler *base, kiln__text *out)
{
    kiln__nvrtc_search(((const compiler *)base)->path, out);
}

/* The key text of a source names the target itself. */
static void append_options(const kiln__compiler *base, const kiln__unit *unit, kiln__text *out)
{
    (void)base;
    if (!kiln__unit_is_source(unit))
        kiln__text_printf(out, "--gpu-architecture=%s", unit->target.name);
    kiln__nvrtc_options(unit, out);
}

/* ---- Opening */

static kiln_status ask_targets(const kiln__nvrtc *nvrtc, kiln__toolchain *out, kiln_report *report)
{
    int count = 0;
    kiln_status status = KILN__NVRTC(nvrtc, report, nvrtcGetNumSupportedArchs, (&count));
    if (status != KILN_OK)
        return status;
    int *archs = kiln__calloc(count > 0 ? (size_t)count : 1, sizeof(*archs));
    if (archs == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    status = KILN__NVRTC(nvrtc, report, nvrtcGetSupportedArchs, (archs));
    for (int i = 0; i < count && status == KILN_OK && out->target_count < KILN__TARGETS_MAX; i++) {
        char name[KILN__TARGET_SIZE];
        int length = snprintf(name, sizeof(name), "sm_%d", archs[i]);
        if (kiln__target_parse(name, (size_t)length, &out->targets[out->target_count]))
            out->target_count++;
    }
    kiln__free(archs);
    return status;
}

/* The result of opening NVRTC, and the library asked for. */
typedef struct opened {
    const char *path; /* of the library, NULL: search */
    kiln__nvrtc *nvrtc;
    kiln__toolchain *toolchain;
} opened;

/* Inside a call. */
static kiln_status open_library(void *data, kiln_report *report)
{
    opened *out = data;
    kiln__toolchain *toolchain = out->toolchain = kiln__calloc(1, sizeof(*toolchain));
    if (toolchain == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    kiln_status status = kiln__nvrtc_load(&out->nvrtc, out->path, report);
    if (status == KILN_OK)
        status = ask_targets(out->nvrtc, toolchain, report);
    if (status != KILN_OK)
        return status;
    snprintf(toolchain->version, sizeof(toolchain->version), "%d.%d", out->nvrtc->major, out->nvrtc->minor);
    kiln__text_copy(toolchain->path, sizeof(toolchain->path), out->nvrtc->path);
    return KILN_OK;
}

/* True if it is open, by now or since before; then what is known of it is in *toolchain, and what was opened is kept
 * and taken from *fresh, if it is the first. */
static bool look(compiler *self, opened *fresh, kiln__toolchain *toolchain)
{
    pthread_mutex_lock(&self->lock);
    if (self->nvrtc == NULL && fresh != NULL) {
        self->nvrtc = fresh->nvrtc;
        self->toolchain = fresh->toolchain;
        *fresh = (opened){ 0 };
    }
    bool open = self->nvrtc != NULL;
    if (open)
        *toolchain = *self->toolchain;
    pthread_mutex_unlock(&self->lock);
    return open;
}

/* Opens it without the lock, which threads inside NVRTC take: exit() waits for them, and the host's log function may
 * call it. Of threads that open it at the same time all but one do it for nothing. */
static kiln_status open_compiler(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    compiler *self = (compiler *)base;
    opened fresh = { .path = self->path };
    if (look(self, NULL, out))
        return KILN_OK;
    kiln_status status = kiln__nvrtc_call(open_library, &fresh, report);
    if (status == KILN_OK && look(self, &fresh, out) && fresh.nvrtc == NULL)
        kiln__log_line(self->log, KILN_LOG_INFO, "NVRTC %s, version %s", out->path, out->version);
    kiln__nvrtc_unload(fresh.nvrtc);
    kiln__free(fresh.toolchain);
    return status;
}

/* ---- Identity: only the comment that PTX begins with tells the build, nvrtcVersion says no more than 13.0 */

/* What stands between `before` and the next character that is neither digit nor '.'; empty if `before` is missing. */
static void take_number(const char *ptx, const char *before, char *out, size_t size)
{
    const char *at = strstr(ptx, before);
    at = at != NULL ? at + strlen(before) : "";
    size_t length = strspn(at, "0123456789.");
    snprintf(out, size, "%.*s", (int)(length < size ? length : size - 1), at);
}

static void read_identity(const kiln__nvrtc *nvrtc, const char *ptx, char id[KILN__ENTRY_TOOLCHAIN_SIZE], char *version,
                          size_t version_size)
{
    char release[24], build[24];
    take_number(ptx, ", V", release, sizeof(release));
    take_number(ptx, "Compiler Build ID: CL-", build, sizeof(build));
    if (release[0] != '\0' && build[0] != '\0') {
        snprintf(id, KILN__ENTRY_TOOLCHAIN_SIZE, "nvrtc-%s-%s", release, build);
        snprintf(version, version_size, "%d.%d (V%s, build %s)", nvrtc->major, nvrtc->minor, release, build);
        return;
    }
    /* A banner of another form: whatever it says up to the first directive tells this build from others. */
    const char *end = strstr(ptx, ".version");
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    kiln__digest(digest, ptx, end != NULL ? (size_t)(end - ptx) : strlen(ptx));
    kiln__digest_hex(hex, digest);
    snprintf(id, KILN__ENTRY_TOOLCHAIN_SIZE, "nvrtc-%d.%d-x%.16s", nvrtc->major, nvrtc->minor, hex);
    snprintf(version, version_size, "%d.%d", nvrtc->major, nvrtc->minor);
}

static void learn_identity(compiler *self, const char *ptx, char id[KILN__ENTRY_TOOLCHAIN_SIZE])
{
    char version[sizeof(self->toolchain->version)];
    read_identity(self->nvrtc, ptx, id, version, sizeof(version));
    pthread_mutex_lock(&self->lock);
    memcpy(self->toolchain->id, id, KILN__ENTRY_TOOLCHAIN_SIZE);
    memcpy(self->toolchain->version, version, sizeof(version));
    pthread_mutex_unlock(&self->lock);
}

/* ---- Compiling */

/* The first line of the log that speaks of an error, else its first line. */
static void first_error(const char *log, char *out, size_t size)
{
    const char *at = strstr(log, "error: ");
    at = at != NULL ? at : strstr(log, "error");
    while (at != NULL && at > log && at[-1] != '\n')
        at--;
    if (at == NULL)
        at = log + strspn(log, "\n");
    snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
}

/* Of two targets the nearer is the one that is not newer: what it builds may run on the chip that was meant. */
static const char *nearest_target(const kiln__toolchain *toolchain, const kiln__target *target)
{
    const char *best = toolchain->target_count > 0 ? toolchain->targets[0].name : "";
    for (uint32_t i = 0; i < toolchain->target_count; i++)
        if (toolchain->targets[i].sm <= target->sm)
            best = toolchain->targets[i].name;
    return best;
}

static kiln_status refuse_target(const kiln__toolchain *toolchain, const kiln__target *target, kiln_report *report)
{
    kiln__text list = { 0 };
    for (uint32_t i = 0; i < toolchain->target_count; i++)
        kiln__text_printf(&list, "%s%s", i > 0 ? " " : "", toolchain->targets[i].name);
    kiln_status status = kiln__fail(report, KILN_ETARGET, KILN__STAGE_COMPILE, KILN__NVRTC_ERROR_INVALID_OPTION,
                                    "NVRTC %s cannot build for %s: it builds %s; the nearest is %s", toolchain->version,
                                    target->name, kiln__text_string(&list), nearest_target(toolchain, target));
    kiln__text_fini(&list);
    return status;
}

static bool is_listed(const kiln__toolchain *toolchain, const kiln__target *target)
{
    for (uint32_t i = 0; i < toolchain->target_count; i++)
        if (toolchain->targets[i].sm == target->sm)
            return true;
    return false;
}

/* What the text has, for who has asked for something else. */
static void append_offer(kiln__text *out, const kiln__unit *unit)
{
    kiln__text list = { 0 };
    kiln__source_list_kernels(&list, unit);
    if (list.length > 0)
        kiln__text_printf(out, "; its text has: %s", kiln__text_string(&list));
    else
        kiln__text_append(out, "; its text has no __global__ function");
    kiln__text_fini(&list);
}

/* NVRTC parses the names of the wanted functions in a separate file, a line for each, and shows the line under an
 * error. False if the first error is another one. */
static bool fail_function(const char *log, const kiln__unit *unit, kiln_report *report)
{
    static const char file[] = "__nv_name_map(", pragma[] = "#pragma nv_mangled_name ", mark[] = "): error: ";
    const char *error = strstr(log, mark), *at = error;
    while (at != NULL && at > log && at[-1] != '\n')
        at--;
    const char *line = at != NULL && strncmp(at, file, sizeof(file) - 1) == 0 ? strstr(error, pragma) : NULL;
    if (line == NULL)
        return false;
    line += sizeof(pragma) - 1;
    error += sizeof(mark) - 1;
    bool variable = line[0] == '&';
    kiln__text offer = { 0 };
    if (!variable)
        append_offer(&offer, unit);
    kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, KILN__NVRTC_ERROR_COMPILATION,
               "the source has no %s '%.*s': %.*s%s", variable ? "variable" : "function", (int)strcspn(line, "\n"),
               line, (int)strcspn(error, "\n"), error, kiln__text_string(&offer));
    kiln__text_fini(&offer);
    return true;
}

/* The advice for an error for which NVRTC suggests an option that only nvcc has. */
static const char *advice_for(const char *error)
{
    if (strstr(error, "annotation on lambda requires") == NULL)
        return "";
    return ", which NVRTC does not have: leave the annotation out, a lambda in device code needs none";
}

static kiln_status fail_compile(const kiln__nvrtc_job *job, const kiln__toolchain *toolchain, const kiln__unit *unit,
                                kiln_report *report)
{
    char line[256];
    const char *log = job->log != NULL ? job->log : "";
    /* A suffix that the chip does not have is found out by NVRTC, or only by the compiler below it. */
    if ((job->code == KILN__NVRTC_ERROR_INVALID_OPTION && strstr(log, "gpu-architecture") != NULL) ||
        strstr(log, "no value specified with --nv_arch") != NULL)
        return refuse_target(toolchain, &unit->target, report);
    kiln__report_set_log(report, job->log);
    if (job->code != KILN__NVRTC_ERROR_COMPILATION || log[0] == '\0')
        return kiln__nvrtc_result(job->nvrtc, "nvrtcCompileProgram", job->code, report);
    if (kiln__unit_is_source(unit) && fail_function(log, unit, report))
        return KILN_ECOMPILE;
    first_error(log, line, sizeof(line));
    return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, (int)job->code, "compiling for %s failed: %s%s",
                      unit->target.name, line, advice_for(line));
}

/* One line of two texts that go together. */
static const char *next_line(const char *at, char *out, size_t size)
{
    size_t length = strcspn(at, "\n");
    snprintf(out, size, "%.*s", (int)length, at);
    return at[length] == '\n' && length < size ? at + length + 1 : NULL;
}

static bool is_line_list(const char *text)
{
    return text != NULL && text[0] != '\0' && text[0] != '\n' && text[strlen(text) - 1] == '\n';
}

static kiln_status fail_without_function(const kiln__unit *unit, kiln_report *report)
{
    kiln__text offer = { 0 };
    append_offer(&offer, unit);
    kiln_status status = kiln__fail(
        report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
        "the source has no function for the host to launch: make one extern \"C\" __global__, or ask for those that it "
        "is to have%s",
        kiln__text_string(&offer));
    kiln__text_fini(&offer);
    return status;
}

static kiln_status fail_other_function(const char *function, const kiln__unit *unit, kiln_report *report)
{
    kiln__text offer = { 0 };
    append_offer(&offer, unit);
    kiln_status status =
        kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                   "'%.100s' is no __global__ function of the source, which the code for %s has no entry point for%s",
                   function, unit->target.name, kiln__text_string(&offer));
    kiln__text_fini(&offer);
    return status;
}

static kiln_status check_functions(const kiln__image *image, const kiln__unit *unit, kiln_report *report)
{
    enum { LINE = 4096 };
    char function[LINE], name[LINE];
    if (!is_line_list(image->functions) || !is_line_list(image->names))
        return fail_without_function(unit, report);
    const char *asked = image->functions, *named = image->names;
    while (asked != NULL && asked[0] != '\0' && named != NULL && named[0] != '\0') {
        asked = next_line(asked, function, sizeof(function));
        named = next_line(named, name, sizeof(name));
        if (function[0] != '&' && !kiln__cubin_has_entry(image->binary, name))
            return fail_other_function(function, unit, report);
    }
    if (asked != NULL && named != NULL && asked[0] == '\0' && named[0] == '\0')
        return KILN_OK;
    return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                      "NVRTC did not name each of the functions that were asked for");
}

kiln_status kiln__nvrtc_check_image(const kiln__image *image, const kiln__unit *unit, kiln_report *report)
{
    char reason[KILN__CUBIN_REASON_SIZE];
    if (!kiln__cubin_check(image->binary, image->binary_length, reason))
        return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0, "NVRTC made no usable cubin for %s: %s",
                          unit->target.name, reason);
    if (!kiln__ptx_check(image->ptx, image->ptx_length, unit->target.sm, reason))
        return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0, "NVRTC made no usable PTX for %s: %s",
                          unit->target.name, reason);
    for (uint32_t i = 0; i < unit->rule.entry_count; i++) {
        const char *name = unit->rule.entries[i].name;
        bool in_cubin = kiln__cubin_has_entry(image->binary, name);
        if (!in_cubin || !kiln__ptx_has_entry(image->ptx, image->ptx_length, name))
            return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                              "the %s for %s has no entry point '%s', which the template declares",
                              in_cubin ? "PTX" : "cubin", unit->target.name, name);
    }
    return kiln__unit_is_source(unit) ? check_functions(image, unit, report) : KILN_OK;
}

static void add_line(void *data, const char *name)
{
    kiln__text_printf(data, "%s\n", name);
}

/* Fills image->functions and image->names: what was asked for, or all that there is. */
static kiln_status name_functions(const kiln__nvrtc_job *job, kiln__image *image, kiln_report *report)
{
    const kiln__list *functions = &job->unit->functions;
    char reason[KILN__CUBIN_REASON_SIZE];
    kiln__text asked = { 0 }, names = { 0 };
    kiln_status status = KILN_OK;
    for (const char *at = kiln__list_next(functions, NULL); at != NULL; at = kiln__list_next(functions, at))
        kiln__text_printf(&asked, "%s\n", at);
    if (functions->count > 0)
        status = kiln__nvrtc_job_names(job, &names, report);
    else if (kiln__cubin_check(image->binary, image->binary_length, reason))
        kiln__cubin_kernels(image->binary, add_line, &names);
    if (functions->count == 0)
        kiln__text_append(&asked, kiln__text_string(&names));
    image->functions = kiln__text_take(&asked);
    image->names = kiln__text_take(&names);
    if (status == KILN_OK && (image->functions == NULL || image->names == NULL))
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    return status;
}

static kiln_status collect(compiler *self, kiln__nvrtc_job *job, const kiln__unit *unit, kiln__image *out,
                           kiln_report *report)
{
    kiln_status status = kiln__nvrtc_job_cubin(job, &out->binary, &out->binary_length, report);
    if (status == KILN_OK && kiln__unit_is_source(unit))
        status = name_functions(job, out, report);
    if (status == KILN_OK)
        status = kiln__nvrtc_job_ptx(job, &out->ptx, &out->ptx_length, report);
    if (status == KILN_OK)
        status = kiln__nvrtc_check_image(out, unit, report);
    if (status != KILN_OK)
        return status;
    learn_identity(self, out->ptx, out->toolchain);
    out->log = job->log;
    job->log = NULL;
    return KILN_OK;
}

/* One compile, for the functions that are called inside a kiln__nvrtc_call. */
typedef struct task {
    compiler *self;
    const kiln__toolchain *toolchain;
    const kiln__unit *unit;
    kiln__image *out;
} task;

static kiln_status compile_unit(void *data, kiln_report *report)
{
    const task *todo = data;
    const kiln__unit *unit = todo->unit;
    kiln__nvrtc_job job = { 0 };
    char arch[32 + KILN__TARGET_SIZE];
    snprintf(arch, sizeof(arch), "--gpu-architecture=%s", unit->target.name);
    kiln_status status = kiln__nvrtc_job_start(&job, todo->self->nvrtc, unit, report);
    if (status == KILN_OK)
        status = kiln__nvrtc_job_run(&job, arch, &todo->self->dropped, todo->self->log, report);
    if (status == KILN_OK && job.code != KILN__NVRTC_SUCCESS)
        status = fail_compile(&job, todo->toolchain, unit, report);
    if (status == KILN_OK)
        status = collect(todo->self, &job, unit, todo->out, report);
    kiln__nvrtc_job_end(&job);
    return status;
}

static kiln_status compile_with_nvrtc(kiln__compiler *base, const kiln__unit *unit, kiln__image *out,
                                      kiln_report *report)
{
    kiln__toolchain toolchain;
    task todo = { (compiler *)base, &toolchain, unit, out };
    memset(out, 0, sizeof(*out));
    kiln_status status = open_compiler(base, &toolchain, report);
    if (status != KILN_OK)
        return status;
    if (!is_listed(&toolchain, &unit->target))
        return refuse_target(&toolchain, &unit->target, report);
    status = kiln__nvrtc_call(compile_unit, &todo, report);
    if (status != KILN_OK)
        kiln__image_fini(out);
    return status;
}

/* PTX alone carries the banner, so the assembler need not run. */
static kiln_status compile_probe(void *data, kiln_report *report)
{
    const task *todo = data;
    compiler *self = todo->self;
    const kiln__toolchain *toolchain = todo->toolchain;
    static char text[] = "extern \"C\" __global__ void kiln() {}\n";
    const kiln__unit probe = { .source = text, .source_length = sizeof(text) - 1 };
    kiln__nvrtc_job job = { 0 };
    char arch[64], id[KILN__ENTRY_TOOLCHAIN_SIZE];
    char *ptx = NULL;
    size_t length;
    snprintf(arch, sizeof(arch), "--gpu-architecture=compute_%d",
             toolchain->target_count > 0 ? toolchain->targets[toolchain->target_count - 1].sm : 75);
    kiln_status status = kiln__nvrtc_job_start(&job, self->nvrtc, &probe, report);
    if (status == KILN_OK)
        status = kiln__nvrtc_job_run(&job, arch, &self->dropped, self->log, report);
    if (status == KILN_OK)
        status = kiln__nvrtc_result(self->nvrtc, "nvrtcCompileProgram", job.code, report);
    if (status == KILN_OK)
        status = kiln__nvrtc_job_ptx(&job, &ptx, &length, report);
    if (status == KILN_OK)
        learn_identity(self, ptx, id);
    else if (job.log != NULL)
        kiln__report_set_log(report, job.log);
    kiln__free(ptx);
    kiln__nvrtc_job_end(&job);
    return status;
}

static kiln_status identify(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    task todo = { (compiler *)base, out, NULL, NULL };
    kiln_status status = open_compiler(base, out, report);
    if (status != KILN_OK || out->id[0] != '\0')
        return status;
    status = kiln__nvrtc_call(compile_probe, &todo, report);
    return status == KILN_OK ? open_compiler(base, out, report) : status;
}

static void close_compiler(kiln__compiler *base)
{
    compiler *self = (compiler *)base;
    if (self == NULL)
        return;
    kiln__nvrtc_unload(self->nvrtc);
    pthread_mutex_destroy(&self->lock);
    kiln__free(self->toolchain);
    kiln__free(self->path);
    kiln__free(self);
}

static const kiln__compiler_vtable vtable = {
    .name = "nvrtc",
    .search = search,
    .options = append_options,
    .open = open_compiler,
    .identify = identify,
    .compile = compile_with_nvrtc,
    .close = close_compiler,
};

kiln__compiler *kiln__cuda_compiler_open(const char *nvrtc, const kiln__log *log)
{
    compiler *self = kiln__calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->compiler.vtable = &vtable;
    self->log = log;
    self->path = kiln__strdup(nvrtc);
    if (nvrtc != NULL && self->path == NULL) {
        kiln__free(self);
        return NULL;
    }
    atomic_init(&self->dropped, 0);
    pthread_mutex_init(&self->lock, NULL);
    return &self->compiler;
}
