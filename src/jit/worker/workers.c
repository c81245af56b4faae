/* The pool of compile workers: which compiles go to them, how they are started, lent and replaced, and what follows
 * when a source crashes one. */
#include "jit/worker/workers.h"

#include "base/alloc.h"
#include "base/table.h"
#include "gpu/cuda.h"
#include "jit/worker/balance.h"
#include "jit/worker/quarantine.h"
#include "jit/worker/worker.h"
#include "os/cpu.h"
#include "os/file.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A little longer than it takes an idle worker to end itself. */
#define IDLE_NS ((uint64_t)70 * 1000000000)

typedef struct worker {
    kiln__child child;
    kiln__list places;                   /* what it may read, for as long as it lives */
    kiln__text inodes;                   /* of these directories when it was started */
    kiln__text linker;                   /* the files by which it links, and their stamps; empty: it cannot */
    bool tainted;                        /* it has been given source from elsewhere, which may have taken it over */
    char id[KILN__ENTRY_TOOLCHAIN_SIZE]; /* its toolchain, known before it was given such source; "": not known yet */
    struct stat nvrtc;                   /* the file that it has opened; zeros: unknown */
    uint64_t idle_since;
    struct worker *next; /* of the idle ones, used before this one */
} worker;

typedef struct workers {
    kiln__compiler compiler;
    kiln__compiler *inner;
    const kiln__log *log;
    kiln_isolate isolate;
    char *program, *nvrtc, *crash_dir; /* NULL where there is none */
    kiln__worker_limits limits;
    kiln__quarantine quarantine;
    kiln__balance balance;
    pthread_mutex_t idle_lock; /* guards what follows */
    worker *idle;              /* the last used first */
    unsigned idle_count, idle_max;
    pthread_mutex_t facts_lock; /* guards what follows */
    kiln__toolchain *facts;     /* of the NVRTC that workers have opened; NULL before the first */
    /* The toolchain of a file of NVRTC, as the store remembers it or as a worker told; "": none is known. */
    char id[KILN__ENTRY_TOOLCHAIN_SIZE];
    struct stat id_file;
    atomic_uint_least64_t starts, crashes, timeouts;
} workers;

/* ---- Facts about NVRTC */

/* Notes which NVRTC a worker has opened. Its id is not known yet. False: out of memory. */
static bool note_facts(workers *self, const kiln__toolchain *facts)
{
    pthread_mutex_lock(&self->facts_lock);
    if (self->facts == NULL)
        self->facts = kiln__memdup(facts, sizeof(*facts));
    else if (strcmp(self->facts->path, facts->path) != 0)
        *self->facts = *facts;
    bool noted = self->facts != NULL;
    pthread_mutex_unlock(&self->facts_lock);
    return noted;
}

static bool get_facts(workers *self, kiln__toolchain *out)
{
    pthread_mutex_lock(&self->facts_lock);
    bool known = self->facts != NULL;
    if (known)
        *out = *self->facts;
    pthread_mutex_unlock(&self->facts_lock);
    return known;
}

static void note_identity(workers *self, worker *which, const kiln__toolchain *learnt)
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
static void recall_identity(workers *self, worker *which, const char *path)
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

/* ---- Idle workers */

static void end_worker(worker *which)
{
    kiln__child_end(&which->child);
    kiln__list_fini(&which->places);
    kiln__text_fini(&which->inodes);
    kiln__text_fini(&which->linker);
    kiln__free(which);
}

static void end_all(worker *list)
{
    worker *which, *next;
    LL_FOREACH_SAFE (list, which, next)
        end_worker(which);
}

/* Takes the idle workers beyond idle_max, and those that have been idle for too long, out of the list. With the lock
 * held. */
static worker *take_surplus(workers *self)
{
    uint64_t now = kiln__cpu_now_ns();
    worker **at = &self->idle;
    for (self->idle_count = 0; *at != NULL && self->idle_count < self->idle_max && now - (*at)->idle_since < IDLE_NS;
         self->idle_count++)
        at = &(*at)->next;
    worker *rest = *at;
    *at = NULL;
    return rest;
}

static bool is_equal(const kiln__text *a, const kiln__text *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
}

/* Everything that a worker opens besides NVRTC, and the state of that a moment before it is started: no worker is then
 * taken for one that holds a later directory or a later linker. */
