#include "jit/worker/workers.h"

#include "base/alloc.h"
#include "gpu/cuda.h"

#include "jit/worker/crowd.h"
#include "jit/worker/pool.h"
#include "jit/worker/suspects.h"
#include "os/cpu.h"
#include "os/file.h"
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct workers {
    kiln__compiler compiler;
    kiln__compiler *inner;
    const kiln__log *log;
    kiln_isolate isolate;
    char *program, *nvrtc, *crash_dir; /* NULL where there is none */
    kiln__workerset set;
    kiln__suspects suspects;
    kiln__crowd crowd;          /* of those that compile in this process */
    pthread_mutex_t facts_lock; /* guards what follows */
    bool known;
    /* Of the NVRTC that workers have opened, where this process opens none; made for the first. */
    kiln__toolchain *facts;
    /* The toolchain of a file of NVRTC, as the store remembers it or as a worker told; "": none is known. */
    char id[KILN__ENTRY_TOOLCHAIN_SIZE];
    struct stat id_file;
    atomic_uint_least64_t crashes, timeouts;
} workers;

/* ---- Starting */

static bool make_facts(workers *self)
{
    pthread_mutex_lock(&self->facts_lock);
    if (self->facts == NULL)
        self->facts = kiln__calloc(1, sizeof(*self->facts));
    bool made = self->facts != NULL;
    pthread_mutex_unlock(&self->facts_lock);
    return made;
}

/* What is known of NVRTC where only workers open it. A worker that was just started does not know the id yet. */
static void note_facts(workers *self, const kiln__toolchain *facts)
{
    pthread_mutex_lock(&self->facts_lock);
    if (!self->known || strcmp(self->facts->path, facts->path) != 0)
        *self->facts = *facts;
    self->known = true;
    pthread_mutex_unlock(&self->facts_lock);
}

static void note_identity(workers *self, kiln__worker *which, const kiln__toolchain *learnt)
{
    memcpy(which->id, learnt->id, sizeof(which->id));
    pthread_mutex_lock(&self->facts_lock);
    memcpy(self->id, learnt->id, sizeof(self->id));
    self->id_file = which->nvrtc;
    memcpy(self->facts->id, learnt->id, sizeof(self->facts->id));
    memcpy(self->facts->version, learnt->version, sizeof(self->facts->version));
    pthread_mutex_unlock(&self->facts_lock);
}

/* A worker that has opened the file whose identity is known need not tell it. */
static void recall_identity(workers *self, kiln__worker *which, const char *path)
{
    if (stat(path, &which->nvrtc) != 0)
        which->nvrtc = (struct stat){ 0 };
    pthread_mutex_lock(&self->facts_lock);
    if (which->nvrtc.st_ino != 0 && kiln__file_is_unchanged(&self->id_file, &which->nvrtc))
        memcpy(which->id, self->id, sizeof(which->id));
    pthread_mutex_unlock(&self->facts_lock);
}

static void know(kiln__compiler *base, const kiln__toolchain *known)
{
    workers *self = (workers *)base;
    struct stat nvrtc;
    if (stat(known->path, &nvrtc) != 0)
        return;
    pthread_mutex_lock(&self->facts_lock);
    memcpy(self->id, known->id, sizeof(self->id));
    self->id_file = nvrtc;
    pthread_mutex_unlock(&self->facts_lock);
}

static bool get_facts(workers *self, kiln__toolchain *out)
{
    pthread_mutex_lock(&self->facts_lock);
    bool known = self->known;
    if (known)
        *out = *self->facts;
    pthread_mutex_unlock(&self->facts_lock);
    return known;
}

/* Which NVRTC a worker is to open: where this process has one open, the very same. */
static kiln_status choose_nvrtc(workers *self, kiln__toolchain *opened, const char **out, kiln_report *report)
{
    *out = self->nvrtc;
    if (self->isolate == KILN_ISOLATE_ALWAYS)
        return KILN_OK;
    memset(opened, 0, sizeof(*opened));
    kiln_status status = self->inner->vtable->open(self->inner, opened, report);
    *out = opened->path;
    return status;
}

static kiln_status start(workers *self, const kiln__list *places, const kiln__text *marks, kiln__worker **out,
                         kiln_report *report)
{
    kiln__toolchain facts;
    const char *nvrtc;
    *out = NULL;
    kiln_status status = choose_nvrtc(self, &facts, &nvrtc, report);
    if (status == KILN_OK && !make_facts(self))
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (status == KILN_OK)
        status = kiln__workerset_start(&self->set, nvrtc, places, marks, &facts, out, report);
    if (status == KILN_OK) {
        note_facts(self, &facts);
        recall_identity(self, *out, facts.path);
    }
    return status;
}

