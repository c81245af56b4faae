#include "compile/workers.h"

#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "compile/suspects.h"
#include "compile/worker.h"
#include "os/cpu.h"
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A little longer than it takes a worker to end itself. */
#define IDLE_NS ((uint64_t)70 * 1000000000)

typedef struct worker {
    kiln__child child;
    kiln__list places; /* what it may read, for as long as it lives */
    kiln__text marks;  /* which directories these were when it was started */
    uint64_t idle_since;
    struct worker *next, *before; /* of all */
    struct worker *below;         /* of the idle ones, used before this one */
} worker;

typedef struct workers {
    kiln__compiler compiler;
    kiln__compiler *inner;
    const kiln__log *log;
    kiln_isolate isolate;
    char *program, *nvrtc, *crash_dir; /* NULL where there is none */
    kiln__worker_limits limits;
    kiln__suspects suspects;
    pthread_mutex_t
        lock; /* guards what follows, and is held while a worker is started, so that a fork knows them all */
    worker *all, *idle;
    unsigned idle_count, idle_max;
    pthread_mutex_t facts_lock; /* guards what follows */
    bool known;
    kiln__toolchain facts; /* of the NVRTC that workers have opened, where this process opens none */
    atomic_uint_least64_t starts, crashes, timeouts;
} workers;

/* ---- Directories */

/* Appends which directories the places are now. A sandbox holds directories and not their names, so that one which is removed
 * and made anew would be closed to a worker of before. An inode that a sandbox holds is not given to another directory.
 * NULL: none. */