typedef struct opening {
    const kiln__list *places; /* NULL: any, none for a new worker */
    kiln__text inodes;        /* of places */
    kiln__list linker;        /* its files; empty: it need not link */
    kiln__text stamps;        /* of these */
} opening;

static void fini_opening(opening *wanted)
{
    kiln__text_fini(&wanted->inodes);
    kiln__list_fini(&wanted->linker);
    kiln__text_fini(&wanted->stamps);
}

static bool has_opened(const worker *which, const opening *wanted)
{
    bool reads = wanted->places == NULL ||
                 (is_equal(&which->places.bytes, &wanted->places->bytes) && is_equal(&which->inodes, &wanted->inodes));
    return reads && (wanted->linker.count == 0 || is_equal(&which->linker, &wanted->stamps));
}

static worker *find_idle(const workers *self, const opening *wanted, bool tainted)
{
    worker *which;
    LL_FOREACH (self->idle, which)
        if (which->tainted == tainted && has_opened(which, wanted))
            return which;
    return NULL;
}

/* An idle worker that has opened what is wanted, the one used last; NULL if there is none. `foreign` source gets a
 * tainted one where there is one, and nothing else ever does. */
static worker *take_idle(workers *self, const opening *wanted, bool foreign)
{
    pthread_mutex_lock(&self->idle_lock);
    worker *surplus = take_surplus(self), *taken = find_idle(self, wanted, foreign);
    if (taken == NULL && foreign)
        taken = find_idle(self, wanted, false);
    if (taken != NULL) {
        LL_DELETE(self->idle, taken);
        self->idle_count--;
    }
    pthread_mutex_unlock(&self->idle_lock);
    end_all(surplus);
    return taken;
}

static void give_back(workers *self, worker *which)
{
    pthread_mutex_lock(&self->idle_lock);
    which->idle_since = kiln__cpu_now_ns();
    LL_PREPEND(self->idle, which);
    worker *surplus = take_surplus(self);
    pthread_mutex_unlock(&self->idle_lock);
    end_all(surplus);
}

/* ---- Starting */

static worker *new_worker(const opening *wanted)
{
    worker *fresh = kiln__calloc(1, sizeof(*fresh));
    if (fresh == NULL)
        return NULL;
    fresh->child = KILN__CHILD_NONE;
    if (wanted->places == NULL)
        return fresh;
    kiln__text_append_bytes(&fresh->inodes, kiln__text_string(&wanted->inodes), wanted->inodes.length);
    kiln__text_append_bytes(&fresh->linker, kiln__text_string(&wanted->stamps), wanted->stamps.length);
    if (!fresh->inodes.failed && !fresh->linker.failed &&
        kiln__list_read(&fresh->places, wanted->places->bytes.data, wanted->places->bytes.length))
        return fresh;
    end_worker(fresh);
    return NULL;
}

/* Whether a new worker has the linker that was meant, or another one has come in its place. */
static kiln_status check_linker(const worker *fresh, const opening *wanted, kiln_report *report)
{
    kiln__text now = { 0 };
    kiln__file_append_stamps(&wanted->linker, &now);
    bool same = now.failed || is_equal(&fresh->linker, &now);
    bool failed = now.failed;
    kiln__text_fini(&now);
    if (failed)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    return same ? KILN_OK
                : kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                             "%s has changed while it was opened: try again", kiln__list_next(&wanted->linker, NULL));
}

/* Starts a worker that opens NVRTC, the linker if there is one in `wanted`, and then its places only. Where this
 * process has an NVRTC open, the worker opens the very same. */
