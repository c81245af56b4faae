/* The compiler of the cuda backend: NVRTC, its options, and the meaning of its answers. */
#include "base/alloc.h"
#include "base/digest.h"
#include "gpu/cubin.h"
#include "gpu/cuda.h"
#include "gpu/nvjitlink.h"
#include "gpu/nvrtc.h"
#include "source/reads.h"
#include "source/source.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_NAME "kiln.cu"

typedef struct compiler {
    kiln__compiler compiler;
    const kiln__log *log;
    char *path;          /* NULL: search */
    atomic_uint dropped; /* options that the opened NVRTC does not know, a bit each */
    pthread_mutex_t lock;
    kiln__nvrtc *nvrtc;         /* NULL until opened, under the lock; constant from then on */
    kiln__toolchain *toolchain; /* the same, under the lock; large */
    kiln__nvjitlink *linker;    /* NULL unless it was loaded; constant */
} compiler;

/* ---- Options */

/* Besides the target. An optional one is left out for an NVRTC that does not know it; none of those changes what Kiln's
 * units compile to. */
typedef struct option {
    const char *text;
    bool optional;
    /* The units that have it. CLOSED: compiled as a source, without a directory to search. DEVICE: a source whose
     * functions without annotation are device functions. TEMPLATE: any template that does not set it itself.
     * SPELT: the same, unless it contracts. */
    enum { EVERY, KILN, CLOSED, DEVICE, TEMPLATE, SPELT } of;
} option;

static const option options[] = {
    { "--no-cache", true, EVERY },          /* else NVRTC starts the driver and answers from its cache */
    { "-no-source-include", true, KILN },   /* else a header in the host's working directory is found */
    { "-no-source-include", true, CLOSED }, /* the same; a header among directories finds its neighbours by this */
    { "-modify-stack-limit=false", true, EVERY }, /* else the stack limit of the whole process goes up meanwhile */
    { "-frandom-seed=kiln", true, EVERY }, /* else names of internal symbols may hold the time and the process id */
    { "--minimal", true, KILN }, /* leaves textures and launches from kernels out: a tenth less time, the same bytes */
    { "-std=c++17", false, TEMPLATE },
    { "--fmad=false", false, SPELT }, /* ops spell out where they fuse */
    { "-default-device", false, DEVICE },
};
enum { OPTION_COUNT = sizeof(options) / sizeof(options[0]) };

/* The last option that says so counts. */
static bool takes_for_device(const kiln__unit *unit)
{
    bool on = kiln__unit_is_source(unit) && !kiln__unit_is_template(unit);
    for (const char *at = NULL; (at = kiln__list_next(&unit->options, at)) != NULL;)
        kiln__option_sets_device(at, &on);
    return on;
}

static bool sets_itself(const kiln__unit *unit, const char *text)
{
    for (const char *at = NULL; (at = kiln__list_next(&unit->options, at)) != NULL;)
        if (kiln__option_same(at, text))
            return true;
    return false;
}

static bool applies(const option *which, const kiln__unit *unit, bool closed)
{
    bool source = kiln__unit_is_source(unit);
    switch (which->of) {
    case EVERY:
        return true;
    case KILN:
        return !source;
    case CLOSED:
        return source && closed;
    case DEVICE:
        return takes_for_device(unit);
    case SPELT:
        if (unit->contracts)
            return false;
        break;
    case TEMPLATE:
        break;
    }
    return !source || (kiln__unit_is_template(unit) && !sets_itself(unit, which->text));
}

void kiln__nvrtc_options(const kiln__unit *unit, kiln__text *out)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (applies(&options[i], unit, false))
            kiln__text_printf(out, " %s", options[i].text);
}

/* Those that NVRTC 13.0 asks for and that change its output, write files or may do either; and
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

/* True if NVRTC is open, by now or since before; *toolchain is then filled. The first that was opened is taken from
 * *fresh and kept. */
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

/* Opens NVRTC without the lock, which threads inside NVRTC take: exit() waits for them, and the host's log function
 * may call it. Of threads that open it at the same time one is kept, and the others close theirs. */
static kiln_status open_compiler(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    compiler *self = (compiler *)base;
    opened fresh = { .path = self->path };
    if (look(self, NULL, out))
        return KILN_OK;
    kiln_status status = kiln__nvrtc_call(open_library, &fresh, report);
    if (status == KILN_OK && look(self, &fresh, out) && fresh.nvrtc == NULL)
        kiln__log_line(self->log, KILN_LOG_INFO, "NVRTC %s, version %s", out->path, out->version);
    kiln__free(fresh.nvrtc);
    kiln__free(fresh.toolchain);
    return status;
}

/* ---- Identity: only the comment that PTX begins with tells the build, nvrtcVersion says no more than 13.0 */

/* The digits and dots that follow `before`; empty if `before` is missing. */
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

/* The header in memory that a source with a prelude begins with: lines before the text would count as its own. */
#define PRELUDE "/kiln-prelude.h" /* no header of a user has a name that begins so */

/* ---- One program on its way through NVRTC, inside a kiln__nvrtc_call */

/* The first failure fills the report and sets `status`, and later calls are not made. */
typedef struct job {
    compiler *self;
    const kiln__unit *unit;
    kiln_report *report;
    kiln_status status;
    nvrtcProgram program;
    const char **options;
    int option_count;
    kiln__list headers;    /* what the compiler has in memory: name, text, name, text, ... */
    size_t file;           /* which file of the source it is: 0 the text, 1 the first part */
    const char *prelude;   /* what a source begins with, NULL or "" for nothing */
    kiln__text includes;   /* the options that name places, each with its NUL */
    kiln__nvrtc_enum code; /* how the compile ended */
    char *log;             /* what NVRTC said, NULL if nothing */
} job;

