#include "jit/compiler.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "jit/direct.h"
#include "jit/key.h"
#include "os/cpu.h"
#include <stdio.h>
#include <string.h>

void kiln__builder_init(kiln__builder *builder, kiln__compiler *compiler, kiln__tiers *tiers, const kiln__log *log)
{
    memset(builder, 0, sizeof(*builder));
    kiln__toolchains_init(&builder->toolchains, compiler, tiers);
    kiln__filesums_init(&builder->sums);
    builder->tiers = tiers;
    builder->log = log;
}

void kiln__builder_keep_sources_at_hand(kiln__builder *builder)
{
    builder->unwatched = true;
    kiln__tiers_borrow_at_hand(&builder->at_hand, builder->tiers);
}

static bool is_unwatched(const kiln__builder *builder, const kiln__unit *unit)
{
    return builder->unwatched && kiln__unit_is_source(unit);
}

/* Where entries of a unit may lie: the one place that decides it. */
static kiln__tiers *tiers_of(kiln__builder *builder, const kiln__unit *unit)
{
    return is_unwatched(builder, unit) ? &builder->at_hand : builder->tiers;
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

/* The user's words for files, in place of those that the compiler was given. */
static void show_failure(const kiln__unit *unit, kiln_report *report)
{
    char *message = report != NULL ? kiln__source_show_log(unit, report->message) : NULL;
    char *log = report != NULL && report->log != NULL ? kiln__source_show_log(unit, report->log) : NULL;
    if (message != NULL)
        kiln__fail(report, report->status, report->stage, report->native, "%s", message);
    if (log != NULL)
        kiln__report_set_log(report, log);
    kiln__free(message);
    kiln__free(log);
}

/* Turns an image into the entry that goes into the stores and to the caller, who gets these bytes and never what
 * another writer may have put in their place. */
static kiln_status wrap(const kiln__image *image, const kiln__unit *unit, const kiln__key *key, const kiln__text *text,
                        kiln__blob **out)
{
    kiln__entry entry;
    kiln__text names = { 0 };
    void *bytes = NULL;
    size_t length = 0;
    kiln_status status = kiln__image_describe(&entry, image, unit, &names);
    if (status == KILN_OK) {
        entry.key = *key;
        entry.key_text = text->data;
        entry.key_text_length = text->length;
        status = kiln__entry_encode(&bytes, &length, &entry);
    }
    if (status == KILN_OK) {
        *out = kiln__blob_take(bytes, length, key, NULL);
        status = *out != NULL ? KILN_OK : KILN_ENOMEM;
    }
    kiln__text_fini(&names);
    return status;
}

/* What is looked for, and the key it is found under. */
typedef struct request {
    const kiln__unit *unit;
    kiln__tiers *tiers;
    bool fresh;    /* not in the stores */
    bool any;      /* any toolchain's will do where only a compile would tell which one is here */
    bool quick;    /* no compiler is started to tell which toolchain it is */
    kiln__key key; /* of what is compiled; where that depends on files, not before they have been looked at */
    kiln__text text;
    kiln__direct direct; /* where it does, else empty */
} request;

static request begin(kiln__builder *builder, const kiln__unit *unit, kiln__built *out)
{
    kiln__tiers *tiers = tiers_of(builder, unit);
    *out = (kiln__built){ .tiers = tiers };
    return (
        request){ .unit = unit, .tiers = tiers, .direct = { .tiers = tiers, .sums = &builder->sums, .unit = unit } };
}

static void fini_request(request *wanted)
{
    kiln__text_fini(&wanted->text);
    kiln__direct_fini(&wanted->direct);
}

static void note_compile(kiln__builder *builder, const kiln__unit *unit, uint64_t ns, kiln_status status,
                         kiln_report *report)
{
    atomic_fetch_add(&builder->compile_ns, ns);
    atomic_fetch_add(status == KILN_OK ? &builder->compiles : &builder->failures, 1);
    if (status == KILN_OK)
        kiln__log_line(builder->log, KILN_LOG_INFO, "compiled %s in %.1f ms", unit->spec, kiln__cpu_ms(ns));
    else if (kiln__unit_is_source(unit))
        show_failure(unit, report);
}

/* Whether a compile has to be done once more. A directory may have been made anew since the worker was chosen, a
 * header may be half written, or files may have changed while they were read. */
static bool is_unsettled(kiln_status status, const kiln__image *image)
{
    return status == KILN_EIO || (status == KILN_OK && (image->unsettled || image->reads == NULL));
}

/* Compiles, and where files are read, until they hold still meanwhile: the builder must know for sure what was read. */
static kiln_status compile_until_settled(kiln__builder *builder, const kiln__unit *unit, kiln__image *image,
                                         kiln__built *out, kiln_report *report)
{
    enum { TRIES = 4 };
    kiln__compiler *compiler = builder->toolchains.compiler;
    bool reads_files = kiln__direct_applies(unit);
    kiln__fpenv host;
    for (int tries = 1;; tries++) {
        uint64_t start = kiln__cpu_now_ns();
        kiln__fpenv_enter(&host);
        kiln_status status = compiler->vtable->compile(compiler, unit, image, report);
        kiln__fpenv_leave(&host);
        out->compile_ns = kiln__cpu_now_ns() - start;
        note_compile(builder, unit, out->compile_ns, status, report);
        if (!reads_files || !is_unsettled(status, image) || (status != KILN_OK && tries == TRIES))
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

static char *show_warnings(const kiln__unit *unit, const char *log)
{
    if (log == NULL || log[0] == '\0')
        return NULL;
    return kiln__source_show_log(unit, log);
}

/* Makes the entry of an image and puts it into the stores, unless it has yet to prove that it loads. */
static kiln_status publish(kiln__builder *builder, request *wanted, const kiln__image *image, kiln__built *out,
                           kiln_report *report)
{
    kiln_status status = KILN_OK;
    bool direct = kiln__direct_applies(wanted->unit);
    if (direct)
        status = kiln__direct_key(&wanted->direct, image->reads, &wanted->key, &wanted->text);
    snprintf(wanted->key.toolchain, sizeof(wanted->key.toolchain), "%s", image->toolchain);
    memcpy(wanted->direct.list.toolchain, wanted->key.toolchain, sizeof(wanted->key.toolchain));
    if (status == KILN_OK)
        status = wrap(image, wanted->unit, &wanted->key, &wanted->text, &out->blob);
    if (status != KILN_OK)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    out->compiled = true;
    out->log = show_warnings(wanted->unit, image->log);
    kiln__toolchains_learn(&builder->toolchains, image->toolchain);
    if (!wanted->fresh)
        kiln__tiers_put(wanted->tiers, out->blob);
    if (direct)
        kiln__direct_remember(&wanted->direct, image->reads);
    return KILN_OK;
}

static kiln_status make_key(const kiln__builder *builder, request *wanted, kiln_report *report)
{
    kiln__compiler *compiler = builder->toolchains.compiler;
    bool direct = kiln__direct_applies(wanted->unit);
    kiln__text options = { 0 }, *base = &wanted->direct.base;
    kiln_status status = KILN_ENOMEM;
    compiler->vtable->options(compiler, wanted->unit, &options);
    if (!options.failed && direct) {
        kiln__key_text(base, wanted->unit, kiln__text_string(&options));
        status = base->failed ? KILN_ENOMEM : kiln__direct_list_key(&wanted->direct);
    } else if (!options.failed) {
        status = kiln__key_make(&wanted->key, &wanted->text, wanted->unit, kiln__text_string(&options));
    }
    kiln__text_fini(&options);
    return status == KILN_OK ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_COMPILE);
}

/* The key under which the stores have something once the unit has been compiled. */
static kiln__key *first_key(request *wanted)
{
    return kiln__direct_applies(wanted->unit) ? &wanted->direct.list : &wanted->key;
}

/* What the stores have of the unit as files are now. */
static kiln__blob *fetch(request *wanted, kiln__built *out)
{
    if (kiln__direct_applies(wanted->unit))
        return kiln__direct_fetch(&wanted->direct, &wanted->key, &wanted->text, &out->tier, &out->miss);
    return kiln__tiers_get(wanted->tiers, &wanted->key, &out->tier, &out->miss);
}

/* Some compilers tell their id only by compiling something tiny. They are asked only where a store has this unit of
 * some toolchain, which may be this one's. So an empty cache costs no further compile. */
static void identify_if_worthwhile(kiln__builder *builder, kiln__tiers *tiers, kiln__key *key, kiln__miss *why)
{
    kiln__compiler *compiler = builder->toolchains.compiler;
    kiln__toolchain toolchain;
    kiln__blob *some = kiln__tiers_get(tiers, key, NULL, why);
    if (some != NULL && compiler->vtable->identify(compiler, &toolchain, NULL) == KILN_OK) {
        kiln__toolchains_learn(&builder->toolchains, toolchain.id);
        memcpy(key->toolchain, toolchain.id, sizeof(key->toolchain));
    }
    kiln__blob_release(some);
}

/* Looks in the stores: out->blob stays NULL if there is nothing. Fails if there is then no compiler either. With no
 * compiler to ask, any toolchain's entry will do: the empty toolchain in the key finds the newest. */
static kiln_status look(kiln__builder *builder, request *wanted, kiln__built *out, kiln_report *report)
{
    kiln_report missing = KILN_INIT(kiln_report);
    kiln__key *first = first_key(wanted);
    kiln_status status = kiln__toolchains_id(&builder->toolchains, first->toolchain, &missing);
    if (status == KILN_OK && first->toolchain[0] == '\0' && !wanted->fresh && !wanted->any && !wanted->quick)
        identify_if_worthwhile(builder, wanted->tiers, first, &out->miss);
    bool named = first->toolchain[0] != '\0';
    if (!wanted->fresh && (named || status != KILN_OK || wanted->any))
        out->blob = fetch(wanted, out);
    if (out->blob == NULL && status != KILN_OK)
        kiln__report_move(report, &missing);
    if (out->blob != NULL)
        out->miss = KILN__MISS_NONE;
    else if (!wanted->fresh)
        kiln__miss_raise(&out->miss, KILN__MISS_ABSENT);
    out->any = out->blob != NULL && !named;
    if (out->any)
        kiln__log_line(builder->log, KILN_LOG_INFO, "%s: using what %s made of %s",
                       status != KILN_OK ? "no compiler" : "this compiler is not known yet",
                       out->blob->entry.key.toolchain, wanted->unit->spec);
    kiln_report_clear(&missing);
    return out->blob != NULL ? KILN_OK : status;
}

static kiln_status locate(kiln__builder *builder, request *wanted, kiln__built *out, kiln_report *report)
{
    kiln_status status = make_key(builder, wanted, report);
    return status == KILN_OK ? look(builder, wanted, out, report) : status;
}

/* There is nothing here to compile with. */
static bool is_absent(kiln_status status)
{
    return status == KILN_ENOCOMPILER || status == KILN_ENOWORKER;
}

/* With the line that would make what is missing: in the message or, where it is too long for that, in the log. */
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
    if (kiln__unit_is_source(unit))
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

/* Waits for the host's lock of the key, if there is one, and looks once more: its last holder may have published the
 * entry, and even told which toolchain it is. True: the caller holds the lock. */
static bool lock_and_look(kiln__builder *builder, request *wanted, kiln__hostlock_hold *hold, kiln__built *out,
                          kiln_status *status, kiln_report *report)
{
    if (builder->hostlock == NULL || builder->hostlock->disk == NULL || is_unwatched(builder, wanted->unit))
        return false;
    bool held = kiln__hostlock_take(builder->hostlock, first_key(wanted)->digest, hold);
    *status = look(builder, wanted, out, report);
    return held;
}

kiln_status kiln__builder_build(kiln__builder *builder, const kiln__unit *unit, bool fresh, kiln__built *out,
                                kiln_report *report)
{
    kiln__hostlock_hold hold;
    kiln__image image = { 0 };
    bool held = false;
    if (builder->strict)
        return kiln__builder_require(builder, unit, out, report);
    request wanted = begin(builder, unit, out);
    wanted.fresh = fresh;
    kiln_status status = locate(builder, &wanted, out, report);
    if (status == KILN_OK && out->blob == NULL && !fresh)
        held = lock_and_look(builder, &wanted, &hold, out, &status, report);
    if (status == KILN_OK && out->blob == NULL) {
        status = compile_until_settled(builder, unit, &image, out, report);
        if (status == KILN_OK)
            status = publish(builder, &wanted, &image, out, report);
        kiln__image_fini(&image);
    }
    if (held)
        kiln__hostlock_give(&hold);
    fini_request(&wanted);
    return status;
}

kiln_status kiln__builder_require(kiln__builder *builder, const kiln__unit *unit, kiln__built *out, kiln_report *report)
{
    request wanted = begin(builder, unit, out);
    wanted.any = true;
    kiln_status status = locate(builder, &wanted, out, report);
    if (out->blob == NULL && (status == KILN_OK || is_absent(status)))
        status = refuse(builder, unit, report);
    fini_request(&wanted);
    return status;
}

kiln_status kiln__builder_find(kiln__builder *builder, const kiln__unit *unit, bool any, kiln__built *out,
                               kiln_report *report)
{
    request wanted = begin(builder, unit, out);
    wanted.any = any;
    wanted.quick = true;
    kiln_status status = locate(builder, &wanted, out, report);
    if (out->blob == NULL && (status == KILN_OK || is_absent(status)))
        status = kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "not in the stores: %s", unit->spec);
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