static kiln_status start_worker(workers *self, const opening *wanted, worker **out, kiln_report *report)
{
    kiln__toolchain facts = { 0 };
    char program[PATH_MAX];
    kiln_status status = KILN_OK;
    bool alone = self->isolate == KILN_ISOLATE_ALWAYS;
    *out = NULL;
    if (!alone)
        status = self->inner->vtable->open(self->inner, &facts, report);
    if (status == KILN_OK)
        status = kiln__worker_find(self->program, program, sizeof(program), report);
    if (status != KILN_OK)
        return status;
    worker *fresh = new_worker(wanted);
    if (fresh == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    status = kiln__worker_start(&fresh->child, program, &self->limits, report);
    if (status == KILN_OK) {
        atomic_fetch_add(&self->starts, 1);
        status = kiln__worker_open(&fresh->child, program, alone ? self->nvrtc : facts.path, &wanted->linker,
                                   &fresh->places, &facts, report);
    }
    if (status == KILN_OK)
        status = check_linker(fresh, wanted, report);
    if (status == KILN_OK && !note_facts(self, &facts))
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (status != KILN_OK) {
        end_worker(fresh);
        return status;
    }
    recall_identity(self, fresh, facts.path);
    kiln__log_line(self->log, KILN_LOG_DEBUG, "started compile worker %s, process %d", program, (int)fresh->child.pid);
    *out = fresh;
    return KILN_OK;
}

/* ---- Asking */

/* One request and the worker that it is sent to. */
typedef struct errand {
    const kiln__text *request; /* NULL: only to tell its toolchain */
    opening wanted;            /* of the worker */
    bool foreign;              /* it gets source from elsewhere */
    bool fresh;                /* it was started for this request */
    worker *which;
    kiln__toolchain told;
    kiln__worker_answer answer; /* to the last request; the caller frees its message */
} errand;

/* A sandbox holds directories and not their names, so that one which is removed and made anew would be closed to an
 * older worker. An inode that a sandbox holds is not given to another directory. */
static void append_inodes(kiln__text *out, const kiln__list *places)
{
    const char *name = NULL, *path;
    while (places != NULL && kiln__list_next_pair(places, &name, &path)) {
        struct stat status;
        if (stat(path, &status) != 0)
            status = (struct stat){ 0 };
        kiln__text_printf(out, "%llu:%llu\n", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
    }
}

/* Lets the worker tell its toolchain, for which it may compile an empty kernel. Ends it where that fails. */
static kiln_status ask_identity(workers *self, errand *sent, kiln_report *report)
{
    kiln__text request = { 0 };
    bool sound;
    kiln__frame_begin(&request, KILN__WORKER_IDENTIFY);
    kiln__worker_ask(&sent->which->child, &request, self->limits.time_ms, &sent->answer);
    kiln__text_fini(&request);
    kiln_status status = kiln__worker_read_toolchain(&sent->answer, &sent->told, &sound, report);
    if (status != KILN_OK)
        end_worker(sent->which);
    else if (sound)
        note_identity(self, sent->which, &sent->told);
    else if (sent->answer.result == KILN__CHANNEL_DONE)
        sent->answer.result = KILN__CHANNEL_MALFORMED;
    kiln__message_fini(&sent->answer.message);
    return status;
}

/* Takes an idle worker, or starts one where there is none or sent->fresh asks for it, and sends it the request. A
 * worker tells its toolchain before its first source from elsewhere, because afterwards it may say anything. */
static kiln_status try_errand(workers *self, errand *sent, kiln_report *report)
{
    kiln_status status = KILN_OK;
    memset(&sent->answer, 0, sizeof(sent->answer));
    sent->which = sent->fresh ? NULL : take_idle(self, &sent->wanted, sent->foreign);
    sent->fresh = sent->which == NULL;
    if (sent->fresh)
        status = start_worker(self, &sent->wanted, &sent->which, report);
    if (status == KILN_OK &&
        (sent->request == NULL || (sent->foreign && !sent->which->tainted && sent->which->id[0] == '\0')))
        status = ask_identity(self, sent, report);
    if (status == KILN_OK && sent->request != NULL && sent->answer.result == KILN__CHANNEL_DONE) {
        sent->which->tainted |= sent->foreign;
        kiln__worker_ask(&sent->which->child, sent->request, self->limits.time_ms, &sent->answer);
    }
    return status;
}

/* KILN_OK: sent->which is a worker, and sent->answer its answer. An idle worker may have died, or have been stopped,
 * before it was asked: it is replaced by a new one, once and without a word. */
static kiln_status run_errand(workers *self, errand *sent, kiln_report *report)
{
    opening *wanted = &sent->wanted;
    append_inodes(&wanted->inodes, wanted->places);
    kiln__file_append_stamps(&wanted->linker, &wanted->stamps);
    if (wanted->inodes.failed || wanted->stamps.failed)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    kiln_status status = try_errand(self, sent, report);
    if (status == KILN_OK && !sent->fresh && !sent->answer.begun && sent->answer.result == KILN__CHANNEL_CLOSED) {
        kiln__message_fini(&sent->answer.message);
        end_worker(sent->which);
        sent->fresh = true;
        status = try_errand(self, sent, report);
    }
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

/* The digest of all that a compile depends on, by which the quarantine knows it. False when out of memory. */
static bool digest_unit(uint8_t out[KILN__DIGEST_SIZE], const kiln__unit *unit)
{
    kiln__text all = { 0 };
    char hex[KILN__DIGEST_HEX];
    if (kiln__unit_is_source(unit)) {
        kiln__source_key_text(&all, unit, "");
    } else {
        kiln__digest(out, unit->source, unit->source_length);
        kiln__digest_hex(hex, out);
        kiln__text_printf(&all, "%s %s", unit->target.name, hex);
    }
    bool made = !all.failed;
    if (made)
        kiln__digest(out, all.data, all.length);
    kiln__text_fini(&all);
    return made;
}

/* Whether the quarantine is for a unit. A worker that died tells nothing of what it has read. Where a source reads its
 * author's files, the cause may be in one of them, which may be mended. */
static bool is_quarantinable(const kiln__unit *unit)
{
    return unit->directories == 0;
}

/* Keeps the text as <digest>.cu, its digest (mode 0600), in the crash directory, which is made if it is missing. A link
 * of that name is replaced and not followed. `note` becomes the end of a message, "" if there is no directory. */
static void keep_source(const workers *self, const kiln__unit *unit, char *note, size_t size)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX], name[KILN__DIGEST_HEX + sizeof(".cu")];
    note[0] = '\0';
    if (self->crash_dir == NULL || self->crash_dir[0] == '\0')
        return;
    kiln__digest(digest, unit->source, unit->source_length);
    kiln__digest_hex(hex, digest);
    snprintf(name, sizeof(name), "%s.cu", hex);
    int directory = kiln__file_make_directory(self->crash_dir);
    int error =
        directory < 0 ? directory : kiln__file_publish(directory, name, unit->source, unit->source_length, true);
    if (directory >= 0)
        close(directory);
    if (error < 0)
        snprintf(note, size, " (cannot keep the source in %s: %s)", self->crash_dir, strerrordesc_np(-error));
    else
        snprintf(note, size, " (source kept in %s/%s)", self->crash_dir, name);
}

/* A source that has cost a worker: counts it, notes it and keeps it. */
static kiln_status fail_crashed(workers *self, const kiln__unit *unit, const uint8_t digest[KILN__DIGEST_SIZE],
                                bool late, kiln_report *report)
{
    char note[PATH_MAX + 64];
    kiln_report plain = KILN_INIT(kiln_report);
    atomic_fetch_add(late ? &self->timeouts : &self->crashes, 1);
    if (is_quarantinable(unit))
        kiln__quarantine_note(&self->quarantine, digest);
    keep_source(self, unit, note, sizeof(note));
    if (report == NULL)
        report = &plain;
    kiln__fail(report, report->status, report->stage, report->native, "%s%s", report->message, note);
    kiln__log_line(self->log, KILN_LOG_WARN, "%s", report->message);
    return KILN_ECRASHED;
}

/* A tainted worker must name the toolchain that it named before it was tainted. */
static bool note_toolchain(workers *self, worker *which, const kiln__toolchain *learnt)
{
    if (which->tainted)
        return strcmp(which->id, learnt->id) == 0;
    note_identity(self, which, learnt);
    return true;
}

/* A worker that sends garbage is treated as crashed: the source may have taken it over. */
static kiln_status read_answer(workers *self, worker *which, const kiln__frame *frame, const kiln__unit *unit,
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
            unit->target.name, (double)self->limits.memory_bytes / (1 << 30));
    return status;
}