/* ---- Asking */

/* Reads the toolchain in an answer. Also KILN_OK where no sound worker would answer so; *sound is then false. */
static kiln_status read_identity(workers *self, kiln__worker *which, const kiln__worker_answer *answer,
                                 kiln__toolchain *out, bool *sound, kiln_report *report)
{
    const kiln__frame *frame = &answer->message.frame;
    kiln_status status = KILN_OK;
    bool answered = answer->result == KILN__CHANNEL_DONE;
    *sound = answered;
    if (answered && frame->type == KILN__WORKER_TOOLCHAIN && kiln__worker_get_toolchain(frame, out)) {
        note_identity(self, which, out);
    } else if (!answered || frame->type != KILN__WORKER_FAILED || !kiln__worker_get_failure(frame, &status, report)) {
        *sound = false;
    }
    return status;
}

/* One worker for one request. */
typedef struct hiring {
    const kiln__list *places; /* that it may read; NULL: any */
    bool foreign;             /* it gets source from elsewhere */
    bool asked;               /* it tells its toolchain, whether or not that is known */
    bool fresh;               /* it was started for this request */
    kiln__worker *which;
    kiln__toolchain told;
    kiln__worker_answer answer; /* to the last request */
} hiring;

/* Lets the worker tell its toolchain, for which it may compile an empty kernel. */
static kiln_status ask_identity(workers *self, hiring *hired, kiln_report *report)
{
    kiln__text request = { 0 };
    bool sound;
    kiln__frame_begin(&request, KILN__WORKER_IDENTIFY);
    kiln__worker_ask(&hired->which->child, &request, self->set.limits.time_ms, &hired->answer);
    kiln__text_fini(&request);
    kiln_status status = read_identity(self, hired->which, &hired->answer, &hired->told, &sound, report);
    if (!sound && hired->answer.result == KILN__CHANNEL_DONE)
        hired->answer.result = KILN__CHANNEL_MALFORMED;
    kiln__message_fini(&hired->answer.message);
    if (status != KILN_OK)
        kiln__worker_end(hired->which);
    return status;
}

/* An idle worker may have died, or have been stopped, before it was asked. It is replaced by a new one, once and
 * without a word. True: the caller hires again. */
static bool replace(hiring *hired)
{
    if (hired->fresh || hired->answer.begun || hired->answer.result != KILN__CHANNEL_CLOSED)
        return false;
    kiln__message_fini(&hired->answer.message);
    kiln__worker_end(hired->which);
    return hired->fresh = true;
}

/* Takes an idle worker, or starts one where there is none or hired->fresh asks for it. A worker tells its toolchain
 * before its first source from elsewhere, because afterwards it may say anything. KILN_OK: hired->which is a worker.
 * It takes requests only if hired->answer.result is DONE. */
static kiln_status hire(workers *self, hiring *hired, kiln_report *report)
{
    kiln__text marks = { 0 };
    kiln_status status = KILN_OK;
    kiln__workerset_mark(&marks, hired->places);
    if (marks.failed)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    do {
        memset(&hired->answer, 0, sizeof(hired->answer));
        hired->which = hired->fresh ? NULL : kiln__workerset_take(&self->set, hired->places, &marks, hired->foreign);
        hired->fresh = hired->which == NULL;
        if (hired->fresh)
            status = start(self, hired->places, &marks, &hired->which, report);
        if (status == KILN_OK &&
            (hired->asked || (hired->foreign && !hired->which->strange && hired->which->id[0] == '\0')))
            status = ask_identity(self, hired, report);
    } while (status == KILN_OK && replace(hired));
    kiln__text_fini(&marks);
    return status;
}

/* ---- Compiling */

static kiln_status fail_unbegun(const kiln__worker_answer *answer, kiln_report *report)
{
    if (answer->result == KILN__CHANNEL_NO_MEMORY)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
                      "a compile worker %s before it began to compile: try again, and see kiln doctor",
                      answer->stopped                        ? "was stopped by a signal"
                      : answer->result == KILN__CHANNEL_LATE ? "did not answer"
                                                             : "ended or gave no proper answer");
}