static bool note_result(job *work, kiln_status status)
{
    work->status = status;
    return status == KILN_OK;
}

/* JOB(&work, nvrtcGetPTX, (program, ptx)): true if NVRTC's function was called and succeeded. */
#define JOB(job, name, arguments)                                                                                 \
    note_result((job), (job)->status == KILN_OK ? KILN__NVRTC((job)->self->nvrtc, (job)->report, name, arguments) \
                                                : (job)->status)

/* False, and the job has failed, where memory ran out. */
static bool check_memory(job *work, bool had)
{
    if (!had && work->status == KILN_OK)
        work->status = kiln__fail_memory(work->report, KILN__STAGE_COMPILE);
    return work->status == KILN_OK;
}

static bool has_prelude(const job *work)
{
    return work->prelude != NULL && work->prelude[0] != '\0';
}

static void add_include(job *work, const char *place)
{
    kiln__text_printf(&work->includes, "-I%s/%s", KILN__READS_ROOT, place);
    kiln__text_append_bytes(&work->includes, "", 1);
}

/* Places are known to the compiler by name, wherever they are: the user's directories, which are numbers, then the
 * standard headers, then CUDA's. True if the file has a directory beside it. */
static bool add_includes(job *work)
{
    const kiln__list *places = &work->unit->places;
    const char *place = NULL, *path;
    bool beside = false, standard = false;
    while (kiln__list_next_pair(places, &place, &path)) {
        int file = kiln__reads_file_of(place);
        beside = beside || (file >= 0 && (size_t)file == work->file);
        if (!standard && file < 0 && (*place < '0' || *place > '9')) {
            add_include(work, KILN__READS_STANDARD);
            standard = true;
        }
        if (file < 0)
            add_include(work, place);
    }
    if (places->count > 0 && !standard)
        add_include(work, KILN__READS_STANDARD);
    return beside;
}

/* Creates the program of a file that finds headers beside itself: NVRTC looks for these where its name says that it is.
 * The name is none of a file there (source/reads.h). A line before the text has the name for messages and __FILE__. */
static void create_beside(job *work, const char **texts, const char **names)
{
    const kiln__unit *unit = work->unit;
    char place[KILN__PLACE_SIZE];
    kiln__text name = { 0 }, text = { 0 };
    kiln__reads_beside(place, work->file);
    kiln__text_printf(&name, "%s/%s/<%s>", KILN__READS_ROOT, place, unit->name);
    kiln__text_append(&text, "#line 1 \"");
    for (const char *at = unit->name; *at != '\0'; at++) {
        if (*at == '\\')
            kiln__text_append(&text, "\\");
        kiln__text_append_bytes(&text, at, 1);
    }
    kiln__text_append(&text, "\"\n");
    kiln__text_append(&text, unit->source);
    if (check_memory(work, !name.failed && !text.failed))
        JOB(work, nvrtcCreateProgram,
            (&work->program, text.data, name.data, (int)(work->headers.count / 2), texts, names));
    kiln__text_fini(&name);
    kiln__text_fini(&text);
}

static void create_source_program(job *work)
{
    const kiln__unit *unit = work->unit;
    bool beside = add_includes(work);
    kiln__standard_headers(unit, &work->headers);
    if (has_prelude(work)) {
        kiln__list_add(&work->headers, PRELUDE);
        kiln__list_add(&work->headers, work->prelude);
    }
    const char **names = kiln__list_array(&work->headers, 0, 2), **texts = kiln__list_array(&work->headers, 1, 2);
    check_memory(work, names != NULL && texts != NULL && !work->headers.bytes.failed && !work->includes.failed);
    if (work->status == KILN_OK && beside)
        create_beside(work, texts, names);
    else
        JOB(work, nvrtcCreateProgram,
            (&work->program, unit->source, unit->name, (int)(work->headers.count / 2), texts, names));
    kiln__free(names);
    kiln__free(texts);
    for (const char *at = NULL; (at = kiln__list_next(&unit->functions, at)) != NULL;)
        JOB(work, nvrtcAddNameExpression, (work->program, at));
}

static void create_program(job *work)
{
    const kiln__nvrtc *nvrtc = work->self->nvrtc;
    const kiln__unit *unit = work->unit;
    size_t room = OPTION_COUNT + 3 + unit->options.count + unit->places.count / 2;
    work->options = kiln__calloc(room, sizeof(*work->options));
    if (!kiln__unit_is_source(unit)) {
        if (check_memory(work, work->options != NULL))
            JOB(work, nvrtcCreateProgram, (&work->program, unit->source, PROGRAM_NAME, 0, NULL, NULL));
        return;
    }
    if (nvrtc->nvrtcAddNameExpression == NULL || nvrtc->nvrtcGetLoweredName == NULL)
        work->status =
            kiln__fail(work->report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, 0,
                       "%s has no nvrtcGetLoweredName, which CUDA sources need: install a newer NVRTC", nvrtc->path);
    if (check_memory(work, work->options != NULL))
        create_source_program(work);
}

