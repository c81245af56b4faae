/* From a unit to a checked entry: its key, a look in the stores, a compile, and the entry that comes of it. */
#include "jit/builder.h"

#include "base/alloc.h"
#include "base/event.h"
#include "base/fpenv.h"
#include "base/keyline.h"
#include "base/probe.h"
#include "jit/daemon/client.h"
#include "os/cpu.h"
#include "os/syscalls.h"
#include "source/source.h"
#include "store/disk.h"
#include "store/remote.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TRIES = 4, ALTERNATIVES_MAX = 12 };

void kiln__builder_init(kiln__builder *builder, kiln__compiler *compiler, kiln__tiers *tiers, kiln__tiers *local,
                        const kiln__log *log)
{
    memset(builder, 0, sizeof(*builder));
    kiln__toolchains_init(&builder->toolchains, compiler, local);
    kiln__filesums_init(&builder->sums);
    builder->tiers = tiers;
    builder->local = local;
    builder->log = log;
}

void kiln__builder_keep_sources_at_hand(kiln__builder *builder)
{
    builder->unwatched = true;
    kiln__tiers_borrow_at_hand(&builder->at_hand, builder->tiers);
}

void kiln__builder_fini(kiln__builder *builder)
{
    kiln__filesums_fini(&builder->sums);
    kiln__toolchains_fini(&builder->toolchains);
    builder->toolchains.compiler->vtable->close(builder->toolchains.compiler);
}

void kiln__built_fini(kiln__built *built)
{
    kiln__blob_release(built->blob);
    kiln__free(built->log);
    memset(built, 0, sizeof(*built));
}

kiln_status kiln__blob_encode(kiln__blob **out, const kiln__entry *entry)
{
    void *bytes = NULL;
    size_t length = 0;
    kiln_status status = kiln__entry_encode(&bytes, &length, entry);
    *out = status == KILN_OK ? kiln__blob_take(bytes, length, &entry->key, NULL) : NULL;
    return status == KILN_OK && *out == NULL ? KILN_ENOMEM : status;
}

/* A unit while it is looked up and compiled, and the key it is found under. */
typedef struct request {
    kiln__builder *builder;
    const kiln__unit *unit;
    kiln__built *out;
    bool fresh;    /* not in the stores */
    bool any;      /* any toolchain's will do where only a compile would tell which one is here */
    bool quick;    /* no compiler is started to tell which toolchain it is */
    kiln__key key; /* of the kernel; where that depends on files, not before they have been looked at */
    kiln__text text;
    /* Empty unless it depends on files. */
    kiln__text base;      /* the key text of a kernel that has read nothing */
    kiln__key list;       /* of the lists of files that were read */
    kiln__text list_text; /* its text */
} request;

static bool is_unwatched(const kiln__builder *builder, const kiln__unit *unit)
{
    return builder->unwatched && kiln__unit_is_source(unit);
}

/* Also decides where entries of a unit may lie. */
static request begin_request(kiln__builder *builder, const kiln__unit *unit, kiln__built *out)
{
    *out = (kiln__built){ .tiers = is_unwatched(builder, unit) ? &builder->at_hand : builder->tiers };
    return (request){ .builder = builder, .unit = unit, .out = out };
}

static void fini_request(request *wanted)
{
    kiln__text_fini(&wanted->text);
    kiln__text_fini(&wanted->base);
    kiln__text_fini(&wanted->list_text);
}

/* ---- Keys */

bool kiln__unit_reads_files(const kiln__unit *unit)
{
    return unit->places.count > 0;
}

static void append_source(kiln__text *text, const kiln__unit *unit)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    kiln__digest(digest, unit->source, unit->source_length);
    kiln__digest_hex(hex, digest);
    kiln__text_append(text, "\nsource ");
    kiln__text_append_uint(text, unit->source_length, 1);
    kiln__text_append(text, " blake2b ");
    kiln__text_append(text, hex);
    kiln__text_append(text, "\n");
}

/* Of a source without the contents of the files that it reads. */
static void append_key_text(kiln__text *text, const kiln__unit *unit, const char *options)
{
    if (kiln__unit_is_source(unit)) {
        kiln__source_key_text(text, unit, options);
        return;
    }
    /* One field a line and no free text but at a line's end, so that no two keys share a text. */
    kiln__text_append(text, KILN__KEYLINE_KERNEL "target ");
    kiln__text_append(text, unit->target.name);
    kiln__text_append(text, "\noptions ");
    kiln__text_append(text, options);
    append_source(text, unit);
}

