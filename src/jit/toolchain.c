#include "jit/toolchain.h"

#include "base/alloc.h"
#include "base/keyline.h"
#include "os/file.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Stands where a kernel's key names its toolchain: what is remembered here holds on this machine only. */
#define MEMO_TOOLCHAIN "host"

void kiln__toolchains_init(kiln__toolchains *memo, kiln__compiler *compiler, kiln__tiers *tiers)
{
    memset(memo, 0, sizeof(*memo));
    memo->compiler = compiler;
    memo->tiers = tiers;
    pthread_mutex_init(&memo->lock, NULL);
}

void kiln__toolchains_fini(kiln__toolchains *memo)
{
    pthread_mutex_destroy(&memo->lock);
    kiln__free(memo->toolchain);
}

/* The identity of the compiler's file as text; false if it is gone. */
static bool file_stamp(const char *path, kiln__text *out)
{
    struct stat status;
    if (path[0] == '\0' || stat(path, &status) != 0)
        return false;
    kiln__file_append_stamp(&status, " ", out);
    return !out->failed;
}

static bool memo_key(const kiln__toolchains *memo, kiln__key *key, kiln__text *text)
{
    const kiln__compiler *compiler = memo->compiler;
    kiln__text_append(text, KILN__KEYLINE_TOOLCHAIN "compiler ");
    kiln__text_append(text, compiler->vtable->name);
    kiln__text_append(text, "\n");
    compiler->vtable->search(compiler, text);
    if (text->failed)
        return false;
    memset(key, 0, sizeof(*key));
    kiln__digest(key->digest, text->data, text->length);
    snprintf(key->toolchain, sizeof(key->toolchain), "%s", MEMO_TOOLCHAIN);
    return true;
}

static bool take_text(const kiln__entry *entry, const char *name, char *out, size_t size)
{
    const kiln__section *section = kiln__entry_find(entry, name);
    if (section == NULL || section->length >= size)
        return false;
    memcpy(out, section->data, section->length);
    out[section->length] = '\0';
    return true;
}

static bool take_targets(const kiln__entry *entry, kiln__toolchain *out)
{
    const kiln__section *section = kiln__entry_find(entry, "targets");
    if (section == NULL)
        return false;
    const char *at = section->data;
    const char *end = at + section->length;
    while (at < end && out->target_count < KILN__TARGETS_MAX) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        size_t length = (size_t)((space != NULL ? space : end) - at);
        if (!kiln__target_parse(at, length, &out->targets[out->target_count]))
            return false;
        out->target_count++;
        at += length + 1;
    }
    return out->target_count > 0;
}

/* True if the store remembers the compiler and its file has not changed since. */
static bool recall(kiln__toolchains *memo, kiln__toolchain *out)
{
    kiln__text text = { 0 }, stamp = { 0 };
    kiln__blob *blob = NULL;
    kiln__key key;
    bool good = false;
    memset(out, 0, sizeof(*out));
    if (!memo_key(memo, &key, &text))
        goto done;
    blob = kiln__tiers_get(memo->tiers, &key, NULL, NULL);
    if (blob == NULL || blob->entry.kind != KILN__ENTRY_TOOLCHAIN)
        goto done;
    const kiln__section *seen = kiln__entry_find(&blob->entry, "stamp");
    good = take_text(&blob->entry, "path", out->path, sizeof(out->path)) &&
           take_text(&blob->entry, "id", out->id, sizeof(out->id)) && out->id[0] != '\0' &&
           take_text(&blob->entry, "version", out->version, sizeof(out->version)) && take_targets(&blob->entry, out) &&
           file_stamp(out->path, &stamp) && seen != NULL && seen->length == stamp.length &&
           memcmp(seen->data, stamp.data, stamp.length) == 0;
    if (good && memo->compiler->vtable->know != NULL)
        memo->compiler->vtable->know(memo->compiler, out);
done:
    kiln__blob_release(blob);
    kiln__text_fini(&text);
    kiln__text_fini(&stamp);
    return good;
}