static void end_job(job *work)
{
    if (work->program != NULL)
        work->self->nvrtc->nvrtcDestroyProgram(&work->program);
    kiln__free(work->log);
    kiln__free(work->options);
    kiln__text_fini(&work->includes);
    kiln__list_fini(&work->headers);
}

static void choose_options(job *work, const char *arch, unsigned dropped)
{
    const kiln__unit *unit = work->unit;
    const char *include = kiln__text_string(&work->includes), *end = include + work->includes.length;
    work->option_count = 0;
    work->options[work->option_count++] = arch;
    for (int i = 0; i < OPTION_COUNT; i++)
        if (!(dropped >> i & 1) && applies(&options[i], unit, work->includes.length == 0))
            work->options[work->option_count++] = options[i].text;
    for (const char *at = NULL; (at = kiln__list_next(&unit->options, at)) != NULL;)
        if (!kiln__option_sets_device(at, &(bool){ false }))
            work->options[work->option_count++] = at;
    if (has_prelude(work))
        work->options[work->option_count++] = "--pre-include=" PRELUDE;
    for (; include < end; include += strlen(include) + 1)
        work->options[work->option_count++] = include;
}

static void read_log(job *work)
{
    const kiln__nvrtc *nvrtc = work->self->nvrtc;
    size_t size = 0;
    kiln__free(work->log);
    work->log = NULL;
    if (nvrtc->nvrtcGetProgramLogSize(work->program, &size) != KILN__NVRTC_SUCCESS || size <= 1)
        return;
    char *log = kiln__calloc(size + 1, 1);
    if (check_memory(work, log != NULL) && nvrtc->nvrtcGetProgramLog(work->program, log) == KILN__NVRTC_SUCCESS &&
        log[0] != '\0')
        work->log = log;
    else
        kiln__free(log);
}

/* The optional option that NVRTC complains of, -1 if none. */
static int refused_option(const job *work, unsigned dropped)
{
    if (work->code != KILN__NVRTC_ERROR_INVALID_OPTION || work->log == NULL)
        return -1;
    for (int i = 0; i < OPTION_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(options[i].text, "="), options[i].text);
        if (options[i].optional && !(dropped >> i & 1) && strstr(work->log, name) != NULL)
            return i;
    }
    return -1;
}

/* Creates the program of a zeroed job and compiles it. Success means that NVRTC gave an answer, in `code` and `log`.
 * The caller ends the job in each case. */
static void run_job(job *work, const char *arch)
{
    const char *steering = kiln__nvrtc_steering();
    create_program(work);
    if (work->status == KILN_OK && steering != NULL)
        work->status = kiln__fail(work->report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, 0,
                                  "%s is set, by which NVRTC would make other code: unset it, or let workers compile "
                                  "(KILN_ISOLATE=auto), which do not get it",
                                  steering);
    while (work->status == KILN_OK) {
        unsigned dropped = atomic_load(&work->self->dropped);
        choose_options(work, arch, dropped);
        work->code = work->self->nvrtc->nvrtcCompileProgram(work->program, work->option_count, work->options);
        read_log(work);
        int refused = work->status == KILN_OK ? refused_option(work, dropped) : -1;
        if (refused < 0)
            return;
        atomic_fetch_or(&work->self->dropped, 1u << refused);
        kiln__log_line(work->self->log, KILN_LOG_DEBUG, "this NVRTC does not know %s: left out", options[refused].text);
    }
}

/* The PTX of a compile that ended well; the caller's, also on failure. */
static char *get_ptx(job *work, size_t *length)
{
    size_t size = 0;
    *length = 0;
    JOB(work, nvrtcGetPTXSize, (work->program, &size));
    char *ptx = work->status == KILN_OK ? kiln__calloc(size + 1, 1) : NULL;
    check_memory(work, ptx != NULL);
    if (ptx != NULL && JOB(work, nvrtcGetPTX, (work->program, ptx)))
        *length = strlen(ptx);
    return ptx;
}

/* The same for its cubin, which is followed by a NUL. */
static void *get_cubin(job *work, size_t *length)
{
    *length = 0;
    JOB(work, nvrtcGetCUBINSize, (work->program, length));
    char *cubin = work->status == KILN_OK ? kiln__calloc(*length + 1, 1) : NULL;
    check_memory(work, cubin != NULL);
    JOB(work, nvrtcGetCUBIN, (work->program, cubin));
    return cubin;
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

/* Of two targets the nearer is the one that is not newer: its code may run on the chip that was meant. */
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
    kiln__toolchain_list_targets(toolchain, &list);
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

/* Adds to a failure's message which functions the source has. */
static kiln_status offer_functions(const kiln__unit *unit, kiln_report *report)
{
    kiln__text list = { 0 };
    if (report == NULL)
        return KILN_ECOMPILE;
    kiln__source_list_kernels(&list, unit);
    kiln__fail(report, report->status, report->stage, report->native, "%s; its text has%s%s", report->message,
               list.length > 0 ? ": " : " no __global__ function", kiln__text_string(&list));
    kiln__text_fini(&list);
    return KILN_ECOMPILE;
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
    kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, KILN__NVRTC_ERROR_COMPILATION,
               "the source has no %s '%.*s': %.*s", variable ? "variable" : "function", (int)strcspn(line, "\n"), line,
               (int)strcspn(error, "\n"), error);
    if (!variable)
        offer_functions(unit, report);
    return true;
}