static kiln_status make_key_of(kiln__key *out, const kiln__text *text)
{
    memset(out, 0, sizeof(*out));
    if (text->failed)
        return KILN_ENOMEM;
    kiln__digest(out->digest, text->data, text->length);
    return KILN_OK;
}

kiln_status kiln__key_make(kiln__key *out, kiln__text *text, const kiln__unit *unit, const char *options)
{
    append_key_text(text, unit, options);
    return make_key_of(out, text);
}

/* The key of a kernel that has read these files, its toolchain left empty. */
static kiln_status make_key_of_reads(request *wanted, const char *reads, size_t length)
{
    kiln__text_fini(&wanted->text);
    kiln__text_append_bytes(&wanted->text, wanted->base.data, wanted->base.length);
    kiln__reads_contents(&wanted->text, reads, length);
    return make_key_of(&wanted->key, &wanted->text);
}

static kiln_status make_keys(request *wanted, kiln_report *report)
{
    kiln__compiler *compiler = wanted->builder->toolchains.compiler;
    kiln__text options = { 0 }, *base = &wanted->base;
    kiln_status status = KILN_ENOMEM;
    compiler->vtable->options(compiler, wanted->unit, &options);
    if (!options.failed && kiln__unit_reads_files(wanted->unit)) {
        append_key_text(base, wanted->unit, kiln__text_string(&options));
        kiln__text_append(&wanted->list_text, KILN__KEYLINE_READS);
        kiln__text_append_bytes(&wanted->list_text, base->data, base->length);
        status = base->failed ? KILN_ENOMEM : make_key_of(&wanted->list, &wanted->list_text);
    } else if (!options.failed) {
        status = kiln__key_make(&wanted->key, &wanted->text, wanted->unit, kiln__text_string(&options));
    }
    kiln__text_fini(&options);
    return status == KILN_OK ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_COMPILE);
}

/* The key under which the stores have something once the unit has been compiled. */
static kiln__key *first_key(request *wanted)
{
    return kiln__unit_reads_files(wanted->unit) ? &wanted->list : &wanted->key;
}

/* ---- Lists of what was read: from a source to what it compiles to, where that depends on files. A list of what
 * earlier compiles of it have read is kept beside the kernels, as an entry whose key is all that is known before any
 * file is looked at. A list whose files are as they were tells which contents went into the kernel, and with them
 * the kernel's key. No path of a directory is in either, nor any time. Of one source each store may have another
 * list: a pack knows of other states than a cache does. So all of them are asked, and a list that is written has
 * what all of them know. */

typedef struct section_name {
    char text[KILN__ENTRY_NAME_SIZE];
} section_name;

static section_name name_of(size_t number)
{
    section_name name;
    snprintf(name.text, sizeof(name.text), "reads-%u", (unsigned)number % 1000);
    return name;
}

static const kiln__section *alternative(const kiln__blob *blob, size_t number)
{
    section_name name = name_of(number);
    return blob != NULL && blob->entry.kind == KILN__ENTRY_READS ? kiln__entry_find(&blob->entry, name.text) : NULL;
}

/* The alternative that is true of the files as they are now, NULL if none is. */
static const kiln__section *find_current(const request *wanted, const kiln__blob *blob)
{
    const kiln__section *section;
    for (size_t i = 0; (section = alternative(blob, i)) != NULL; i++)
        if (kiln__filesums_agree(&wanted->builder->sums, &wanted->unit->places, section->data, section->length))
            return section;
    return NULL;
}

/* The list that each store has under one key, NULL where it has none: each may know of compiles that no other does. */
typedef struct lists {
    kiln__blob *of[KILN__TIERS_MAX];
    size_t count;
} lists;

static kiln__blob *get_next_list(const request *wanted, lists *all, const kiln__key *key, kiln__miss *why)
{
    kiln__blob *blob = kiln__tiers_get_from(wanted->out->tiers, all->count, key, why);
    return all->of[all->count++] = blob;
}

static void release_lists(lists *all)
{
    for (size_t i = 0; i < all->count; i++)
        kiln__blob_release(all->of[i]);
}

static bool is_listed(const kiln__entry *entry, const kiln__section *alternative)
{
    for (size_t i = 0; i < entry->section_count; i++)
        if (entry->sections[i].length == alternative->length &&
            memcmp(entry->sections[i].data, alternative->data, alternative->length) == 0)
            return true;
    return false;
}

