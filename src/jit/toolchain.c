/* The memo of compilers and linkers in the store. */
#include "jit/builder.h"

#include "base/alloc.h"
#include "base/keyline.h"
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Stands where a kernel's key names its toolchain: the memo holds on this machine only. */
#define MEMO_TOOLCHAIN "host"

enum {
    STAMP_SIZE = 256,
    CHUNK_SIZE = 1 << 20,
    LINKER_ID_HEX = 16,
    TARGETS_SIZE = KILN__TARGETS_MAX * KILN__TARGET_SIZE
};

void kiln__toolchains_init(kiln__toolchains *memo, kiln__compiler *compiler, kiln__tiers *tiers)
{
    memset(memo, 0, sizeof(*memo));
    memo->compiler = compiler;
    memo->tiers = tiers;
    pthread_mutex_init(&memo->lock, NULL);
    pthread_mutex_init(&memo->linker_lock, NULL);
}

void kiln__toolchains_fini(kiln__toolchains *memo)
{
    pthread_mutex_destroy(&memo->lock);
    pthread_mutex_destroy(&memo->linker_lock);
    kiln__text_fini(&memo->linker_stamps);
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

/* False if there is no such section, or none that fits. */
static bool copy_section(const kiln__entry *entry, const char *name, char *out, size_t size)
{
    const kiln__section *section = kiln__entry_find(entry, name);
    return section != NULL && kiln__text_copy(out, size, section->data) < size;
}

/* True if the store remembers the compiler and its file has not changed since. */
static bool recall(kiln__toolchains *memo, kiln__toolchain *out)
{
    kiln__text text = { 0 }, stamp = { 0 };
    char seen[STAMP_SIZE], targets[TARGETS_SIZE];
    kiln__key key;
    memset(out, 0, sizeof(*out));
    kiln__blob *blob = memo_key(memo, &key, &text) ? kiln__tiers_get(memo->tiers, &key, NULL, NULL) : NULL;
    const kiln__entry *entry = blob != NULL ? &blob->entry : NULL;
    bool good = entry != NULL && entry->kind == KILN__ENTRY_TOOLCHAIN &&
                copy_section(entry, "path", out->path, sizeof(out->path)) &&
                copy_section(entry, "id", out->id, sizeof(out->id)) && out->id[0] != '\0' &&
                copy_section(entry, "version", out->version, sizeof(out->version)) &&
                copy_section(entry, "targets", targets, sizeof(targets)) &&
                kiln__toolchain_read_targets(out, targets) && out->target_count > 0 &&
                copy_section(entry, "stamp", seen, sizeof(seen)) && file_stamp(out->path, &stamp) &&
                strcmp(seen, stamp.data) == 0;
    if (good && memo->compiler->vtable->know != NULL)
        memo->compiler->vtable->know(memo->compiler, out);
    kiln__blob_release(blob);
    kiln__text_fini(&text);
    kiln__text_fini(&stamp);
    return good;
}

/* An older file may be remembered under the same search: the store replaces it. */
static void remember(kiln__toolchains *memo, const kiln__toolchain *toolchain)
{
    kiln__text text = { 0 }, stamp = { 0 }, targets = { 0 };
    kiln__entry entry = { .kind = KILN__ENTRY_TOOLCHAIN };
    kiln__blob *blob = NULL;
    kiln__toolchain_list_targets(toolchain, &targets);
    bool fits = memo_key(memo, &entry.key, &text) && file_stamp(toolchain->path, &stamp) && !targets.failed &&
                targets.length > 0;
    const struct {
        const char *name, *text;
    } sections[] = { { "path", toolchain->path },
                     { "stamp", stamp.data },
                     { "id", toolchain->id },
                     { "version", toolchain->version },
                     { "targets", targets.data } };
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && fits; i++)
        fits = kiln__entry_add(&entry, sections[i].name, sections[i].text, strlen(sections[i].text));
    entry.key_text = text.data;
    entry.key_text_length = text.length;
    if (fits && kiln__blob_encode(&blob, &entry) == KILN_OK)
        kiln__tiers_replace(memo->tiers, blob);
    kiln__blob_release(blob);
    kiln__text_fini(&text);
    kiln__text_fini(&stamp);
    kiln__text_fini(&targets);
}

/* Makes memo->toolchain known. With the lock held. Where its id is not known, another process may have learnt it
 * since. */