/* The advice for an error for which NVRTC suggests an option that only nvcc has, and for host code. */
static const char *advice_for(const char *error, const char *log, const kiln__unit *unit)
{
    if (strstr(error, "annotation on lambda requires") != NULL)
        return ", which NVRTC does not have: leave the annotation out, a lambda in device code needs none";
    if (strstr(error, "device-side kernel launch could not be processed") != NULL)
        return "; a kernel launches kernels with the option -rdc=true";
    if (kiln__unit_is_source(unit) && kiln__source_linking(unit) == KILN__LINK_NONE &&
        (strstr(log, "explicitly marked as a __host__ function") != NULL || kiln__source_has_host_code(unit->source)))
        return "; the text has host code: put it under #ifndef __CUDACC_RTC__";
    return "";
}

static kiln_status fail_compile(const job *work, const kiln__toolchain *toolchain)
{
    char line[256];
    const kiln__unit *unit = work->unit;
    kiln_report *report = work->report;
    const char *log = work->log != NULL ? work->log : "";
    /* A suffix that the chip does not have is found out by NVRTC, or only by the compiler below it. */
    if ((work->code == KILN__NVRTC_ERROR_INVALID_OPTION && strstr(log, "gpu-architecture") != NULL) ||
        strstr(log, "no value specified with --nv_arch") != NULL)
        return refuse_target(toolchain, &unit->target, report);
    kiln__report_set_log(report, work->log);
    if (work->code != KILN__NVRTC_ERROR_COMPILATION || log[0] == '\0')
        return kiln__nvrtc_result(work->self->nvrtc, "nvrtcCompileProgram", work->code, report);
    if (kiln__unit_is_source(unit) && fail_function(log, unit, report))
        return KILN_ECOMPILE;
    first_error(log, line, sizeof(line));
    return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, (int)work->code, "compiling for %s failed: %s%s",
                      unit->target.name, line, advice_for(line, log, unit));
}

static bool is_line_list(const char *text)
{
    return text != NULL && text[0] != '\0' && text[0] != '\n' && text[strlen(text) - 1] == '\n';
}

/* Both texts have a line for each function. */
static kiln_status check_functions(const kiln__image *image, const kiln__unit *unit, kiln_report *report)
{
    enum { LINE = 4096, SHOWN = 100 };
    const char *asked = image->functions, *named = image->names;
    if (!is_line_list(asked) || !is_line_list(named)) {
        kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                   "the source has no function for the host to launch: make one extern \"C\" __global__, or ask for "
                   "those that it is to have");
        return offer_functions(unit, report);
    }
    while (*asked != '\0' && *named != '\0') {
        char name[LINE];
        size_t length = strcspn(asked, "\n"), name_length = strcspn(named, "\n");
        snprintf(name, sizeof(name), "%.*s", (int)name_length, named);
        if (asked[0] != '&' && !kiln__cubin_has_entry(image->binary, name)) {
            kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                       "'%.*s' is no __global__ function of the source, which the code for %s has no entry point for",
                       (int)(length < SHOWN ? length : SHOWN), asked, unit->target.name);
            return offer_functions(unit, report);
        }
        asked += length + 1;
        named += name_length + 1;
    }
    if (*asked == '\0' && *named == '\0')
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
    bool linked = kiln__source_linking(unit) != KILN__LINK_NONE;
    const char *ptx = image->ptx != NULL ? image->ptx : "";
    if (linked ? image->ptx != NULL : !kiln__ptx_check(ptx, image->ptx_length, unit->target.sm, reason))
        return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0, "NVRTC made no usable PTX for %s: %s",
                          unit->target.name, linked ? "there is none of linked code" : reason);
    for (uint32_t i = 0; i < unit->rule.entry_count; i++) {
        const char *name = unit->rule.entries[i].name;
        bool in_cubin = kiln__cubin_has_entry(image->binary, name);
        if (!in_cubin || !kiln__ptx_has_entry(image->ptx, image->ptx_length, name))
            return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                              "the %s for %s has no entry point '%s', which the template declares",
                              in_cubin ? "PTX" : "cubin", unit->target.name, name);
    }
    return kiln__unit_is_template(unit) ? KILN_OK : check_functions(image, unit, report);
}

static void append_count(kiln__text *out, const kiln__plan *plan, const char *entry, const size_t *sizes, int count)
{
    kiln__text_printf(out, "the kernel %s takes %d parameter%s, and the template declares %u (", entry, count,
                      count == 1 ? "" : "s", plan->arg_count);
    for (uint32_t i = 0; i < plan->arg_count; i++)
        kiln__text_printf(out, "%s%s", i > 0 ? ", " : "", plan->args[i].name);
    if ((uint32_t)count > plan->arg_count)
        kiln__text_printf(out, "): add an arg line for parameter %u of %zu bytes", plan->arg_count + 1,
                          sizes[plan->arg_count]);
    else
        kiln__text_printf(out, "): take the arg line of %s away, or add parameter %d", plan->args[count].name,
                          count + 1);
}

static void append_bytes(kiln__text *out, const kiln__plan_arg *arg, const char *entry, uint32_t number, size_t bytes)
{
    bool is_array = arg->role <= KILN__ARG_INOUT;
    kiln__text_printf(out, "argument %s is %s%s of %u bytes, and parameter %u of the kernel %s has %zu", arg->name,
                      is_array ? "a pointer to " : "", kiln__dtype_name(arg->type), kiln__plan_arg_bytes(arg), number,
                      entry, bytes);
}