/* Adds as many alternatives as there is room for, the fastest store's first. */
static bool add_others(kiln__entry *entry, const lists *all)
{
    const kiln__section *section;
    bool fits = true;
    size_t count = 1;
    for (size_t tier = 0; tier < all->count; tier++)
        for (size_t i = 0; fits && count < ALTERNATIVES_MAX && (section = alternative(all->of[tier], i)) != NULL; i++)
            if (!is_listed(entry, section))
                fits = kiln__entry_add(entry, name_of(count++).text, section->data, section->length);
    return fits;
}

/* One list of all alternatives, `front` in front. KILN_OK with NULL: an entry has no room for them. */
static kiln_status join_lists(kiln__blob **out, kiln__entry *entry, const kiln__section *spec,
                              const kiln__section *front, const lists *all)
{
    entry->kind = KILN__ENTRY_READS;
    bool fits = kiln__entry_add(entry, "spec", spec->data, spec->length) &&
                kiln__entry_add(entry, name_of(0).text, front->data, front->length) && add_others(entry, all);
    *out = NULL;
    return fits && kiln__blob_encode(out, entry) == KILN_ENOMEM ? KILN_ENOMEM : KILN_OK;
}

/* One list of a compile's reads and of all that the stores know. NULL when out of memory or room. */
static kiln__blob *merge_reads(const request *wanted, const kiln__key *key, const lists *all, const char *reads,
                               size_t length)
{
    kiln__text text = { 0 };
    kiln__text_printf(&text, "headers of %s", wanted->unit->spec);
    const kiln__section spec = { .data = text.data, .length = text.length },
                        front = { .data = reads, .length = length };
    kiln__entry entry = { .key = *key,
                          .key_text = wanted->list_text.data,
                          .key_text_length = wanted->list_text.length };
    kiln__blob *merged = NULL;
    if (!text.failed)
        join_lists(&merged, &entry, &spec, &front, all);
    kiln__text_fini(&text);
    return merged;
}

kiln_status kiln__reads_merge(kiln__blob **out, kiln__blob *first, kiln__blob *second)
{
    const lists all = { .of = { first, second }, .count = 2 };
    const kiln__section *spec = kiln__entry_find(&first->entry, "spec"), *front = alternative(first, 0);
    kiln__entry entry = { .key = first->entry.key,
                          .key_text = first->entry.key_text,
                          .key_text_length = first->entry.key_text_length };
    *out = NULL;
    kiln_status status = spec != NULL && front != NULL ? join_lists(out, &entry, spec, front, &all) : KILN_OK;
    if (*out != NULL && (*out)->length <= first->length) {
        kiln__blob_release(*out);
        *out = NULL;
    }
    return status;
}

/* Adds a compile's reads to all that the stores know, in front: they are true of the files now. A reader meanwhile
 * finds the list from before or the new one. wanted->list.toolchain is set. */
static void remember_reads(const request *wanted, const char *reads)
{
    lists all = { .count = 0 };
    while (all.count < wanted->out->tiers->count)
        get_next_list(wanted, &all, &wanted->list, NULL);
    kiln__blob *merged = merge_reads(wanted, &wanted->list, &all, reads, strlen(reads));
    if (merged != NULL)
        kiln__tiers_replace(wanted->out->tiers, merged);
    kiln__blob_release(merged);
    release_lists(&all);
}

/* The kernel of the source as files are now, made by one toolchain. Where a slower store has the list, memory gets it
 * too, besides the list that it has. */
static kiln__blob *fetch_of(request *wanted, const kiln__key *list)
{
    kiln__tiers *tiers = wanted->out->tiers;
    kiln__miss *why = &wanted->out->miss;
    kiln__blob *kernel = NULL, *merged = NULL;
    lists all = { .count = 0 };
    while (kernel == NULL && all.count < tiers->count) {
        const kiln__section *current = find_current(wanted, get_next_list(wanted, &all, list, why));
        if (current == NULL || make_key_of_reads(wanted, current->data, current->length) != KILN_OK)
            continue;
        memcpy(wanted->key.toolchain, list->toolchain, sizeof(wanted->key.toolchain));
        kernel = kiln__tiers_get(tiers, &wanted->key, &wanted->out->tier, why);
        if (kernel != NULL && wanted->builder->push && wanted->builder->tiers->remote != NULL)
            kiln__remote_push(wanted->builder->tiers->remote, all.of[all.count - 1]);
        if (kernel != NULL && all.count > 1)
            merged = merge_reads(wanted, list, &all, current->data, current->length);
        if (merged != NULL)
            kiln__tiers_promote(tiers, all.count - 1, merged);
    }
    kiln__blob_release(merged);
    release_lists(&all);
    return kernel;
}