static kiln_status know(kiln__toolchains *memo, kiln_report *report)
{
    kiln__compiler *compiler = memo->compiler;
    kiln__toolchain found;
    kiln_status status = KILN_OK;
    if (memo->known && memo->toolchain->id[0] == '\0' && recall(memo, &found)) {
        *memo->toolchain = found;
        memo->kept = true;
    }
    if (memo->known)
        return KILN_OK;
    if (memo->toolchain == NULL)
        memo->toolchain = kiln__alloc(sizeof(*memo->toolchain));
    if (memo->toolchain == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    memo->kept = recall(memo, memo->toolchain);
    if (!memo->kept) {
        memset(memo->toolchain, 0, sizeof(*memo->toolchain));
        status = compiler->vtable->open(compiler, memo->toolchain, report);
        if (status == KILN_OK && memo->toolchain->id[0] != '\0')
            remember(memo, memo->toolchain);
    }
    memo->known = status == KILN_OK;
    return status;
}

kiln_status kiln__toolchains_get(kiln__toolchains *memo, kiln__toolchain *out, kiln_report *report)
{
    pthread_mutex_lock(&memo->lock);
    kiln_status status = know(memo, report);
    if (status == KILN_OK)
        *out = *memo->toolchain;
    pthread_mutex_unlock(&memo->lock);
    return status;
}

kiln_status kiln__toolchains_id(kiln__toolchains *memo, char out[KILN__ENTRY_TOOLCHAIN_SIZE], kiln_report *report)
{
    pthread_mutex_lock(&memo->lock);
    kiln_status status = know(memo, report);
    if (status == KILN_OK)
        kiln__text_copy(out, KILN__ENTRY_TOOLCHAIN_SIZE, memo->toolchain->id);
    pthread_mutex_unlock(&memo->lock);
    return status;
}

void kiln__toolchains_learn(kiln__toolchains *memo, const char *id)
{
    pthread_mutex_lock(&memo->lock);
    bool same = memo->known && strcmp(memo->toolchain->id, id) == 0;
    if (same && !memo->kept) {
        remember(memo, memo->toolchain); /* the store may have been made since it became known */
        memo->kept = true;
    } else if (memo->known && !same) {
        /* The memo may be of another file than the one that has just compiled: ask the compiler, it is open. */
        kiln__toolchain opened = { 0 };
        if (memo->compiler->vtable->open(memo->compiler, &opened, NULL) == KILN_OK)
            *memo->toolchain = opened;
        snprintf(memo->toolchain->id, sizeof(memo->toolchain->id), "%s", id);
        remember(memo, memo->toolchain);
        memo->kept = true;
    }
    pthread_mutex_unlock(&memo->lock);
}

/* ---- Linkers */

/* Folds a file's bytes into the digest. 0 or -errno. */
static int digest_file(uint8_t chain[KILN__DIGEST_SIZE], const char *path)
{
    void *chunk = kiln__alloc(CHUNK_SIZE);
    int fd = chunk != NULL ? kiln__file_open(AT_FDCWD, path, O_RDONLY, 0) : -ENOMEM;
    int error = fd < 0 ? fd : 0;
    size_t length = CHUNK_SIZE;
    for (uint64_t at = 0; error == 0 && length == CHUNK_SIZE; at += length) {
        error = kiln__file_read_some(fd, chunk, CHUNK_SIZE, at, &length);
        if (error == 0)
            kiln__digest_fold(chain, chunk, length);
    }
    if (fd >= 0)
        close(fd);
    kiln__free(chunk);
    return error;
}

static kiln_status digest_linker(const kiln__list *files, char id[KILN__ENTRY_TOOLCHAIN_SIZE], kiln_report *report)
{
    uint8_t chain[KILN__DIGEST_SIZE] = { 0 };
    char hex[KILN__DIGEST_HEX];
    for (const char *at = NULL; (at = kiln__list_next(files, at)) != NULL;) {
        int error = digest_file(chain, at);
        if (error == -ENOMEM)
            return kiln__fail_memory(report, KILN__STAGE_OPEN);
        if (error != 0)
            return kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, -error, "cannot read the linker %s: %s", at,
                              strerrordesc_np(-error));
    }
    kiln__digest_hex(hex, chain);
    snprintf(id, KILN__ENTRY_TOOLCHAIN_SIZE, "nvjitlink-%.*s", (int)LINKER_ID_HEX, hex);
    return KILN_OK;
}

/* The store's entry for the linker of these stamps, which differ for other files. */
static bool begin_linker(kiln__entry *entry, kiln__text *key, const kiln__text *stamps)
{
    memset(entry, 0, sizeof(*entry));
    kiln__text_printf(key, KILN__KEYLINE_TOOLCHAIN "linker\n%s", kiln__text_string(stamps));
    entry->kind = KILN__ENTRY_TOOLCHAIN;
    entry->key_text = key->data;
    entry->key_text_length = key->length;
    snprintf(entry->key.toolchain, sizeof(entry->key.toolchain), "%s", MEMO_TOOLCHAIN);
    if (!key->failed)
        kiln__digest(entry->key.digest, key->data, key->length);
    return !key->failed;
}

