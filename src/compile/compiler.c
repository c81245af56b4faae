#include "compile/compiler.h"

#include "base/alloc.h"
#include "compile/key.h"
#include "os/cpu.h"
#include <stdio.h>
#include <string.h>

void kiln__builder_init(kiln__builder *builder, kiln__compiler *compiler, kiln__tiers *tiers, const kiln__log *log)
{
    memset(builder, 0, sizeof(*builder));
    kiln__toolchains_init(&builder->toolchains, compiler, tiers);
    builder->tiers = tiers;
    builder->log = log;
}

void kiln__builder_fini(kiln__builder *builder)
{
    kiln__toolchains_fini(&builder->toolchains);
    builder->toolchains.compiler->vtable->close(builder->toolchains.compiler);
}

void kiln__built_fini(kiln__built *built)
{
    kiln__blob_release(built->blob);
    kiln__free(built->log);
    memset(built, 0, sizeof(*built));
}

static kiln_status compile(kiln__builder *builder, const kiln__unit *unit, kiln__image *image, kiln__built *out,
                           kiln_report *report)
{
    kiln__compiler *compiler = builder->toolchains.compiler;
    uint64_t start = kiln__cpu_now_ns();
    kiln_status status = compiler->vtable->compile(compiler, unit, image, report);
    out->compile_ns = kiln__cpu_now_ns() - start;
    atomic_fetch_add(&builder->compile_ns, out->compile_ns);
    atomic_fetch_add(status == KILN_OK ? &builder->compiles : &builder->failures, 1);
    if (status != KILN_OK)
        return status;
    kiln__log_line(builder->log, KILN_LOG_INFO, "compiled %s in %.1f ms", unit->spec, (double)out->compile_ns / 1e6);
    return KILN_OK;
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
    bool fresh; /* not in the stores */
    bool any;   /* any toolchain's will do where only a compile would tell which one is here */
    bool quick; /* no compiler is started to tell which toolchain it is */
    kiln__key key;
    kiln__text text;
} request;

/* Compiles, and publishes unless what comes of it has yet to prove itself. */
static kiln_status make(kiln__builder *builder, request *wanted, kiln__built *out, kiln_report *report)
{
    kiln__image image = { 0 };
    kiln_status status = compile(builder, wanted->unit, &image, out, report);
    if (status != KILN_OK)
        return status;
    snprintf(wanted->key.toolchain, sizeof(wanted->key.toolchain), "%s", image.toolchain);
    status = wrap(&image, wanted->unit, &wanted->key, &wanted->text, &out->blob);
    if (status == KILN_OK) {
        out->compiled = true;
        out->log = image.log != NULL && image.log[0] != '\0' ? kiln__strdup(image.log) : NULL;
        kiln__toolchains_learn(&builder->toolchains, image.toolchain);
        if (!wanted->fresh)
            kiln__tiers_put(builder->tiers, out->blob);
    } else {
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    }
    kiln__image_fini(&image);
    return status;
}

static kiln_status make_key(const kiln__builder *builder, request *wanted, kiln_report *report)
{
    kiln__compiler *compiler = builder->toolchains.compiler;
    kiln__text options = { 0 };
    compiler->vtable->options(compiler, &wanted->unit->target, &options);
    kiln_status status = options.failed
                             ? KILN_ENOMEM
                             : kiln__key_make(&wanted->key, &wanted->text, wanted->unit, kiln__text_string(&options));
    kiln__text_fini(&options);
    return status == KILN_OK ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_COMPILE);
}

/* A compiler that tells its id only by compiling is asked with something tiny where a store has this very unit of some
 * toolchain, a pack for instance: it may well be this one's. An empty cache costs no compile more. */
