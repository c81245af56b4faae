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

static kiln_status make(kiln__builder *builder, const kiln__unit *unit, kiln__key *key, const kiln__text *text,
                        kiln__built *out, kiln_report *report)
{
    kiln__image image = { 0 };
    kiln_status status = compile(builder, unit, &image, out, report);
    if (status != KILN_OK)
        return status;
    snprintf(key->toolchain, sizeof(key->toolchain), "%s", image.toolchain);
    status = wrap(&image, unit, key, text, &out->blob);
    if (status == KILN_OK) {
        out->compiled = true;
        out->log = image.log != NULL && image.log[0] != '\0' ? kiln__strdup(image.log) : NULL;
        kiln__toolchains_learn(&builder->toolchains, image.toolchain);
        kiln__tiers_put(builder->tiers, out->blob);
    } else {
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    }
    kiln__image_fini(&image);
    return status;
}

/* With no compiler to ask, any toolchain's entry will do: the empty toolchain in `key` finds the newest. */
static kiln_status take_any(kiln__builder *builder, const kiln__unit *unit, const kiln__key *key, kiln_status missing,
                            kiln__built *out, kiln_report *report)
{
    out->blob = kiln__tiers_get(builder->tiers, key, &out->tier);
    if (out->blob == NULL)
        return missing;
    kiln_report_clear(report);
    kiln__log_line(builder->log, KILN_LOG_INFO, "no compiler: using what %s made of %s", out->blob->entry.key.toolchain,
                   unit->spec);
    return KILN_OK;
}

/* Writes what a key needs but the toolchain. */
static kiln_status identify(const kiln__builder *builder, const kiln__unit *unit, kiln__key *key, kiln__text *text)
{
    const kiln__compiler *compiler = builder->toolchains.compiler;
    kiln__text options = { 0 };
    compiler->vtable->options(compiler, &unit->target, &options);
    kiln_status status = options.failed ? KILN_ENOMEM : kiln__key_make(key, text, unit, kiln__text_string(&options));
    kiln__text_fini(&options);
    return status;
}

static bool look_up(kiln__builder *builder, kiln__key *key, const kiln__toolchain *toolchain, kiln__built *out)
{
    memcpy(key->toolchain, toolchain->id, sizeof(key->toolchain));
    if (key->toolchain[0] != '\0')
        out->blob = kiln__tiers_get(builder->tiers, key, &out->tier);
    return out->blob != NULL;
}

bool kiln__builder_find(kiln__builder *builder, const kiln__unit *unit, kiln__built *out)
{
    kiln__text text = { 0 };
    kiln__toolchain toolchain;
    kiln__key key;
    memset(out, 0, sizeof(*out));
    bool found = identify(builder, unit, &key, &text) == KILN_OK &&
                 kiln__toolchains_get(&builder->toolchains, &toolchain, NULL) == KILN_OK &&
                 look_up(builder, &key, &toolchain, out);
    kiln__text_fini(&text);
    return found;
}

/* Compiles while holding the host's lock of the key, if there is one, and after one more look: who held it before may have
 * published what we want, and even told what the toolchain is. */
static kiln_status make_alone(kiln__builder *builder, const kiln__unit *unit, kiln__key *key, const kiln__text *text,
                              kiln__built *out, kiln_report *report)
{
    kiln__hostlock_hold hold;
    kiln__toolchain toolchain;
    if (builder->hostlock == NULL || builder->hostlock->disk == NULL)
        return make(builder, unit, key, text, out, report);
    bool held = kiln__hostlock_take(builder->hostlock, key->digest, &hold);
    kiln_status status = kiln__toolchains_get(&builder->toolchains, &toolchain, report);
    if (status == KILN_OK && !look_up(builder, key, &toolchain, out))
        status = make(builder, unit, key, text, out, report);
    if (held)
        kiln__hostlock_give(builder->hostlock, &hold);
    return status;
}

kiln_status kiln__builder_build(kiln__builder *builder, const kiln__unit *unit, bool fresh, kiln__built *out,
                                kiln_report *report)
{
    kiln__text text = { 0 };
    kiln__toolchain toolchain;
    kiln__key key;
    memset(out, 0, sizeof(*out));

    kiln_status status = identify(builder, unit, &key, &text);
    if (status != KILN_OK) {
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
        goto done;
    }
    status = kiln__toolchains_get(&builder->toolchains, &toolchain, report);
    if (status != KILN_OK) {
        if (!fresh)
            status = take_any(builder, unit, &key, status, out, report);
        goto done;
    }
    if (fresh)
        status = make(builder, unit, &key, &text, out, report);
    else if (!look_up(builder, &key, &toolchain, out))
        status = make_alone(builder, unit, &key, &text, out, report);
done:
    kiln__text_fini(&text);
    return status;
}

void kiln__builder_drop(kiln__builder *builder, const kiln__built *built)
{
    kiln__tiers_drop(builder->tiers, &built->blob->entry.key);
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