/* The kernel of a source as its files are now, made by any toolchain from the newest on where the list's is
 * empty. The kernel's key and its text are made on the way. */
static kiln__blob *fetch_by_reads(request *wanted)
{
    kiln__tiers *tiers = wanted->out->tiers;
    if (wanted->list.toolchain[0] != '\0')
        return fetch_of(wanted, &wanted->list);
    kiln__blob *kernel = NULL, *newest = kiln__tiers_get(tiers, &wanted->list, NULL, &wanted->out->miss);
    while (newest != NULL && (kernel = fetch_of(wanted, &newest->entry.key)) == NULL) {
        kiln__blob *older = kiln__tiers_older(tiers, &newest->entry.key, NULL);
        kiln__blob_release(newest);
        newest = older;
    }
    kiln__blob_release(newest);
    return kernel;
}

/* ---- Looking in the stores */

static bool is_linked(const request *wanted)
{
    return kiln__source_linking(wanted->unit) != KILN__LINK_NONE;
}

/* Makes the user's store, which keeps what is known of a compiler only where it is made already. */
static void make_store(const kiln__builder *builder)
{
    kiln__store *disk = builder->keylock != NULL ? builder->keylock->disk : NULL;
    int fd = disk != NULL ? kiln__disk_store_open_lock(disk) : -1;
    if (fd >= 0)
        kiln__sys_close(fd);
}

/* Some compilers tell their id only by compiling something tiny. They are asked only where a store has this unit of
 * some toolchain, which may be this one's. So an empty cache costs no further compile. */
static void identify_if_worthwhile(request *wanted, kiln__key *key)
{
    kiln__toolchains *toolchains = &wanted->builder->toolchains;
    kiln__compiler *compiler = toolchains->compiler;
    kiln__toolchain toolchain;
    size_t tier;
    kiln__blob *some = kiln__tiers_get(wanted->out->tiers, key, &tier, &wanted->out->miss);
    if (some != NULL && compiler->vtable->identify(compiler, &toolchain, NULL) == KILN_OK) {
        make_store(wanted->builder);
        kiln__toolchains_learn(toolchains, toolchain.id);
        memcpy(key->toolchain, toolchain.id, sizeof(key->toolchain));
        if (is_linked(wanted))
            kiln__toolchains_add_linker(toolchains, NULL, key->toolchain, NULL);
    }
    if (some != NULL && key == &wanted->key && kiln__key_equal(key, &some->entry.key)) {
        wanted->out->blob = some;
        wanted->out->tier = tier;
    } else {
        kiln__blob_release(some);
    }
}

/* Looks in the stores: out->blob stays NULL if there is nothing. Fails if there is then no compiler either. With no
 * compiler to ask, any toolchain's entry will do: the empty toolchain in the key finds the newest. */
static kiln_status look(request *wanted, kiln_report *report)
{
    kiln_report missing = KILN_INIT(kiln_report);
    kiln__built *out = wanted->out;
    kiln__key *first = first_key(wanted);
    kiln__toolchains *toolchains = &wanted->builder->toolchains;
    kiln_status status = kiln__toolchains_id(toolchains, first->toolchain, &missing);
    if (status == KILN_OK && is_linked(wanted))
        status = kiln__toolchains_add_linker(toolchains, NULL, first->toolchain, &missing);
    if (status == KILN_OK && first->toolchain[0] == '\0' && !wanted->fresh && !wanted->any && !wanted->quick)
        identify_if_worthwhile(wanted, first);
    bool named = first->toolchain[0] != '\0';
    if (!wanted->fresh && out->blob == NULL && (named || status != KILN_OK || wanted->any))
        out->blob = kiln__unit_reads_files(wanted->unit)
                        ? fetch_by_reads(wanted)
                        : kiln__tiers_get(out->tiers, &wanted->key, &out->tier, &out->miss);
    if (out->blob == NULL && status != KILN_OK)
        kiln__report_move(report, &missing);
    if (out->blob != NULL)
        out->miss = KILN__MISS_NONE;
    else if (!wanted->fresh)
        kiln__miss_raise(&out->miss, KILN__MISS_ABSENT);
    out->any = out->blob != NULL && !named;
    if (out->any)
        kiln__log_line(wanted->builder->log, KILN_LOG_INFO, "%s: using what %s made of %s",
                       status != KILN_OK ? "no compiler" : "this compiler is not known yet",
                       out->blob->entry.key.toolchain, wanted->unit->spec);
    kiln_report_clear(&missing);
    return out->blob != NULL ? KILN_OK : status;
}