static void identify_if_worthwhile(kiln__builder *builder, kiln__key *key, kiln__miss *why)
{
    kiln__compiler *compiler = builder->toolchains.compiler;
    kiln__toolchain toolchain;
    kiln__blob *some = kiln__tiers_get(builder->tiers, key, NULL, why);
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
    kiln_report missing = KILN_REPORT_INIT;
    kiln__toolchain toolchain;
    kiln_status status = kiln__toolchains_get(&builder->toolchains, &toolchain, &missing);
    if (status == KILN_OK)
        memcpy(wanted->key.toolchain, toolchain.id, sizeof(wanted->key.toolchain));
    if (status == KILN_OK && wanted->key.toolchain[0] == '\0' && !wanted->fresh && !wanted->any && !wanted->quick)
        identify_if_worthwhile(builder, &wanted->key, &out->miss);
    bool named = wanted->key.toolchain[0] != '\0';
    if (!wanted->fresh && (named || status != KILN_OK || wanted->any))
        out->blob = kiln__tiers_get(builder->tiers, &wanted->key, &out->tier, &out->miss);
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

static kiln_status refuse(kiln__builder *builder, const kiln__unit *unit, kiln_report *report)
{
    atomic_fetch_add(&builder->refusals, 1);
    return kiln__fail(report, KILN_ESTRICT, KILN__STAGE_COMPILE, 0,
                      "not in the stores, and strict mode compiles nothing: run kiln warm '%s'%s", unit->spec,
                      builder->strict);
}

/* Compiles while holding the host's lock of the key, if there is one, and after one more look: who held it before may have
 * published what we want, and even told what the toolchain is. */
static kiln_status make_alone(kiln__builder *builder, request *wanted, kiln__built *out, kiln_report *report)
{
    kiln__hostlock_hold hold;
    kiln_status status = KILN_OK;
    bool shared = builder->hostlock != NULL && builder->hostlock->disk != NULL;
    bool held = shared && kiln__hostlock_take(builder->hostlock, wanted->key.digest, &hold);
    if (shared)
        status = look(builder, wanted, out, report);
    if (status == KILN_OK && out->blob == NULL)
        status = make(builder, wanted, out, report);
    if (held)
        kiln__hostlock_give(builder->hostlock, &hold);
    return status;
}

kiln_status kiln__builder_build(kiln__builder *builder, const kiln__unit *unit, bool fresh, kiln__built *out,
                                kiln_report *report)
{
    request wanted = { .unit = unit, .fresh = fresh, .any = builder->strict != NULL };
    memset(out, 0, sizeof(*out));
    kiln_status status = locate(builder, &wanted, out, report);
    if (out->blob == NULL && builder->strict != NULL && (status == KILN_OK || is_absent(status)))
        status = refuse(builder, unit, report);
    else if (out->blob == NULL && status == KILN_OK)
        status = fresh ? make(builder, &wanted, out, report) : make_alone(builder, &wanted, out, report);
    kiln__text_fini(&wanted.text);
    return status;
}

kiln_status kiln__builder_find(kiln__builder *builder, const kiln__unit *unit, bool any, kiln__built *out,
                               kiln_report *report)
{
    request wanted = { .unit = unit, .any = any, .quick = true };
    memset(out, 0, sizeof(*out));
    kiln_status status = locate(builder, &wanted, out, report);
    if (out->blob == NULL && (status == KILN_OK || is_absent(status)))
        status = kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "not in the stores: %s", unit->spec);
    kiln__text_fini(&wanted.text);
    return status;
}

bool kiln__builder_older(kiln__builder *builder, kiln__built *built)
{
    size_t tier;
    kiln__blob *older = built->any ? kiln__tiers_older(builder->tiers, &built->blob->entry.key, &tier) : NULL;
    if (older == NULL)
        return false;
    kiln__blob_release(built->blob);
    built->blob = older;
    built->tier = tier;
    return true;
}

void kiln__builder_replace(kiln__builder *builder, const kiln__built *built)
{
    kiln__tiers_drop(builder->tiers, &built->blob->entry.key);
    kiln__tiers_put(builder->tiers, built->blob);
}

void kiln__builder_choose_target(kiln__builder *builder, const kiln__target *device, kiln__target *out)
{
    kiln__toolchain toolchain;
    *out = *device;
    if (kiln__target_is_cpu(device) || kiln__toolchains_get(&builder->toolchains, &toolchain, NULL) != KILN_OK)
        return;
    const kiln__target *same_major = NULL, *below = NULL;
    for (uint32_t i = 0; i < toolchain.target_count; i++) {
        const kiln__target *candidate = &toolchain.targets[i];
        if (candidate->sm == device->sm)
            return;
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
}