enum { PARAMETERS_MAX = 64 };

/* Appends the difference between the parameters of an entry point and the arguments. The count comes first: one missing
 * arg line shifts all behind it. */
static void append_difference(kiln__text *out, const kiln__plan *plan, const char *entry, const size_t *sizes,
                              int count)
{
    if ((uint32_t)count != plan->arg_count) {
        append_count(out, plan, entry, sizes, count);
        return;
    }
    for (int i = 0; i < count && out->length == 0; i++)
        if (sizes[i] != kiln__plan_arg_bytes(&plan->args[i]))
            append_bytes(out, &plan->args[i], entry, (uint32_t)i + 1, sizes[i]);
}

/* Appends the difference, if there is one. A daemon has no plan, and the host tells its user. */
static void compare_parameters(kiln__text *out, const kiln__image *image, const kiln__unit *unit, const char *entry)
{
    size_t sizes[PARAMETERS_MAX];
    kiln__text found = { 0 };
    const int count = kiln__cubin_parameters(image->binary, entry, sizes, PARAMETERS_MAX);
    for (int i = 0; i < count; i++)
        kiln__text_printf(&found, "%s%zu", i > 0 ? " " : "", sizes[i]);
    const bool differs = count >= 0 && !found.failed && strcmp(kiln__text_string(&found), unit->arguments) != 0;
    if (differs && unit->plan != NULL)
        append_difference(out, unit->plan, entry, sizes, count);
    else if (differs)
        kiln__text_printf(out, "the kernel %s takes parameters of %s bytes, and the template declares %s", entry,
                          kiln__text_string(&found), unit->arguments);
    out->failed = out->failed || found.failed;
    kiln__text_fini(&found);
}

kiln_status kiln__nvrtc_check_parameters(const kiln__image *image, const kiln__unit *unit, kiln_report *report)
{
    kiln__text difference = { 0 };
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; unit->arguments != NULL && i < unit->rule.entry_count && difference.length == 0; i++)
        compare_parameters(&difference, image, unit, unit->rule.entries[i].name);
    if (difference.failed)
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    else if (difference.length > 0)
        status = kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0, "%s", kiln__text_string(&difference));
    kiln__text_fini(&difference);
    return status;
}

static void add_line(void *data, const char *name)
{
    kiln__text_printf(data, "%s\n", name);
}

/* Appends the names in the code of the functions that a program was asked for, a line for each. */
static void add_names(job *work, kiln__text *names)
{
    const char *lowered = NULL;
    for (const char *at = NULL; (at = kiln__list_next(&work->unit->functions, at)) != NULL;)
        if (JOB(work, nvrtcGetLoweredName, (work->program, at, &lowered)))
            kiln__text_printf(names, "%s\n", lowered);
}

/* Fills image->functions and image->names: the functions that were asked for, whose names are `names`, or all that
 * there are. Uses the names up. False: out of memory. */
static bool name_functions(const kiln__list *functions, kiln__text *names, kiln__image *image)
{
    char reason[KILN__CUBIN_REASON_SIZE];
    kiln__text asked = { 0 };
    for (const char *at = NULL; (at = kiln__list_next(functions, at)) != NULL;)
        kiln__text_printf(&asked, "%s\n", at);
    if (functions->count == 0 && kiln__cubin_check(image->binary, image->binary_length, reason))
        kiln__cubin_kernels(image->binary, add_line, names);
    if (functions->count == 0)
        kiln__text_append(&asked, kiln__text_string(names));
    image->functions = kiln__text_take(&asked);
    image->names = kiln__text_take(names);
    return image->functions != NULL && image->names != NULL;
}

/* One compile, for the functions that are called inside a kiln__nvrtc_call. */
typedef struct task {
    compiler *self;
    const kiln__toolchain *toolchain;
    const kiln__unit *unit;
    kiln__image *out;
} task;

/* Runs a job with each prelude that is worth trying, until one compiles. */
static void run_source(job *work, const char *arch)
{
    enum { TRIES_MAX = 8 };
    const job empty = { .self = work->self, .unit = work->unit, .report = work->report, .file = work->file };
    kiln__text prelude = { 0 };
    kiln__prelude_foresee(&prelude, work->unit->source);
    bool foreseen = prelude.length > 0;
    for (int tries = 0; check_memory(work, !prelude.failed); tries++) {
        work->prelude = kiln__text_string(&prelude);
        run_job(work, arch);
        work->prelude = NULL;
        if (work->status != KILN_OK || work->code != KILN__NVRTC_ERROR_COMPILATION || work->log == NULL)
            break;
        if (foreseen) {
            kiln__text_fini(&prelude);
        } else if (tries == TRIES_MAX || !kiln__prelude_learn(&prelude, work->log)) {
            check_memory(work, !prelude.failed);
            break;
        }
        foreseen = false;
        end_job(work);
        *work = empty;
    }
    kiln__text_fini(&prelude);
}