static kiln_status locate(request *wanted, kiln_report *report)
{
    kiln_status status = make_keys(wanted, report);
    return status == KILN_OK ? look(wanted, report) : status;
}

/* Waits for the key lock, if there is one, and looks once more: its last holder may have published the
 * entry, and even told which toolchain it is. True: the caller holds the lock. */
static bool lock_and_look(request *wanted, kiln__keylock_hold *hold, kiln_status *status, kiln_report *report)
{
    kiln__keylock *lock = wanted->builder->keylock;
    if (lock == NULL || lock->disk == NULL || is_unwatched(wanted->builder, wanted->unit))
        return false;
    bool held = kiln__keylock_take(lock, first_key(wanted)->digest, hold);
    kiln__tiers *all = wanted->out->tiers;
    wanted->out->tiers = wanted->builder->local; /* the remote has answered a moment before */
    *status = look(wanted, report);
    wanted->out->tiers = all;
    return held;
}

/* Whether a look has found nothing, for no other reason than that there is nothing. */
static bool is_missing(const request *wanted, kiln_status status)
{
    return wanted->out->blob == NULL && (status == KILN_OK || status == KILN_ENOCOMPILER || status == KILN_ENOWORKER);
}

/* Looks for what the daemon has put into the stores: made by the compiler that is here, or where none is known by
 * any. */
static void look_behind_daemon(request *wanted, kiln_status *status, kiln_report *report)
{
    const bool any = wanted->any;
    *status = look(wanted, report);
    if (wanted->out->blob == NULL && first_key(wanted)->toolchain[0] == '\0') {
        wanted->any = true;
        *status = look(wanted, report);
        wanted->any = any;
    }
    if (*status == KILN_OK && report != NULL)
        kiln_report_clear(report);
}

/* Has the daemon put the entry into the stores, and looks there once more. */
static void ask_daemon_and_look(request *wanted, kiln_status *status, kiln_report *report)
{
    kiln__keylock *lock = wanted->builder->keylock;
    const bool findable = !kiln__unit_reads_files(wanted->unit) && wanted->key.toolchain[0] != '\0';
    const kiln__daemon_wait wait = { .ms = lock->wait_ms, .aside = lock->aside, .data = lock->data };
    if (kiln__daemon_build(wanted->builder->daemon, wanted->unit, findable ? &wanted->key : NULL, &wait))
        look_behind_daemon(wanted, status, report);
}

/* Takes the lease of a unit, so that one machine compiles it for all, or waits for the machine that has it. Where that
 * is done, or there are no leases, the entry is in out->blob or is compiled here. True: the lease is this service's. */
static bool lease_and_look(request *wanted, kiln_status *status, kiln_report *report)
{
    enum { FIRST_PAUSE_MS = 5, LONGEST_PAUSE_MS = 50, LOOKS = 10 }; /* for each question for the lease */
    kiln__store *remote = wanted->out->tiers->remote;
    kiln__keylock *lock = wanted->builder->keylock;
    const uint64_t until = kiln__cpu_now_ns() + (lock != NULL ? (uint64_t)lock->wait_ms * 1000000 : 0);
    uint32_t pause = FIRST_PAUSE_MS;
    bool waited = false;
    int result = -EBUSY;
    for (unsigned turn = 0; remote != NULL && *status == KILN_OK && wanted->out->blob == NULL; turn++) {
        if (turn % LOOKS == 0)
            result = kiln__remote_lease(remote, first_key(wanted)->digest);
        if (result != -EBUSY)
            break;
        if (kiln__cpu_now_ns() > until) {
            kiln__remote_lose_lease(remote);
            break;
        }
        if (!waited && lock != NULL && lock->aside != NULL)
            lock->aside(lock->data, true);
        waited = true;
        kiln__cpu_sleep_ms(pause);
        pause = 2 * pause < LONGEST_PAUSE_MS ? 2 * pause : LONGEST_PAUSE_MS;
        *status = look(wanted, report);
    }
    if (waited && lock != NULL && lock->aside != NULL)
        lock->aside(lock->data, false);
    if (result == 0 && wanted->out->blob == NULL) /* its last holder may have pushed the entry since the last look */
        *status = look(wanted, report);
    return result == 0;
}