/* A text that has cost a worker: counts it, notes it and keeps it. */
static kiln_status fail_deadly(workers *self, const kiln__unit *unit, const kiln__suspect *suspect, bool late,
                               kiln_report *report)
{
    char path[PATH_MAX];
    kiln_report plain = KILN_INIT(kiln_report);
    atomic_fetch_add(late ? &self->timeouts : &self->crashes, 1);
    if (suspect->apt)
        kiln__suspects_accuse(&self->suspects, suspect->digest);
    bool kept = kiln__suspects_keep(&self->suspects, unit->source, unit->source_length, path, sizeof(path));
    if (report == NULL)
        report = &plain;
    if (kept)
        kiln__fail(report, report->status, report->stage, report->native, "%s (source kept in %s)", report->message,
                   path);
    else if (path[0] != '\0')
        kiln__fail(report, report->status, report->stage, report->native, "%s (%s)", report->message, path);
    kiln__log_line(self->log, KILN_LOG_WARN, "%s", report->message);
    return KILN_ECRASHED;
}

static kiln_status fail_condemned(const kiln__unit *unit, kiln_report *report)
{
    return kiln__fail(
        report, KILN_ECRASHED, KILN__STAGE_COMPILE, 0,
        "this source has crashed the compiler or run into a limit %d times and is not tried again for %s: "
        "change it, or open the service anew",
        KILN__SUSPECT_STRIKES, unit->target.name);
}

/* A worker that has had source from elsewhere is believed no other toolchain than the one it told before. */
static bool note_toolchain(workers *self, kiln__worker *which, const kiln__toolchain *learnt)
{
    if (which->strange)
        return strcmp(which->id, learnt->id) == 0;
    note_identity(self, which, learnt);
    return true;
}

/* What is no answer of a sound worker counts as a crash: who knows what the source made of it. */
static kiln_status read_answer(workers *self, kiln__worker *which, const kiln__frame *frame, const kiln__unit *unit,
                               kiln__image *out, bool *sound, kiln_report *report)
{
    kiln__toolchain learnt;
    kiln_status status = KILN_ECRASHED;
    bool no_memory = false;
    *sound = true;
    if (frame->type == KILN__WORKER_IMAGE && kiln__worker_get_image(frame, out, &learnt, &no_memory)) {
        status = kiln__nvrtc_check_image(out, unit, report);
        *sound = status == KILN_OK && note_toolchain(self, which, &learnt);
        return *sound ? KILN_OK : KILN_ECRASHED;
    }
    if (no_memory)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    *sound = frame->type == KILN__WORKER_FAILED && kiln__worker_get_failure(frame, &status, report);
    if (*sound && status == KILN_ENOMEM)
        return kiln__fail(
            report, KILN_ECRASHED, KILN__STAGE_COMPILE, 0,
            "compiling for %s takes more memory than the %.2f GiB it may use: make the source simpler, or "
            "raise worker_memory_bytes",
            unit->target.name, (double)self->set.limits.memory_bytes / (1 << 30));
    return status;
}

static kiln_status conclude(workers *self, kiln__worker *which, kiln__worker_answer *answer, const kiln__unit *unit,
                            const kiln__suspect *suspect, kiln__image *out, kiln_report *report)
{
    kiln_status status = KILN_ECRASHED;
    bool sound = false;
    if (answer->begun && answer->result == KILN__CHANNEL_DONE)
        status = read_answer(self, which, &answer->message.frame, unit, out, &sound, report);
    if (sound && status != KILN_EIO) {
        kiln__workerset_give_back(&self->set, which);
        return status;
    }
    if (sound) { /* its sandbox may hold a directory that is another one now */
        kiln__child_end(&which->child);
    } else if (!answer->begun) {
        kiln__child_end(&which->child);
        status = fail_unbegun(answer, report);
    } else if ((status = kiln__worker_bury(&which->child, answer, &self->set.limits, unit, report)) == KILN_ECRASHED) {
        status = fail_deadly(self, unit, suspect, answer->result == KILN__CHANNEL_LATE, report);
    }
    kiln__worker_free(which);
    kiln__image_fini(out);
    return status;
}

static kiln_status put_unit(kiln__text *request, const kiln__unit *unit, kiln_report *report)
{
    kiln__frame_begin(request, KILN__WORKER_COMPILE);
    kiln__worker_put_unit(request, unit);
    if (request->failed)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (request->length > KILN__WORKER_LIMIT)
        return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                          "the source has %zu bytes: a compile worker takes at most %d MiB", unit->source_length,
                          KILN__WORKER_LIMIT >> 20);
    return KILN_OK;
}