/* PTX alone carries the banner, so the assembler need not run. */
static kiln_status compile_probe(void *data, kiln_report *report)
{
    static char text[] = "extern \"C\" __global__ void kiln() {}\n";
    const task *todo = data;
    const kiln__toolchain *toolchain = todo->toolchain;
    const kiln__unit probe = { .source = text, .source_length = sizeof(text) - 1 };
    job work = { .self = todo->self, .unit = &probe, .report = report };
    char arch[64], id[KILN__ENTRY_TOOLCHAIN_SIZE];
    size_t length;
    snprintf(arch, sizeof(arch), "--gpu-architecture=compute_%d",
             toolchain->target_count > 0 ? toolchain->targets[toolchain->target_count - 1].sm : 75);
    run_job(&work, arch);
    if (work.status == KILN_OK)
        work.status = kiln__nvrtc_result(todo->self->nvrtc, "nvrtcCompileProgram", work.code, report);
    char *ptx = get_ptx(&work, &length);
    if (work.status == KILN_OK)
        learn_identity(todo->self, ptx, id);
    else if (work.log != NULL)
        kiln__report_set_log(report, work.log);
    kiln__free(ptx);
    end_job(&work);
    return work.status;
}

/* ---- Linking */

/* A source on its way through NVRTC, a file after the other, and the linker. */
typedef struct linkage {
    const task *todo;
    kiln_report *report;
    kiln__linking linking;
    kiln_status status;
    kiln__text log;           /* of all files */
    kiln__link_input *inputs; /* one for each file */
    size_t count;
    char **names;       /* of the unit's functions in the code, NULL until a file has the function */
    kiln__list defined; /* symbol, file, symbol, file, ... of relocatable code */
} linkage;

/* The code of a compile that ended well, in the form that is linked. */
static void get_code(job *work, kiln__linking linking, kiln__link_input *out)
{
    const kiln__nvrtc *nvrtc = work->self->nvrtc;
    if (linking == KILN__LINK_CODE) {
        out->data = get_cubin(work, &out->length);
        return;
    }
    if (work->status == KILN_OK && (nvrtc->nvrtcGetLTOIRSize == NULL || nvrtc->nvrtcGetLTOIR == NULL))
        work->status =
            kiln__fail(work->report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, 0,
                       "%s has no nvrtcGetLTOIR, which -dlto needs: install an NVRTC of CUDA 12 or newer", nvrtc->path);
    JOB(work, nvrtcGetLTOIRSize, (work->program, &out->length));
    out->data = work->status == KILN_OK ? kiln__calloc(out->length + 1, 1) : NULL;
    check_memory(work, out->data != NULL);
    JOB(work, nvrtcGetLTOIR, (work->program, out->data));
}

/* The name without its template arguments and namespaces: "scale" of "ns::scale<float, 4>". */
static kiln__word plain_name(const char *function)
{
    size_t end = strcspn(function, "<"), begin;
    while (end > 0 && function[end - 1] == ' ')
        end--;
    for (begin = end; begin > 0 && kiln__word_is_name_char(function[begin - 1]);)
        begin--;
    return (kiln__word){ function + begin, end - begin };
}

static bool mentions(const char *text, const char *function)
{
    kiln__word name = plain_name(function);
    return name.length > 0 && memmem(text, strlen(text), name.text, name.length) != NULL;
}

static bool is_mentioned(const kiln__unit *unit, const char *function)
{
    bool found = mentions(unit->source, function);
    for (const char *part = NULL, *text; !found && kiln__list_next_pair(&unit->parts, &part, &text);)
        found = mentions(text, function);
    return found;
}

/* Adds the functions that a file may have: not found yet, and with a name that its text has. The first file may also
 * have those of no text, from headers. */
static void choose_functions(const linkage *l, const char *text, bool first, kiln__list *out)
{
    const kiln__unit *unit = l->todo->unit;
    size_t i = 0;
    for (const char *at = NULL; (at = kiln__list_next(&unit->functions, at)) != NULL; i++)
        if (l->names[i] == NULL && (mentions(text, at) || (first && !is_mentioned(unit, at))))
            kiln__list_add(out, at);
}

/* Takes the functions away of which a failed compile says that the file has none, another file may have them. False if
 * that is not all that it says. NVRTC shows the line of each such function under its error. */
static bool drop_functions(kiln__list *functions, const char *log)
{
    static const char file[] = "__nv_name_map(", pragma[] = "#pragma nv_mangled_name ", mark[] = "): error: ";
    kiln__list left = { 0 };
    for (const char *at = log; (at = strstr(at, mark)) != NULL; at += sizeof(mark) - 1) {
        const char *line = at;
        while (line > log && line[-1] != '\n')
            line--;
        if (strncmp(line, file, sizeof(file) - 1) != 0)
            return false;
    }
    for (const char *at = NULL; (at = kiln__list_next(functions, at)) != NULL;) {
        bool absent = false;
        for (const char *line = log; !absent && (line = strstr(line, pragma)) != NULL;) {
            line += sizeof(pragma) - 1;
            absent = strncmp(line, at, strlen(at)) == 0 && line[strlen(at)] == '\n';
        }
        if (!absent)
            kiln__list_add(&left, at);
    }
    if (left.bytes.failed || left.count == functions->count) {
        kiln__list_fini(&left);
        return false;
    }
    kiln__list_fini(functions);
    *functions = left;
    return true;
}

/* Keeps the names in the code of the functions that a file has. */
static void keep_names(linkage *l, job *work)
{
    const char *lowered = NULL;
    for (const char *at = NULL; (at = kiln__list_next(&work->unit->functions, at)) != NULL;) {
        size_t i = 0;
        for (const char *all = NULL; (all = kiln__list_next(&l->todo->unit->functions, all)) != NULL; i++)
            if (strcmp(all, at) == 0)
                break;
        if (JOB(work, nvrtcGetLoweredName, (work->program, at, &lowered)))
            check_memory(work, (l->names[i] = kiln__strdup(lowered)) != NULL);
    }
}