static void remember(kiln__toolchains *memo, const kiln__toolchain *toolchain)
{
    kiln__text text = { 0 }, stamp = { 0 }, targets = { 0 };
    kiln__entry entry = { .kind = KILN__ENTRY_TOOLCHAIN };
    void *bytes = NULL;
    size_t length = 0;
    if (!memo_key(memo, &entry.key, &text) || !file_stamp(toolchain->path, &stamp))
        goto done;
    for (uint32_t i = 0; i < toolchain->target_count; i++)
        kiln__text_printf(&targets, "%s%s", i > 0 ? " " : "", toolchain->targets[i].name);
    if (targets.failed || targets.length == 0)
        goto done;
    entry.key_text = text.data;
    entry.key_text_length = text.length;
    bool fits = kiln__entry_add(&entry, "path", toolchain->path, strlen(toolchain->path)) &&
                kiln__entry_add(&entry, "stamp", stamp.data, stamp.length) &&
                kiln__entry_add(&entry, "id", toolchain->id, strlen(toolchain->id)) &&
                kiln__entry_add(&entry, "version", toolchain->version, strlen(toolchain->version)) &&
                kiln__entry_add(&entry, "targets", targets.data, targets.length);
    if (!fits || kiln__entry_encode(&bytes, &length, &entry) != KILN_OK)
        goto done;
    kiln__blob *blob = kiln__blob_take(bytes, length, &entry.key, NULL);
    if (blob != NULL) {
        kiln__tiers_replace(memo->tiers, blob); /* an older file may be remembered under the same search */
        kiln__blob_release(blob);
    }
done:
    kiln__text_fini(&text);
    kiln__text_fini(&stamp);
    kiln__text_fini(&targets);
}

/* Another process may have learnt the id since. */
static void recall_id(kiln__toolchains *memo)
{
    kiln__toolchain found;
    if (recall(memo, &found))
        *memo->toolchain = found;
}

static kiln_status ask(kiln__toolchains *memo, kiln_report *report)
{
    memset(memo->toolchain, 0, sizeof(*memo->toolchain));
    kiln_status status = memo->compiler->vtable->open(memo->compiler, memo->toolchain, report);
    if (status == KILN_OK && memo->toolchain->id[0] != '\0')
        remember(memo, memo->toolchain);
    return status;
}

/* With the lock held. NULL on failure. */
static const kiln__toolchain *know(kiln__toolchains *memo, kiln_status *status, kiln_report *report)
{
    *status = KILN_OK;
    if (memo->toolchain == NULL)
        memo->toolchain = kiln__alloc(sizeof(*memo->toolchain));
    if (memo->toolchain == NULL) {
        *status = kiln__fail_memory(report, KILN__STAGE_OPEN);
        return NULL;
    }
    bool first = !memo->known;
    if (first && !recall(memo, memo->toolchain))
        *status = ask(memo, report);
    memo->known = *status == KILN_OK;
    if (memo->known && !first && memo->toolchain->id[0] == '\0')
        recall_id(memo);
    return memo->known ? memo->toolchain : NULL;
}

kiln_status kiln__toolchains_get(kiln__toolchains *memo, kiln__toolchain *out, kiln_report *report)
{
    pthread_mutex_lock(&memo->lock);
    kiln_status status;
    const kiln__toolchain *known = know(memo, &status, report);
    if (known != NULL)
        *out = *known;
    pthread_mutex_unlock(&memo->lock);
    return status;
}

kiln_status kiln__toolchains_id(kiln__toolchains *memo, char out[KILN__ENTRY_TOOLCHAIN_SIZE], kiln_report *report)
{
    pthread_mutex_lock(&memo->lock);
    kiln_status status;
    const kiln__toolchain *known = know(memo, &status, report);
    if (known != NULL)
        memcpy(out, known->id, KILN__ENTRY_TOOLCHAIN_SIZE);
    pthread_mutex_unlock(&memo->lock);
    return status;
}

void kiln__toolchains_learn(kiln__toolchains *memo, const char *id)
{
    pthread_mutex_lock(&memo->lock);
    if (memo->known && strcmp(memo->toolchain->id, id) != 0) {
        /* What was recalled may be of another file than the one that has just compiled: ask it, it is open. */
        kiln__toolchain opened;
        memset(&opened, 0, sizeof(opened));
        if (memo->compiler->vtable->open(memo->compiler, &opened, NULL) == KILN_OK)
            *memo->toolchain = opened;
        snprintf(memo->toolchain->id, sizeof(memo->toolchain->id), "%s", id);
        remember(memo, memo->toolchain);
    }
    pthread_mutex_unlock(&memo->lock);
}