static kiln_status compile_outside(workers *self, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    kiln__suspect suspect;
    kiln__text request = { 0 };
    hiring hired = { .places = &unit->places, .foreign = unit->foreign };
    memset(out, 0, sizeof(*out));
    if (!kiln__suspect_of(&suspect, unit))
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (suspect.apt && kiln__suspects_is_condemned(&self->suspects, suspect.digest))
        return fail_condemned(unit, report);
    kiln_status status = put_unit(&request, unit, report);
    if (status == KILN_OK) {
        do {
            status = hire(self, &hired, report);
            if (status != KILN_OK || hired.answer.result != KILN__CHANNEL_DONE)
                break;
            hired.which->strange |= hired.foreign;
            kiln__worker_ask(&hired.which->child, &request, self->set.limits.time_ms, &hired.answer);
        } while (replace(&hired));
    }
    kiln__text_fini(&request);
    if (status != KILN_OK)
        return status;
    status = conclude(self, hired.which, &hired.answer, unit, &suspect, out, report);
    kiln__message_fini(&hired.answer.message);
    return status;
}

/* A worker opens NVRTC anew, by its path: where another one lies there by now, what is made of it is not this
 * process's. */
static bool is_by_the_same(workers *self, const kiln__image *image)
{
    kiln__toolchain ours;
    memset(&ours, 0, sizeof(ours));
    return self->inner->vtable->open(self->inner, &ours, NULL) != KILN_OK || ours.id[0] == '\0' ||
           strcmp(ours.id, image->toolchain) == 0;
}

/* Lets a worker compile Kiln's own unit. False: *why says why it has not. */
static bool compile_helped(workers *self, const kiln__unit *unit, kiln__image *out, kiln_report *why)
{
    bool helped = compile_outside(self, unit, out, why) == KILN_OK;
    if (helped && !is_by_the_same(self, out)) {
        kiln__image_fini(out);
        kiln__fail(why, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, 0,
                   "the file of NVRTC is another one than that which is open");
        helped = false;
    }
    kiln__crowd_return(&self->crowd, !helped);
    return helped;
}

static void pause_workers(workers *self, const char *why)
{
    uint64_t pause = kiln__crowd_pause(&self->crowd, kiln__cpu_now_ns());
    if (pause > 0)
        kiln__log_line(self->log, KILN_LOG_INFO, "compiles without workers for %u s: %s",
                       (unsigned)(pause / 1000000000), why);
}

static kiln_status refuse_heavy(const kiln__unit *unit, kiln_report *report)
{
    return kiln__fail(
        report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
        "the op comes to %u operations for each of %llu elements of a thread, and at most %d in all are compiled "
        "without a worker: take fewer elems, a shorter definition, or another isolate than never",
        unit->operations, (unsigned long long)kiln__unit_elements(unit), KILN__UNIT_LIGHT_MAX);
}

/* Kiln's own units are compiled here, unless too many are already. If a worker fails and this process succeeds, the
 * workers are at fault. They then rest for a while. */
static kiln_status compile_here_or_outside(kiln__compiler *base, const kiln__unit *unit, kiln__image *out,
                                           kiln_report *report)
{
    workers *self = (workers *)base;
    kiln_report why = KILN_INIT(kiln_report);
    bool heavy = kiln__unit_is_heavy(unit), never = self->isolate == KILN_ISOLATE_NEVER;
    memset(out, 0, sizeof(*out));
    if (never && heavy)
        return refuse_heavy(unit, report);
    if (!never && (self->isolate == KILN_ISOLATE_ALWAYS || unit->foreign || heavy || kiln__nvrtc_steering() != NULL))
        return compile_outside(self, unit, out, report);
    bool sent = !never && !kiln__crowd_enter(&self->crowd, kiln__cpu_now_ns());
    if (sent && compile_helped(self, unit, out, &why)) {
        kiln_report_clear(&why);
        return KILN_OK;
    }
    kiln_status status = self->inner->vtable->compile(self->inner, unit, out, report);
    if (!never)
        kiln__crowd_leave(&self->crowd, kiln__cpu_now_ns());
    if (sent && status == KILN_OK)
        pause_workers(self, why.message);
    kiln_report_clear(&why);
    return status;
}

/* ---- The rest of a compiler */

static void search(const kiln__compiler *base, kiln__text *out)
{
    const workers *self = (const workers *)base;
    self->inner->vtable->search(self->inner, out);
}

static void append_options(const kiln__compiler *base, const kiln__unit *unit, kiln__text *out)
{
    const workers *self = (const workers *)base;
    self->inner->vtable->options(self->inner, unit, out);
}