static void note_definition(void *data, const char *name)
{
    linkage *l = data;
    const char *file = l->inputs[l->count].name, *symbol = NULL, *other;
    while (kiln__list_next_pair(&l->defined, &symbol, &other))
        if (strcmp(symbol, name) == 0 && l->status == KILN_OK)
            l->status = kiln__fail(l->report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                                   "linking failed: Multiple definition of '%s' in '%s', first defined in '%s'", name,
                                   file, other);
    kiln__list_add(&l->defined, name);
    kiln__list_add(&l->defined, file);
}

/* nvJitLink 13.0 prints that relocatable code has a symbol twice, and links it all the same. So Kiln looks first. */
static void check_definitions(linkage *l, job *work)
{
    char reason[KILN__CUBIN_REASON_SIZE];
    const kiln__link_input *input = &l->inputs[l->count];
    if (work->status != KILN_OK || l->linking != KILN__LINK_CODE ||
        !kiln__cubin_check(input->data, input->length, reason))
        return;
    kiln__cubin_definitions(input->data, note_definition, l);
    work->status = l->status;
    check_memory(work, !l->defined.bytes.failed);
}

/* Compiles a file as a source with the unit's options. With several files, a function that this one lacks may be
 * another's. */
static kiln_status compile_file(linkage *l, const char *shown, const char *text)
{
    const kiln__unit *unit = l->todo->unit;
    const bool several = unit->parts.count > 0;
    kiln__unit file = *unit;
    kiln__link_input *out = &l->inputs[l->count];
    char arch[32 + KILN__TARGET_SIZE];
    job work = { .self = l->todo->self, .unit = &file, .report = l->report, .file = l->count };
    const job empty = work;
    file.name = (char *)kiln__source_base_name(shown);
    file.source = (char *)text;
    file.functions = (kiln__list){ 0 };
    out->name = file.name;
    snprintf(arch, sizeof(arch), "--gpu-architecture=%s", file.target.name);
    choose_functions(l, text, l->count == 0, &file.functions);
    check_memory(&work, !file.functions.bytes.failed);
    run_source(&work, arch);
    while (several && work.status == KILN_OK && work.code == KILN__NVRTC_ERROR_COMPILATION && work.log != NULL &&
           drop_functions(&file.functions, work.log)) {
        end_job(&work);
        work = empty;
        run_source(&work, arch);
    }
    if (work.status == KILN_OK && work.code != KILN__NVRTC_SUCCESS)
        work.status = fail_compile(&work, l->todo->toolchain);
    get_code(&work, l->linking, out);
    check_definitions(l, &work);
    l->count++;
    if (work.status == KILN_OK)
        keep_names(l, &work);
    if (work.status == KILN_OK && work.log != NULL)
        kiln__text_append(&l->log, work.log);
    end_job(&work);
    kiln__list_fini(&file.functions);
    return work.status;
}

static kiln_status compile_files(linkage *l)
{
    const kiln__unit *unit = l->todo->unit;
    l->inputs = kiln__calloc(1 + unit->parts.count / 2, sizeof(*l->inputs));
    l->names = kiln__calloc(1 + unit->functions.count, sizeof(*l->names));
    if (l->inputs == NULL || l->names == NULL)
        return kiln__fail_memory(l->report, KILN__STAGE_COMPILE);
    kiln_status status = compile_file(l, unit->name, unit->source);
    for (const char *part = NULL, *text; status == KILN_OK && kiln__list_next_pair(&unit->parts, &part, &text);)
        status = compile_file(l, part, text);
    size_t i = 0;
    for (const char *at = NULL; status == KILN_OK && (at = kiln__list_next(&unit->functions, at)) != NULL; i++)
        if (l->names[i] == NULL) {
            kiln__fail(l->report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0, "none of the %zu files has the %s '%s'",
                       l->count, at[0] == '&' ? "variable" : "function", at);
            status = offer_functions(unit, l->report);
        }
    return status;
}

static kiln_status link_files(linkage *l)
{
    const kiln__unit *unit = l->todo->unit;
    kiln__image *out = l->todo->out;
    kiln__list linking = { 0 };
    kiln__source_linker_options(unit, &linking);
    kiln_status status = kiln__nvjitlink_link(l->todo->self->linker, &linking, l->linking == KILN__LINK_OPTIMIZED,
                                              l->inputs, l->count, &out->binary, &out->binary_length, l->report);
    kiln__list_fini(&linking);
    return status;
}

/* Fills the names of the image. Of a name that several files have for themselves the driver would take any. */
static kiln_status name_linked(const linkage *l, kiln__image *out)
{
    const kiln__unit *unit = l->todo->unit;
    char reason[KILN__CUBIN_REASON_SIZE];
    kiln__text names = { 0 };
    size_t i = 0;
    bool sound = kiln__cubin_check(out->binary, out->binary_length, reason);
    for (const char *at = NULL; (at = kiln__list_next(&unit->functions, at)) != NULL; i++) {
        if (sound && kiln__cubin_count(out->binary, l->names[i]) > 1) {
            kiln__text_fini(&names);
            return kiln__fail(l->report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                              "several files have '%s' for themselves (static, or in a namespace without a name): give "
                              "each another name",
                              at);
        }
        kiln__text_printf(&names, "%s\n", l->names[i]);
    }
    return name_functions(&unit->functions, &names, out) ? KILN_OK : kiln__fail_memory(l->report, KILN__STAGE_COMPILE);
}