static void append_marks(kiln__text *out, const kiln__list *places)
{
    const char *name = NULL, *path;
    while (places != NULL && kiln__list_next_pair(places, &name, &path)) {
        struct stat status;
        if (stat(path, &status) != 0)
            status = (struct stat){ 0 };
        kiln__text_printf(out, "%llu:%llu\n", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
    }
}

static bool is_equal(const kiln__text *a, const kiln__text *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
}

static bool has_places(const worker *which, const kiln__list *places, const kiln__text *marks)
{
    return is_equal(&which->places.bytes, &places->bytes) && is_equal(&which->marks, marks);
}

/* ---- The workers there are */

static void free_worker(worker *which)
{
    kiln__list_fini(&which->places);
    kiln__text_fini(&which->marks);
    kiln__free(which);
}

/* With the lock held. */
static void cut(workers *self, worker *which)
{
    if (which->before != NULL)
        which->before->next = which->next;
    else
        self->all = which->next;
    if (which->next != NULL)
        which->next->before = which->before;
}

static void forget(workers *self, worker *which)
{
    pthread_mutex_lock(&self->lock);
    cut(self, which);
    pthread_mutex_unlock(&self->lock);
}

static void end(workers *self, worker *which)
{
    if (which == NULL)
        return;
    kiln__child_end(&which->child);
    forget(self, which);
    free_worker(which);
}

/* Takes the idle ones below the first `keep`, and those that have been so for too long, out of the list. With the lock
 * held. */
static worker *take_superfluous(workers *self, unsigned keep)
{
    uint64_t now = kiln__cpu_now_ns();
    worker **at = &self->idle;
    unsigned kept = 0;
    while (*at != NULL && kept < keep && now - (*at)->idle_since < IDLE_NS) {
        at = &(*at)->below;
        kept++;
    }
    worker *rest = *at;
    *at = NULL;
    self->idle_count = kept;
    return rest;
}

static void end_all(workers *self, worker *list)
{
    while (list != NULL) {
        worker *below = list->below;
        end(self, list);
        list = below;
    }
}

/* An idle worker that may read just these places (NULL: any); the one used last. */
static worker *take_idle(workers *self, const kiln__list *places, const kiln__text *marks)
{
    pthread_mutex_lock(&self->lock);
    worker *superfluous = take_superfluous(self, self->idle_max);
    worker **at = &self->idle;
    while (*at != NULL && places != NULL && !has_places(*at, places, marks))
        at = &(*at)->below;
    worker *taken = *at;
    if (taken != NULL) {
        *at = taken->below;
        self->idle_count--;
        taken->below = NULL;
    }
    pthread_mutex_unlock(&self->lock);
    end_all(self, superfluous);
    return taken;
}

static void give_back(workers *self, worker *which)
{
    pthread_mutex_lock(&self->lock);
    which->idle_since = kiln__cpu_now_ns();
    which->below = self->idle;
    self->idle = which;
    self->idle_count++;
    worker *superfluous = take_superfluous(self, self->idle_max);
    pthread_mutex_unlock(&self->lock);
    end_all(self, superfluous);
}

/* ---- Starting */

/* What is known of NVRTC where only workers open it. A worker that was just started does not know the id yet. */
static void note_facts(workers *self, const kiln__toolchain *facts)
{
    pthread_mutex_lock(&self->facts_lock);
    if (!self->known || strcmp(self->facts.path, facts->path) != 0)
        self->facts = *facts;
    self->known = true;
    pthread_mutex_unlock(&self->facts_lock);
}

static void note_identity(workers *self, const kiln__toolchain *learnt)
{
    pthread_mutex_lock(&self->facts_lock);
    memcpy(self->facts.id, learnt->id, sizeof(self->facts.id));
    memcpy(self->facts.version, learnt->version, sizeof(self->facts.version));
    pthread_mutex_unlock(&self->facts_lock);
}

static bool get_facts(workers *self, kiln__toolchain *out)
{
    pthread_mutex_lock(&self->facts_lock);
    bool known = self->known;
    if (known)
        *out = self->facts;
    pthread_mutex_unlock(&self->facts_lock);
    return known;
}

static kiln_status launch(workers *self, const char *program, worker *fresh, kiln_report *report)
{
    pthread_mutex_lock(&self->lock);
    kiln_status status = kiln__worker_start(&fresh->child, program, &self->limits, report);
    if (status == KILN_OK) {
        fresh->next = self->all;
        if (fresh->next != NULL)
            fresh->next->before = fresh;
        self->all = fresh;
        atomic_fetch_add(&self->starts, 1);
    }
    pthread_mutex_unlock(&self->lock);
    return status;
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

static worker *new_worker(const kiln__list *places, const kiln__text *marks)
{
    worker *fresh = kiln__calloc(1, sizeof(*fresh));
    if (fresh == NULL || places == NULL)
        return fresh;
    kiln__text_append_bytes(&fresh->marks, kiln__text_string(marks), marks->length);
    if (!fresh->marks.failed && kiln__list_read(&fresh->places, places->bytes.data, places->bytes.length))
        return fresh;
    free_worker(fresh);
    return NULL;
}

/* `places` may be NULL: none. `marks` are those of a moment before, so that no worker is taken for one that holds a later
 * directory. */
static kiln_status start(workers *self, const kiln__list *places, const kiln__text *marks, worker **out,
                         kiln_report *report)
{
    char program[PATH_MAX];
    kiln__toolchain facts;
    const char *nvrtc;
    *out = NULL;
    kiln_status status = choose_nvrtc(self, &facts, &nvrtc, report);
    if (status == KILN_OK)
        status = kiln__worker_find(self->program, program, sizeof(program), report);
    if (status != KILN_OK)
        return status;
    worker *fresh = new_worker(places, marks);
    if (fresh == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    status = launch(self, program, fresh, report);
    if (status != KILN_OK) {
        free_worker(fresh);
        return status;
    }
    status = kiln__worker_open(&fresh->child, program, nvrtc, &fresh->places, &facts, report);
    if (status != KILN_OK) {
        end(self, fresh);
        return status;
    }
    kiln__log_line(self->log, KILN_LOG_DEBUG, "started compile worker %s, process %d", program, (int)fresh->child.pid);
    note_facts(self, &facts);
    *out = fresh;
    return KILN_OK;
}

/* ---- Asking */

static kiln_status ask_one(workers *self, const kiln__text *request, const kiln__list *places, const kiln__text *marks,
                           worker **which, kiln__worker_answer *out, kiln_report *report)
{
    kiln_status status = KILN_OK;
    *which = take_idle(self, places, marks);
    bool fresh = *which == NULL;
    for (;;) {
        if (*which == NULL)
            status = start(self, places, marks, which, report);
        if (status != KILN_OK)
            return status;
        kiln__worker_ask(&(*which)->child, request, self->limits.time_ms, out);
        if (fresh || out->begun || out->result != KILN__CHANNEL_CLOSED)
            return KILN_OK;
        kiln__message_fini(&out->message);
        end(self, *which);
        *which = NULL;
        fresh = true;
    }
}

/* Asks an idle worker or, where there is none, a new one. One that had died before it began is replaced by a new one, once
 * and without a word. With KILN_OK there is an answer, *out, of *which. */
static kiln_status ask(workers *self, const kiln__text *request, const kiln__list *places, worker **which,
                       kiln__worker_answer *out, kiln_report *report)
{
    kiln__text marks = { 0 };
    append_marks(&marks, places);
    kiln_status status = marks.failed ? kiln__fail_memory(report, KILN__STAGE_COMPILE)
                                      : ask_one(self, request, places, &marks, which, out, report);
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
                      answer->result == KILN__CHANNEL_LATE ? "did not answer" : "ended or gave no proper answer");
}

/* A text that has cost a worker: counts it, notes it and keeps it. */
static kiln_status fail_deadly(workers *self, const kiln__unit *unit, const kiln__suspect *suspect, bool late,
                               kiln_report *report)
{
    char path[PATH_MAX];
    kiln_report plain = KILN_REPORT_INIT;
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

/* What is no answer of a sound worker counts as a crash: who knows what the source made of it. */
static kiln_status read_answer(workers *self, const kiln__frame *frame, const kiln__unit *unit, kiln__image *out,
                               bool *sound, kiln_report *report)
{
    kiln__toolchain learnt;
    kiln_status status = KILN_ECRASHED;
    bool no_memory = false;
    *sound = true;
    if (frame->type == KILN__WORKER_IMAGE && kiln__worker_get_image(frame, out, &learnt, &no_memory)) {
        status = kiln__nvrtc_check_image(out, unit, report);
        *sound = status == KILN_OK;
        if (*sound)
            note_identity(self, &learnt);
        return status;
    }
    if (no_memory)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    *sound = frame->type == KILN__WORKER_FAILED && kiln__worker_get_failure(frame, &status, report);
    if (*sound && status == KILN_ENOMEM)
        return kiln__fail(
            report, KILN_ECRASHED, KILN__STAGE_COMPILE, 0,
            "compiling for %s takes more memory than the %.2f GiB it may use: make the source simpler, or "
            "raise worker_memory_bytes",
            unit->target.name, (double)self->limits.memory_bytes / (1 << 30));
    return status;
}

static kiln_status conclude(workers *self, worker *which, kiln__worker_answer *answer, const kiln__unit *unit,
                            const kiln__suspect *suspect, kiln__image *out, kiln_report *report)
{
    kiln_status status = KILN_ECRASHED;
    bool sound = false;
    if (answer->begun && answer->result == KILN__CHANNEL_DONE)
        status = read_answer(self, &answer->message.frame, unit, out, &sound, report);
    if (sound && status != KILN_EIO) {
        give_back(self, which);
        return status;
    }
    if (sound) { /* its sandbox may hold a directory that is another one now */
        kiln__child_end(&which->child);
    } else if (!answer->begun) {
        kiln__child_end(&which->child);
        status = fail_unbegun(answer, report);
    } else if ((status = kiln__worker_bury(&which->child, answer, &self->limits, unit, report)) == KILN_ECRASHED) {
        status = fail_deadly(self, unit, suspect, answer->result == KILN__CHANNEL_LATE, report);
    }
    forget(self, which);
    free_worker(which);
    kiln__image_fini(out);
    return status;
}

static kiln_status compile_outside(workers *self, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    kiln__suspect suspect;
    kiln__worker_answer answer;
    kiln__text request = { 0 };
    static const kiln__list none;
    worker *which;
    memset(out, 0, sizeof(*out));
    if (!kiln__suspect_of(&suspect, unit))
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (suspect.apt && kiln__suspects_is_condemned(&self->suspects, suspect.digest))
        return fail_condemned(unit, report);
    kiln__frame_begin(&request, KILN__WORKER_COMPILE);
    kiln__worker_put_unit(&request, unit);
    if (request.length > KILN__WORKER_LIMIT) {
        kiln__text_fini(&request);
        return kiln__fail(report, KILN_ECOMPILE, KILN__STAGE_COMPILE, 0,
                          "the source has %zu bytes: a compile worker takes at most %d MiB", unit->source_length,
                          KILN__WORKER_LIMIT >> 20);
    }
    kiln_status status =
        request.failed ? kiln__fail_memory(report, KILN__STAGE_COMPILE)
                       : ask(self, &request, unit->own != NULL ? &unit->own->places : &none, &which, &answer, report);
    kiln__text_fini(&request);
    if (status != KILN_OK)
        return status;
    status = conclude(self, which, &answer, unit, &suspect, out, report);
    kiln__message_fini(&answer.message);
    return status;
}

static kiln_status compile(kiln__compiler *base, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    workers *self = (workers *)base;
    bool outside = self->isolate == KILN_ISOLATE_ALWAYS || (self->isolate == KILN_ISOLATE_AUTO && unit->foreign);
    if (outside)
        return compile_outside(self, unit, out, report);
    return self->inner->vtable->compile(self->inner, unit, out, report);
}

/* ---- The rest of a compiler */

static void search(const kiln__compiler *base, kiln__text *out)
{
    const workers *self = (const workers *)base;
    self->inner->vtable->search(self->inner, out);
}

static void append_options(const kiln__compiler *base, const kiln__target *target, kiln__text *out)
{
    const workers *self = (const workers *)base;
    self->inner->vtable->options(self->inner, target, out);
}

static kiln_status open_compiler(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    workers *self = (workers *)base;
    worker *fresh;
    if (self->isolate != KILN_ISOLATE_ALWAYS)
        return self->inner->vtable->open(self->inner, out, report);
    if (get_facts(self, out))
        return KILN_OK;
    kiln_status status = start(self, NULL, NULL, &fresh, report);
    if (status != KILN_OK)
        return status;
    give_back(self, fresh);
    get_facts(self, out);
    return KILN_OK;
}

static kiln_status identify_outside(workers *self, kiln__toolchain *out, kiln_report *report)
{
    kiln__worker_answer answer;
    kiln__text request = { 0 };
    worker *which;
    kiln__frame_begin(&request, KILN__WORKER_IDENTIFY);
    kiln_status status = ask(self, &request, NULL, &which, &answer, report);
    kiln__text_fini(&request);
    if (status != KILN_OK)
        return status;
    const kiln__frame *frame = &answer.message.frame;
    bool answered = answer.result == KILN__CHANNEL_DONE, sound = true;
    if (answered && frame->type == KILN__WORKER_TOOLCHAIN && kiln__worker_get_toolchain(frame, out))
        note_identity(self, out);
    else if (!answered || frame->type != KILN__WORKER_FAILED || !kiln__worker_get_failure(frame, &status, report))
        sound = false;
    if (sound)
        give_back(self, which);
    else
        end(self, which);
    kiln__message_fini(&answer.message);
    return sound ? status : fail_unbegun(&answer, report);
}

static kiln_status identify(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    workers *self = (workers *)base;
    if (self->isolate != KILN_ISOLATE_ALWAYS)
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
    end_all(self, self->idle);
    self->inner->vtable->close(self->inner);
    kiln__suspects_fini(&self->suspects);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->facts_lock);
    kiln__free(self->program);
    kiln__free(self->nvrtc);
    kiln__free(self->crash_dir);
    kiln__free(self);
}

/* ---- Forks */

/* All locks: a thread of the service may be compiling while the host forks. */
void kiln__workers_before_fork(kiln__compiler *base)
{
    workers *self = (workers *)base;
    if (self == NULL)
        return;
    pthread_mutex_lock(&self->lock);
    pthread_mutex_lock(&self->facts_lock);
    pthread_mutex_lock(&self->suspects.lock);
    if (self->inner->vtable->before_fork != NULL)
        self->inner->vtable->before_fork(self->inner);
}

void kiln__workers_after_fork(kiln__compiler *base, bool child)
{
    workers *self = (workers *)base;
    if (self == NULL)
        return;
    if (self->inner->vtable->after_fork != NULL)
        self->inner->vtable->after_fork(self->inner, child);
    for (worker *each = self->all; child && each != NULL; each = each->next)
        kiln__child_forget(&each->child);
    while (child && self->idle != NULL) {
        worker *below = self->idle->below;
        free_worker(self->idle);
        self->idle = below;
    }
    if (child) {
        self->all = NULL;
        self->idle_count = 0;
    }
    pthread_mutex_unlock(&self->suspects.lock);
    pthread_mutex_unlock(&self->facts_lock);
    pthread_mutex_unlock(&self->lock);
}

static const kiln__compiler_vtable vtable = {
    .name = "nvrtc",
    .search = search,
    .options = append_options,
    .open = open_compiler,
    .identify = identify,
    .compile = compile,
    .close = close_workers,
    .before_fork = kiln__workers_before_fork,
    .after_fork = kiln__workers_after_fork,
};

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
    self->limits = (kiln__worker_limits){ options->memory_bytes, options->time_ms };
    self->idle_max = kiln__cpu_count();
    self->program = kiln__strdup(options->program);
    self->nvrtc = kiln__strdup(options->nvrtc);
    self->crash_dir = kiln__strdup(options->crash_dir);
    kiln__suspects_init(&self->suspects, self->crash_dir);
    pthread_mutex_init(&self->lock, NULL);
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
    out->starts = atomic_load(&self->starts);
    out->crashes = atomic_load(&self->crashes);
    out->timeouts = atomic_load(&self->timeouts);
}

kiln_status kiln__workers_examine(kiln__compiler *base, char *path, size_t size, kiln_report *report)
{
    workers *self = (workers *)base;
    worker *which = NULL;
    path[0] = '\0';
    kiln_status status = kiln__worker_find(self->program, path, size, report);
    if (status == KILN_OK && (which = take_idle(self, NULL, NULL)) == NULL)
        status = start(self, NULL, NULL, &which, report);
    if (which != NULL)
        give_back(self, which);
    return status == KILN_ENOCOMPILER ? KILN_OK : status;
}