static kiln_status open_compiler(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    workers *self = (workers *)base;
    kiln__worker *fresh;
    if (self->isolate != KILN_ISOLATE_ALWAYS)
        return self->inner->vtable->open(self->inner, out, report);
    if (get_facts(self, out))
        return KILN_OK;
    kiln_status status = start(self, NULL, NULL, &fresh, report);
    if (status != KILN_OK)
        return status;
    kiln__workerset_give_back(&self->set, fresh);
    get_facts(self, out);
    return KILN_OK;
}

static kiln_status identify_outside(workers *self, kiln__toolchain *out, kiln_report *report)
{
    hiring hired = { .asked = true };
    kiln_status status = hire(self, &hired, report);
    if (status != KILN_OK)
        return status;
    if (hired.answer.result != KILN__CHANNEL_DONE) {
        kiln__worker_end(hired.which);
        return fail_unbegun(&hired.answer, report);
    }
    *out = hired.told;
    kiln__workerset_give_back(&self->set, hired.which);
    return KILN_OK;
}

static kiln_status identify(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    workers *self = (workers *)base;
    bool here = self->isolate == KILN_ISOLATE_AUTO && kiln__nvrtc_steering() == NULL;
    if (here || self->isolate == KILN_ISOLATE_NEVER)
        return self->inner->vtable->identify(self->inner, out, report);
    if (get_facts(self, out) && out->id[0] != '\0')
        return KILN_OK;
    return identify_outside(self, out, report);
}

static void close_workers(kiln__compiler *base)
{
    workers *self = (workers *)base;
    if (self == NULL)
        return;
    kiln__workerset_fini(&self->set);
    self->inner->vtable->close(self->inner);
    kiln__suspects_fini(&self->suspects);
    pthread_mutex_destroy(&self->facts_lock);
    kiln__free(self->program);
    kiln__free(self->nvrtc);
    kiln__free(self->crash_dir);
    kiln__free(self->facts);
    kiln__free(self);
}

static const kiln__compiler_vtable vtable = {
    .name = "nvrtc",
    .search = search,
    .options = append_options,
    .open = open_compiler,
    .identify = identify,
    .compile = compile_here_or_outside,
    .know = know,
    .close = close_workers,
};

/* A relative name is of the directory where the service is opened, and of no later one. One that leads to nothing
 * stays as it is, and is refused when the program is wanted. */
static char *copy_absolute(const char *path)
{
    char resolved[PATH_MAX];
    bool relative = path != NULL && path[0] != '/';
    return kiln__strdup(relative && realpath(path, resolved) != NULL ? resolved : path);
}

kiln__compiler *kiln__workers_open(kiln__compiler *inner, const kiln__workers_options *options, const kiln__log *log)
{
    workers *self = inner != NULL ? kiln__calloc(1, sizeof(*self)) : NULL;
    if (self == NULL) {
        if (inner != NULL)
            inner->vtable->close(inner);
        return NULL;
    }
    self->compiler.vtable = &vtable;
    self->inner = inner;
    self->log = log;
    self->isolate = options->isolate;
    self->program = copy_absolute(options->program);
    self->nvrtc = kiln__strdup(options->nvrtc);
    self->crash_dir = kiln__strdup(options->crash_dir);
    const kiln__worker_limits limits = { options->memory_bytes, options->time_ms };
    kiln__workerset_init(&self->set, self->program, &limits, log);
    kiln__suspects_init(&self->suspects, self->crash_dir);
    kiln__crowd_init(&self->crowd, kiln__cpu_count());
    pthread_mutex_init(&self->facts_lock, NULL);
    if ((options->program != NULL && self->program == NULL) || (options->nvrtc != NULL && self->nvrtc == NULL) ||
        (options->crash_dir != NULL && self->crash_dir == NULL)) {
        close_workers(&self->compiler);
        return NULL;
    }
    return &self->compiler;
}

void kiln__workers_count(const kiln__compiler *base, kiln__workers_counts *out)
{
    const workers *self = (const workers *)base;
    out->starts = atomic_load(&self->set.starts);
    out->crashes = atomic_load(&self->crashes);
    out->timeouts = atomic_load(&self->timeouts);
}

kiln_status kiln__workers_examine(kiln__compiler *base, char *path, size_t size, kiln_report *report)
{
    workers *self = (workers *)base;
    kiln__worker *which = NULL;
    path[0] = '\0';
    kiln_status status = kiln__worker_find(self->program, path, size, report);
    if (status == KILN_OK && (which = kiln__workerset_take(&self->set, NULL, NULL, false)) == NULL)
        status = start(self, NULL, NULL, &which, report);
    if (which != NULL)
        kiln__workerset_give_back(&self->set, which);
    return status == KILN_ENOCOMPILER ? KILN_OK : status;
}