/* Looks in the stores, or in those of `only` if that is not NULL, and nowhere else. KILN_ENOENT where they have
 * nothing; the caller reports it. */
static kiln_status seek(kiln__builder *builder, const kiln__unit *unit, kiln__tiers *only, bool any, bool quick,
                        kiln__built *out, kiln_report *report)
{
    request wanted = begin_request(builder, unit, out);
    if (only != NULL)
        out->tiers = only;
    wanted.any = any;
    wanted.quick = quick;
    kiln_status status = locate(&wanted, report);
    fini_request(&wanted);
    return is_missing(&wanted, status) ? KILN_ENOENT : status;
}

/* ---- Compiling */

/* The user's words for files, in place of those that the compiler was given. Some faults of a template have no place:
 * a missing entry point, an unfinished text. Its file is then in front. */
static void show_failure(const kiln__unit *unit, kiln_report *report)
{
    char *message = report != NULL ? kiln__source_show_log(unit, report->message) : NULL;
    char *log = report != NULL && report->log != NULL ? kiln__source_show_log(unit, report->log) : NULL;
    const char *file = unit->shown != NULL ? unit->shown : unit->name;
    bool placeless = message != NULL && report->status == KILN_ECOMPILE && kiln__unit_is_template(unit) &&
                     strchr(message, '/') == NULL;
    if (message != NULL)
        kiln__fail(report, report->status, report->stage, report->native, "%s%s%s", placeless ? file : "",
                   placeless ? ": " : "", message);
    if (log != NULL)
        kiln__report_set_log(report, log);
    kiln__free(message);
    kiln__free(log);
}

static void note_compile(kiln__builder *builder, const kiln__unit *unit, uint64_t ns, kiln_status status,
                         kiln_report *report)
{
    atomic_fetch_add(&builder->compile_ns, ns);
    atomic_fetch_add(status == KILN_OK ? &builder->compiles : &builder->failures, 1);
    if (status == KILN_OK)
        kiln__log_line(builder->log, KILN_LOG_INFO, "compiled %s in %.1f ms", unit->spec, kiln__cpu_ms(ns));
    else if (unit->name != NULL)
        show_failure(unit, report);
}

/* Whether a compile has to be done once more. A directory may have been made anew since the worker was chosen, a
 * header may be half written, or files may have changed while they were read. */
static bool is_unsettled(kiln_status status, const kiln__image *image)
{
    return status == KILN_EIO || (status == KILN_OK && (image->unsettled || image->reads == NULL));
}

/* Compiles, and where files are read, until they hold still meanwhile: the builder must know for sure which contents
 * were read. */
static kiln_status compile_until_settled(const request *wanted, kiln__image *image, kiln_report *report)
{
    const kiln__unit *unit = wanted->unit;
    kiln__compiler *compiler = wanted->builder->toolchains.compiler;
    kiln__fpenv host;
    for (int tries = 1;; tries++) {
        uint64_t start = kiln__cpu_now_ns();
        KILN__PROBE(compile_begin, unit->spec);
        kiln__event_begin(wanted->builder->log, KILN_EVENT_COMPILE, unit->spec);
        kiln__fpenv_enter(&host);
        kiln_status status = compiler->vtable->compile(compiler, unit, image, report);
        kiln__fpenv_leave(&host);
        wanted->out->compile_ns = kiln__cpu_now_ns() - start;
        kiln__event_end(wanted->builder->log, KILN_EVENT_COMPILE, unit->spec, status, wanted->out->compile_ns);
        KILN__PROBE(compile_done, unit->spec, status, wanted->out->compile_ns);
        note_compile(wanted->builder, unit, wanted->out->compile_ns, status, report);
        if (!kiln__unit_reads_files(unit) || !is_unsettled(status, image) || (status != KILN_OK && tries == TRIES))
            return status;
        kiln__image_fini(image);
        if (tries == TRIES)
            break;
        kiln_report_clear(report);
    }
    return kiln__fail(report, KILN_EIO, KILN__STAGE_COMPILE, 0,
                      "headers of %s change while they are read, %d times in a row: try again when they are written",
                      unit->shown, (int)TRIES);
}