static bool recall_linker(kiln__toolchains *memo, const kiln__text *stamps)
{
    kiln__entry wanted;
    kiln__text key = { 0 };
    kiln__blob *blob =
        begin_linker(&wanted, &key, stamps) ? kiln__tiers_get(memo->tiers, &wanted.key, NULL, NULL) : NULL;
    bool good = blob != NULL && blob->entry.kind == KILN__ENTRY_TOOLCHAIN &&
                copy_section(&blob->entry, "id", memo->linker_id, sizeof(memo->linker_id)) &&
                memo->linker_id[0] != '\0';
    kiln__blob_release(blob);
    kiln__text_fini(&key);
    return good;
}

static void remember_linker(kiln__toolchains *memo, const kiln__text *stamps)
{
    kiln__entry entry;
    kiln__text key = { 0 };
    kiln__blob *blob = NULL;
    if (begin_linker(&entry, &key, stamps) && kiln__entry_add(&entry, "id", memo->linker_id, strlen(memo->linker_id)) &&
        kiln__blob_encode(&blob, &entry) == KILN_OK)
        kiln__tiers_replace(memo->tiers, blob);
    kiln__blob_release(blob);
    kiln__text_fini(&key);
}

/* Makes memo->linker_id that of the files. With the linker's lock held. `linked`: after a compile, for which the store
 * was made. */
static kiln_status know_linker(kiln__toolchains *memo, const kiln__list *files, kiln__text *stamps, bool linked,
                               kiln_report *report)
{
    kiln__text after = { 0 };
    kiln_status status = KILN_OK;
    if (memo->linker_stamps.length > 0 && strcmp(memo->linker_stamps.data, stamps->data) == 0) {
        if (linked && !memo->linker_kept)
            remember_linker(memo, stamps);
        memo->linker_kept = memo->linker_kept || linked;
        return KILN_OK;
    }
    kiln__text_fini(&memo->linker_stamps);
    memo->linker_kept = recall_linker(memo, stamps);
    if (!memo->linker_kept) {
        status = digest_linker(files, memo->linker_id, report);
        kiln__file_append_stamps(files, &after);
        bool same = !after.failed && strcmp(kiln__text_string(&after), stamps->data) == 0;
        kiln__text_fini(&after);
        if (status == KILN_OK && !same)
            status =
                kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0,
                           "%s changes while it is read: try again when it is installed", kiln__list_next(files, NULL));
        if (status == KILN_OK)
            remember_linker(memo, stamps);
    }
    if (status == KILN_OK) {
        memo->linker_stamps = *stamps;
        *stamps = (kiln__text){ 0 };
    }
    return status;
}

kiln_status kiln__toolchains_add_linker(kiln__toolchains *memo, const char *linker, char id[KILN__ENTRY_TOOLCHAIN_SIZE],
                                        kiln_report *report)
{
    const kiln__compiler *compiler = memo->compiler;
    kiln__toolchain toolchain;
    kiln__list files = { 0 };
    kiln__text stamps = { 0 };
    kiln_status status = id[0] != '\0' ? kiln__toolchains_get(memo, &toolchain, report) : KILN_OK;
    if (id[0] == '\0')
        return KILN_OK;
    if (status == KILN_OK)
        status = compiler->vtable->linker(compiler, &toolchain, &files, report);
    kiln__file_append_stamps(&files, &stamps);
    if (status == KILN_OK && stamps.failed)
        status = kiln__fail_memory(report, KILN__STAGE_OPEN);
    if (status == KILN_OK && linker != NULL && strcmp(stamps.data, linker) != 0)
        status = kiln__fail(report, KILN_ENOCOMPILER, KILN__STAGE_OPEN, 0, "%s has changed while it linked: try again",
                            kiln__list_next(&files, NULL));
    pthread_mutex_lock(&memo->linker_lock);
    if (status == KILN_OK)
        status = know_linker(memo, &files, &stamps, linker != NULL, report);
    size_t length = strlen(id);
    if (status == KILN_OK)
        snprintf(id + length, KILN__ENTRY_TOOLCHAIN_SIZE - length, "-%s", memo->linker_id);
    else
        id[0] = '\0';
    pthread_mutex_unlock(&memo->linker_lock);
    kiln__text_fini(&stamps);
    kiln__list_fini(&files);
    return status;
}
