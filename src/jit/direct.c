#include "jit/direct.h"

#include "base/alloc.h"
#include "base/keyline.h"
#include "jit/key.h"
#include <stdio.h>
#include <string.h>

enum { ALTERNATIVES_MAX = 12 };

bool kiln__direct_applies(const kiln__unit *unit)
{
    return unit->places.count > 0;
}

/* ---- Keys */

kiln_status kiln__direct_list_key(kiln__direct *self)
{
    kiln__text_append(&self->list_text, KILN__KEYLINE_READS);
    kiln__text_append_bytes(&self->list_text, self->base.data, self->base.length);
    return kiln__key_of(&self->list, &self->list_text);
}

void kiln__direct_fini(kiln__direct *self)
{
    kiln__text_fini(&self->base);
    kiln__text_fini(&self->list_text);
}

static kiln_status key_of_reads(const kiln__direct *self, const char *reads, size_t length, kiln__key *out,
                                kiln__text *text)
{
    kiln__text_fini(text);
    kiln__text_append_bytes(text, self->base.data, self->base.length);
    kiln__reads_contents(text, reads, length);
    return kiln__key_of(out, text);
}

kiln_status kiln__direct_key(const kiln__direct *self, const char *reads, kiln__key *out, kiln__text *text)
{
    return key_of_reads(self, reads, strlen(reads), out, text);
}

/* ---- Lists */

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

/* The alternative that tells what files are now, NULL if none does. */
static const kiln__section *find_current(const kiln__direct *self, const kiln__blob *blob)
{
    const kiln__section *section;
    for (size_t i = 0; (section = alternative(blob, i)) != NULL; i++)
        if (kiln__filesums_agree(self->sums, &self->unit->places, section->data, section->length))
            return section;
    return NULL;
}

/* What the stores have under one key, NULL where one has nothing: each may know of compiles that no other does. */
typedef struct lists {
    kiln__blob *of[KILN__TIERS_MAX];
    size_t count;
} lists;

static kiln__blob *next_list(const kiln__direct *self, lists *all, const kiln__key *key, kiln__miss *why)
{
    kiln__blob *blob = kiln__tiers_get_from(self->tiers, all->count, key, why);
    return all->of[all->count++] = blob;
}

static void release(lists *all)
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

/* Adds what there is room for, the fastest store's first. */
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

static kiln_status encode(kiln__blob **out, const kiln__entry *entry)
{
    void *bytes = NULL;
    size_t length = 0;
    kiln_status status = kiln__entry_encode(&bytes, &length, entry);
    *out = status == KILN_OK ? kiln__blob_take(bytes, length, &entry->key, NULL) : NULL;
    return status == KILN_OK && *out == NULL ? KILN_ENOMEM : status;
}

/* One list of all that is known, `front` in front. KILN_OK with NULL: it has no room for these. */
static kiln_status join(kiln__blob **out, kiln__entry *entry, const kiln__section *spec, const kiln__section *front,
                        const lists *all)
{
    entry->kind = KILN__ENTRY_READS;
    bool fits = kiln__entry_add(entry, "spec", spec->data, spec->length) &&
                kiln__entry_add(entry, name_of(0).text, front->data, front->length) && add_others(entry, all);
    *out = NULL;
    return fits && encode(out, entry) == KILN_ENOMEM ? KILN_ENOMEM : KILN_OK;
}

static kiln__blob *merge(const kiln__direct *self, const kiln__key *key, const lists *all, const char *reads,
                         size_t length)
{
    kiln__text text = { 0 };
    kiln__text_printf(&text, "headers of %s", self->unit->spec);
    const kiln__section spec = { .data = text.data, .length = text.length },
                        front = { .data = reads, .length = length };
    kiln__entry entry = { .key = *key, .key_text = self->list_text.data, .key_text_length = self->list_text.length };
    kiln__blob *merged = NULL;
    if (!text.failed)
        join(&merged, &entry, &spec, &front, all);
    kiln__text_fini(&text);
    return merged;
}

kiln_status kiln__direct_merge(kiln__blob **out, kiln__blob *first, kiln__blob *second)
{
    const lists all = { .of = { first, second }, .count = 2 };
    const kiln__section *spec = kiln__entry_find(&first->entry, "spec"), *front = alternative(first, 0);
    kiln__entry entry = { .key = first->entry.key,
                          .key_text = first->entry.key_text,
                          .key_text_length = first->entry.key_text_length };
    *out = NULL;
    kiln_status status = spec != NULL && front != NULL ? join(out, &entry, spec, front, &all) : KILN_OK;
    if (*out != NULL && (*out)->length <= first->length) {
        kiln__blob_release(*out);
        *out = NULL;
    }
    return status;
}

void kiln__direct_remember(const kiln__direct *self, const char *reads)
{
    lists all = { .count = 0 };
    while (all.count < self->tiers->count)
        next_list(self, &all, &self->list, NULL);
    kiln__blob *merged = merge(self, &self->list, &all, reads, strlen(reads));
    if (merged != NULL)
        kiln__tiers_replace(self->tiers, merged);
    kiln__blob_release(merged);
    release(&all);
}

/* A slower store has told: memory is to know it too, besides what it knows. */
static void keep_at_hand(const kiln__direct *self, const kiln__key *list, const lists *all,
                         const kiln__section *current)
{
    kiln__blob *merged = all->count > 1 ? merge(self, list, all, current->data, current->length) : NULL;
    if (merged != NULL)
        kiln__tiers_promote(self->tiers, all->count - 1, merged);
    kiln__blob_release(merged);
}

/* What one toolchain has left. */
static kiln__blob *fetch_of(const kiln__direct *self, const kiln__key *list, kiln__key *key, kiln__text *text,
                            size_t *tier, kiln__miss *why)
{
    kiln__blob *kernel = NULL;
    lists all = { .count = 0 };
    while (kernel == NULL && all.count < self->tiers->count) {
        const kiln__section *current = find_current(self, next_list(self, &all, list, why));
        if (current == NULL || key_of_reads(self, current->data, current->length, key, text) != KILN_OK)
            continue;
        memcpy(key->toolchain, list->toolchain, sizeof(key->toolchain));
        kernel = kiln__tiers_get(self->tiers, key, tier, why);
        if (kernel != NULL)
            keep_at_hand(self, list, &all, current);
    }
    release(&all);
    return kernel;
}

kiln__blob *kiln__direct_fetch(const kiln__direct *self, kiln__key *key, kiln__text *text, size_t *tier,
                               kiln__miss *why)
{
    if (self->list.toolchain[0] != '\0')
        return fetch_of(self, &self->list, key, text, tier, why);
    kiln__blob *kernel = NULL, *newest = kiln__tiers_get(self->tiers, &self->list, NULL, why);
    while (newest != NULL && (kernel = fetch_of(self, &newest->entry.key, key, text, tier, why)) == NULL) {
        kiln__blob *older = kiln__tiers_older(self->tiers, &newest->entry.key, NULL);
        kiln__blob_release(newest);
        newest = older;
    }
    kiln__blob_release(newest);
    return kernel;
}