/* Makes the entry of an image and puts it into the stores, unless it has yet to prove that it loads. The caller gets
 * these bytes and never what another writer may have put in their place. */
static kiln_status publish(request *wanted, const kiln__image *image, kiln_report *report)
{
    const kiln__unit *unit = wanted->unit;
    kiln__built *out = wanted->out;
    kiln__entry entry;
    kiln__text names = { 0 };
    bool direct = kiln__unit_reads_files(unit);
    kiln_status status = direct ? make_key_of_reads(wanted, image->reads, strlen(image->reads)) : KILN_OK;
    snprintf(wanted->key.toolchain, sizeof(wanted->key.toolchain), "%s", image->toolchain);
    kiln__toolchains_learn(&wanted->builder->toolchains, image->toolchain);
    if (status == KILN_OK && image->linker != NULL) {
        status =
            kiln__toolchains_add_linker(&wanted->builder->toolchains, image->linker, wanted->key.toolchain, report);
        if (status != KILN_OK)
            return status;
    }
    memcpy(wanted->list.toolchain, wanted->key.toolchain, sizeof(wanted->key.toolchain));
    if (status == KILN_OK)
        status = kiln__image_describe(&entry, image, unit, &names);
    if (status == KILN_OK) {
        entry.key = wanted->key;
        entry.key_text = wanted->text.data;
        entry.key_text_length = wanted->text.length;
        status = kiln__blob_encode(&out->blob, &entry);
    }
    kiln__text_fini(&names);
    if (status != KILN_OK)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    out->compiled = true;
    if (image->log != NULL && image->log[0] != '\0')
        out->log = kiln__source_show_log(unit, image->log);
    if (!wanted->fresh)
        kiln__tiers_put(out->tiers, out->blob);
    if (direct)
        remember_reads(wanted, image->reads);
    return KILN_OK;
}

/* Tells the line that would build the kernel: in the message or, where it is too long for that, in the log. */
static kiln_status refuse_with_line(const kiln__builder *builder, const kiln__unit *unit, kiln_report *report)
{
    static const char why[] = "not in the stores, and strict mode compiles nothing: run ";
    kiln__text line = { 0 };
    kiln__text_printf(&line, "kiln warm '%s'%s%s", unit->spec, unit->warm_options != NULL ? unit->warm_options : "",
                      builder->warm_options);
    bool fits = sizeof(why) + line.length <= sizeof(report->message);
    kiln_status status =
        line.failed
            ? kiln__fail_memory(report, KILN__STAGE_COMPILE)
            : kiln__fail(report, KILN_ESTRICT, KILN__STAGE_COMPILE, 0, "%s%s%s", why,
                         fits ? line.data : "the kiln warm line of this report's log: ", fits ? "" : unit->spec);
    if (status == KILN_ESTRICT && !fits)
        kiln__report_set_log(report, line.data);
    kiln__text_fini(&line);
    return status;
}

static kiln_status refuse(kiln__builder *builder, const kiln__unit *unit, kiln_report *report)
{
    atomic_fetch_add(&builder->refusals, 1);
    if (is_unwatched(builder, unit))
        return kiln__fail(report, KILN_ESTRICT, KILN__STAGE_COMPILE, 0,
                          "with isolate=never a source is in no store, and strict mode compiles nothing: let a worker "
                          "compile it: %s",
                          unit->spec);
    if (!kiln__unit_is_template(unit))
        return kiln__fail(report, KILN_ESTRICT, KILN__STAGE_COMPILE, 0,
                          "not in the stores as its text and its headers are now, and strict mode compiles nothing: %s",
                          unit->spec);
    if (unit->homeless)
        return kiln__fail(
            report, KILN_ESTRICT, KILN__STAGE_COMPILE, 0,
            "not in the stores, and strict mode compiles nothing: build it in the program that defines the "
            "template, which is in no file: %s",
            unit->spec);
    return refuse_with_line(builder, unit, report);
}

/* ---- Building */

kiln_status kiln__builder_require(kiln__builder *builder, const kiln__unit *unit, kiln__built *out, kiln_report *report)
{
    kiln_status status = seek(builder, unit, NULL, true, false, out, report);
    return status == KILN_ENOENT ? refuse(builder, unit, report) : status;
}