/* Reads the result of a compile, and gives the worker back or ends it. */
static kiln_status conclude(workers *self, errand *sent, const kiln__unit *unit,
                            const uint8_t digest[KILN__DIGEST_SIZE], kiln__image *out, kiln_report *report)
{
    const kiln__worker_answer *answer = &sent->answer;
    worker *which = sent->which;
    kiln_status status = KILN_ECRASHED;
    bool sound = false;
    if (answer->begun && answer->result == KILN__CHANNEL_DONE)
        status = read_answer(self, which, &answer->message.frame, unit, out, &sound, report);
    if (sound && status != KILN_EIO) { /* KILN_EIO: its sandbox may hold a directory that is another one now */
        give_back(self, which);
        return status;
    }
    if (!sound && !answer->begun)
        status = fail_unbegun(answer, report);
    else if (!sound)
        status = kiln__worker_fail(&which->child, answer, &self->limits, unit, report);
    if (!sound && answer->begun && status == KILN_ECRASHED)
        status = fail_crashed(self, unit, digest, answer->result == KILN__CHANNEL_LATE, report);
    end_worker(which);
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

/* The linker of the NVRTC that workers open: the first of them tells which that is. */
static kiln_status find_linker_of(workers *self, kiln__list *files, kiln_report *report)
{
    kiln__toolchain facts;
    kiln_status status = self->compiler.vtable->open(&self->compiler, &facts, report);
    return status == KILN_OK ? self->inner->vtable->linker(self->inner, &facts, files, report) : status;
}

static kiln_status compile_outside(workers *self, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    kiln__text request = { 0 };
    errand sent = { .request = &request, .wanted = { .places = &unit->places }, .foreign = unit->foreign };
    if (!digest_unit(digest, unit))
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (is_quarantinable(unit) && kiln__quarantine_has(&self->quarantine, digest))
        return kiln__fail(
            report, KILN_ECRASHED, KILN__STAGE_COMPILE, 0,
            "this source has crashed the compiler or run into a limit %d times and is not tried again for "
            "%s: change it, or open the service anew",
            KILN__QUARANTINE_CRASHES, unit->target.name);
    kiln_status status = put_unit(&request, unit, report);
    if (status == KILN_OK && kiln__source_linking(unit) != KILN__LINK_NONE)
        status = find_linker_of(self, &sent.wanted.linker, report);
    if (status == KILN_OK)
        status = run_errand(self, &sent, report);
    kiln__text_fini(&request);
    if (status == KILN_OK) {
        status = conclude(self, &sent, unit, digest, out, report);
        kiln__message_fini(&sent.answer.message);
    }
    if (status == KILN_OK && sent.wanted.linker.count > 0 &&
        (out->linker = kiln__text_take(&sent.wanted.stamps)) == NULL) {
        kiln__image_fini(out);
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    }
    fini_opening(&sent.wanted);
    return status;
}

/* Whether the NVRTC that is open here made an image. A worker opens NVRTC anew, by its path, where another one may lie
 * by now. */
static bool is_by_the_same(workers *self, const kiln__image *image)
{
    kiln__toolchain here = { 0 };
    return self->inner->vtable->open(self->inner, &here, NULL) != KILN_OK || here.id[0] == '\0' ||
           strcmp(here.id, image->toolchain) == 0;
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
    kiln__balance_return(&self->balance, !helped);
    return helped;
}

/* A unit of Kiln's templates is compiled here, unless too many are already. If a worker fails and this process
 * succeeds, the workers are at fault. They then rest for a while. */
static kiln_status compile_unit(kiln__compiler *base, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    workers *self = (workers *)base;
    kiln_report why = KILN_INIT(kiln_report);
    kiln_status status = KILN_OK;
    bool heavy = kiln__unit_is_heavy(unit), never = self->isolate == KILN_ISOLATE_NEVER;
    memset(out, 0, sizeof(*out));
    if (never && heavy)
        return kiln__fail(
            report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
            "the op comes to %u operations for each of %llu elements of a thread, and at most %d in all are compiled "
            "without a worker: take fewer elems, a shorter definition, or another isolate than never",
            unit->operations, (unsigned long long)kiln__unit_elements(unit), KILN__UNIT_LIGHT_MAX);
    if (!never && (self->isolate == KILN_ISOLATE_ALWAYS || unit->foreign || heavy || kiln__nvrtc_steering() != NULL))
        return compile_outside(self, unit, out, report);
    bool sent = !never && !kiln__balance_enter(&self->balance, kiln__cpu_now_ns());
    if (!sent || !compile_helped(self, unit, out, &why)) {
        status = self->inner->vtable->compile(self->inner, unit, out, report);
        if (!never)
            kiln__balance_leave(&self->balance, kiln__cpu_now_ns());
        uint64_t pause = sent && status == KILN_OK ? kiln__balance_pause(&self->balance, kiln__cpu_now_ns()) : 0;
        if (pause > 0)
            kiln__log_line(self->log, KILN_LOG_INFO, "compiles without workers for %u s: %s",
                           (unsigned)(pause / 1000000000), why.message);
    }
    kiln_report_clear(&why);
    return status;
}

/* The arguments of a template are compared here, wherever it was compiled: a worker is not trusted with that. */
static kiln_status compile_and_compare(kiln__compiler *base, const kiln__unit *unit, kiln__image *out,
                                       kiln_report *report)
{
    kiln_status status = compile_unit(base, unit, out, report);
    if (status == KILN_OK)
        status = kiln__nvrtc_check_parameters(out, unit, report);
    if (status != KILN_OK)
        kiln__image_fini(out);
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

static kiln_status find_linker(const kiln__compiler *base, const kiln__toolchain *toolchain, kiln__list *files,
                               kiln_report *report)
{
    const workers *self = (const workers *)base;
    return self->inner->vtable->linker(self->inner, toolchain, files, report);
}

static kiln_status open_compiler(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    workers *self = (workers *)base;
    worker *fresh;
    if (self->isolate != KILN_ISOLATE_ALWAYS)
        return self->inner->vtable->open(self->inner, out, report);
    if (get_facts(self, out))
        return KILN_OK;
    kiln_status status = start_worker(self, &(opening){ .places = NULL }, &fresh, report);
    if (status != KILN_OK)
        return status;
    give_back(self, fresh);
    get_facts(self, out);
    return KILN_OK;
}

static kiln_status identify(kiln__compiler *base, kiln__toolchain *out, kiln_report *report)
{
    workers *self = (workers *)base;
    errand sent = { .request = NULL };
    bool here = self->isolate == KILN_ISOLATE_AUTO && kiln__nvrtc_steering() == NULL;
    if (here || self->isolate == KILN_ISOLATE_NEVER)
        return self->inner->vtable->identify(self->inner, out, report);
    if (get_facts(self, out) && out->id[0] != '\0')
        return KILN_OK;
    kiln_status status = run_errand(self, &sent, report);
    fini_opening(&sent.wanted);
    if (status != KILN_OK)
        return status;
    if (sent.answer.result != KILN__CHANNEL_DONE) {
        end_worker(sent.which);
        return fail_unbegun(&sent.answer, report);
    }
    *out = sent.told;
    give_back(self, sent.which);
    return KILN_OK;
}

static void close_workers(kiln__compiler *base)
{
    workers *self = (workers *)base;
    if (self == NULL)
        return;
    end_all(self->idle);
    self->inner->vtable->close(self->inner);
    kiln__quarantine_fini(&self->quarantine);
    pthread_mutex_destroy(&self->idle_lock);
    pthread_mutex_destroy(&self->facts_lock);
    kiln__free(self->program);
    kiln__free(self->nvrtc);
    kiln__free(self->crash_dir);
    kiln__free(self->facts);
    kiln__free(self);
}

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
    static const kiln__compiler_vtable vtable = { .name = "nvrtc",
                                                  .search = search,
                                                  .options = append_options,
                                                  .open = open_compiler,
                                                  .identify = identify,
                                                  .compile = compile_and_compare,
                                                  .linker = find_linker,
                                                  .know = know,
                                                  .close = close_workers };
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
    self->limits = (kiln__worker_limits){ options->memory_bytes, options->time_ms };
    self->balance.limit = kiln__cpu_count();
    self->idle_max =
        self->balance.limit > 2 ? self->balance.limit : 2; /* one for source from elsewhere, one for Kiln's */
    kiln__quarantine_init(&self->quarantine);
    pthread_mutex_init(&self->idle_lock, NULL);
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
    const opening any = { .places = NULL };
    if (status == KILN_OK && (which = take_idle(self, &any, false)) == NULL)
        status = start_worker(self, &any, &which, report);
    if (which != NULL)
        give_back(self, which);
    return status == KILN_ENOCOMPILER ? KILN_OK : status;
}