static void fini_linkage(linkage *l)
{
    for (size_t i = 0; i < l->count; i++)
        kiln__free(l->inputs[i].data);
    for (size_t i = 0; l->names != NULL && i < l->todo->unit->functions.count; i++)
        kiln__free(l->names[i]);
    kiln__free(l->inputs);
    kiln__free(l->names);
    kiln__list_fini(&l->defined);
    kiln__text_fini(&l->log);
}

/* Intermediate code has no banner, so another compile may have to tell the build. */
static kiln_status copy_identity(const task *todo, char out[KILN__ENTRY_TOOLCHAIN_SIZE], kiln_report *report)
{
    compiler *self = todo->self;
    task probe = *todo;
    kiln_status status = todo->toolchain->id[0] == '\0' ? compile_probe(&probe, report) : KILN_OK;
    pthread_mutex_lock(&self->lock);
    memcpy(out, self->toolchain->id, KILN__ENTRY_TOOLCHAIN_SIZE);
    pthread_mutex_unlock(&self->lock);
    return status;
}

static kiln_status compile_linked(const task *todo, kiln_report *report)
{
    kiln__image *out = todo->out;
    linkage l = { .todo = todo, .report = report, .linking = kiln__source_linking(todo->unit) };
    if (todo->self->linker == NULL)
        return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
                          "only a compile worker links, and this process is none");
    kiln_status status = copy_identity(todo, out->toolchain, report);
    if (status == KILN_OK)
        status = compile_files(&l);
    if (status == KILN_OK)
        status = link_files(&l);
    if (status == KILN_OK)
        status = name_linked(&l, out);
    if (status == KILN_OK)
        status = kiln__nvrtc_check_image(out, todo->unit, report);
    if (status == KILN_OK && l.log.length > 0 && (out->log = kiln__text_take(&l.log)) == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    fini_linkage(&l);
    return status;
}

static kiln_status find_linker(const kiln__compiler *base, const kiln__toolchain *toolchain, kiln__list *files,
                               kiln_report *report)
{
    (void)base;
    return kiln__nvjitlink_find(toolchain->path, toolchain->version, files, report);
}

kiln_status kiln__cuda_compiler_load_linker(kiln__compiler *base, const kiln__list *files, kiln_report *report)
{
    compiler *self = (compiler *)base;
    return kiln__nvjitlink_load(&self->linker, files, self->toolchain->version, report);
}

kiln_status kiln__cuda_linker_version(const kiln__list *files, const char *nvrtc, char *out, size_t size,
                                      kiln_report *report)
{
    kiln__nvjitlink *linker;
    kiln_status status = kiln__nvjitlink_load(&linker, files, nvrtc, report);
    if (status == KILN_OK)
        snprintf(out, size, "%u.%u", linker->major, linker->minor);
    kiln__nvjitlink_free(linker);
    return status;
}

/* ---- Compiling a unit */

static kiln_status compile_unit(void *data, kiln_report *report)
{
    const task *todo = data;
    const kiln__unit *unit = todo->unit;
    kiln__image *out = todo->out;
    job work = { .self = todo->self, .unit = unit, .report = report };
    char arch[32 + KILN__TARGET_SIZE];
    kiln__text names = { 0 };
    if (kiln__source_linking(unit) != KILN__LINK_NONE)
        return compile_linked(todo, report);
    snprintf(arch, sizeof(arch), "--gpu-architecture=%s", unit->target.name);
    if (!kiln__unit_is_template(unit))
        run_source(&work, arch);
    else
        run_job(&work, arch);
    if (work.status == KILN_OK && work.code != KILN__NVRTC_SUCCESS)
        work.status = fail_compile(&work, todo->toolchain);
    out->binary = get_cubin(&work, &out->binary_length);
    if (work.status == KILN_OK && !kiln__unit_is_template(unit)) {
        add_names(&work, &names);
        check_memory(&work, name_functions(&unit->functions, &names, out));
    }
    out->ptx = get_ptx(&work, &out->ptx_length);
    if (work.status == KILN_OK)
        work.status = kiln__nvrtc_check_image(out, unit, report);
    if (work.status == KILN_OK) {
        learn_identity(todo->self, out->ptx, out->toolchain);
        out->log = work.log;
        work.log = NULL;
    }
    kiln__text_fini(&names);
    end_job(&work);
    return work.status;
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
    kiln__free(self->nvrtc);
    kiln__nvjitlink_free(self->linker);
    pthread_mutex_destroy(&self->lock);
    kiln__free(self->toolchain);
    kiln__free(self->path);
    kiln__free(self);
}

kiln__compiler *kiln__cuda_compiler_open(const char *nvrtc, const kiln__log *log)
{
    static const kiln__compiler_vtable vtable = { .name = "nvrtc",
                                                  .search = search,
                                                  .options = append_options,
                                                  .open = open_compiler,
                                                  .identify = identify,
                                                  .compile = compile_with_nvrtc,
                                                  .linker = find_linker,
                                                  .close = close_compiler };
    compiler *self = kiln__calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->compiler.vtable = &vtable;
    self->log = log;
    self->path = kiln__strdup(nvrtc);
    pthread_mutex_init(&self->lock, NULL);
    if (nvrtc != NULL && self->path == NULL) {
        close_compiler(&self->compiler);
        return NULL;
    }
    return &self->compiler;
}