kiln_status kiln__builder_find(kiln__builder *builder, const kiln__unit *unit, bool any, kiln__built *out,
                               kiln_report *report)
{
    kiln_status status = seek(builder, unit, NULL, any, true, out, report);
    return status == KILN_ENOENT
               ? kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "not in the stores: %s", unit->spec)
               : status;
}

kiln_status kiln__builder_is_kept(kiln__builder *builder, const kiln__unit *unit, kiln__miss *why, kiln_report *report)
{
    kiln__tiers on_disk;
    kiln__built built = { 0 };
    *why = KILN__MISS_ABSENT;
    if (is_unwatched(builder, unit))
        return KILN_ENOENT;
    kiln__tiers_borrow_on_disk(&on_disk, builder->tiers);
    kiln_status status = seek(builder, unit, &on_disk, true, true, &built, report);
    *why = built.miss;
    kiln__built_fini(&built);
    return status;
}

kiln_status kiln__builder_build(kiln__builder *builder, const kiln__unit *unit, bool fresh, kiln__built *out,
                                kiln_report *report)
{
    kiln__keylock_hold hold;
    kiln__image image = { 0 };
    bool held = false, leased = false;
    if (builder->strict)
        return kiln__builder_require(builder, unit, out, report);
    request wanted = begin_request(builder, unit, out);
    wanted.fresh = fresh;
    kiln__tiers *const all = out->tiers;
    const bool by_daemon = builder->daemon != NULL && !fresh && !is_unwatched(builder, unit);
    if (by_daemon)
        out->tiers = builder->local; /* the daemon asks the remote */
    kiln_status status = locate(&wanted, report);
    if (by_daemon && is_missing(&wanted, status))
        ask_daemon_and_look(&wanted, &status, report);
    out->tiers = all;
    if (by_daemon && out->blob == NULL && all->remote != NULL)
        status = look(&wanted, report);
    if (status == KILN_OK && out->blob == NULL && !fresh)
        held = lock_and_look(&wanted, &hold, &status, report);
    if (status == KILN_OK && out->blob == NULL && !fresh)
        leased = lease_and_look(&wanted, &status, report);
    else if (status == KILN_OK && out->blob != NULL && builder->push && out->tiers->remote != NULL)
        kiln__remote_push(out->tiers->remote, out->blob);
    if (status == KILN_OK && out->blob == NULL) {
        status = compile_until_settled(&wanted, &image, report);
        if (status == KILN_OK)
            status = publish(&wanted, &image, report);
        kiln__image_fini(&image);
    }
    if (leased)
        kiln__remote_give(out->tiers->remote, first_key(&wanted)->digest);
    if (held)
        kiln__keylock_give(&hold);
    fini_request(&wanted);
    return status;
}

bool kiln__builder_older(kiln__built *built)
{
    size_t tier;
    kiln__blob *older = built->any ? kiln__tiers_older(built->tiers, &built->blob->entry.key, &tier) : NULL;
    if (older == NULL)
        return false;
    kiln__blob_release(built->blob);
    built->blob = older;
    built->tier = tier;
    return true;
}

void kiln__builder_replace(const kiln__built *built)
{
    kiln__tiers_drop(built->tiers, &built->blob->entry.key);
    kiln__tiers_put(built->tiers, built->blob);
}

bool kiln__builder_choose_target(kiln__builder *builder, const kiln__target *device, kiln__target *out)
{
    kiln__toolchain toolchain;
    *out = *device;
    kiln_status status = !kiln__target_facts(device)->numbered
                             ? KILN_ENOCOMPILER
                             : kiln__toolchains_get(&builder->toolchains, &toolchain, NULL);
    if (status != KILN_OK)
        return status != KILN_ENOMEM;
    const kiln__target *same_major = NULL, *below = NULL;
    for (uint32_t i = 0; i < toolchain.target_count; i++) {
        const kiln__target *candidate = &toolchain.targets[i];
        if (candidate->sm == device->sm)
            return true;
        if (candidate->sm > device->sm)
            continue;
        if (below == NULL || candidate->sm > below->sm)
            below = candidate;
        if (candidate->sm / 10 == device->sm / 10 && (same_major == NULL || candidate->sm > same_major->sm))
            same_major = candidate;
    }
    if (same_major != NULL)
        *out = *same_major;
    else if (below != NULL)
        *out = *below;
    return true;
}
