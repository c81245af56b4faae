#include "compile/direct.h"

#include "base/alloc.h"
#include "compile/key.h"
#include "os/trust.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALTERNATIVES_MAX = 12 };

bool kiln__direct_applies(const kiln__unit *unit)
{
    return unit->own != NULL && unit->own->places.count > 0;
}

/* ---- Keys */

kiln_status kiln__direct_list_key(kiln__key *out, kiln__text *text, const kiln__text *base)
{
    kiln__text_append(text, "kiln-reads 2\n");
    kiln__text_append_bytes(text, base->data, base->length);
    return kiln__key_of(out, text);
}

static kiln_status key_of_reads(const kiln__text *base, const char *reads, size_t length, kiln__key *out,
                                kiln__text *text)
{
    kiln__text_fini(text);
    kiln__text_append_bytes(text, base->data, base->length);
    kiln__reads_contents(text, reads, length);
    return kiln__key_of(out, text);
}

kiln_status kiln__direct_key(const kiln__text *base, const char *reads, kiln__key *out, kiln__text *text)
{
    return key_of_reads(base, reads, strlen(reads), out, text);
}

/* ---- Lists */

typedef struct section_name {
    char text[KILN__ENTRY_NAME_SIZE];
} section_name;

static section_name name_of(int number)
{
    section_name name;
    snprintf(name.text, sizeof(name.text), "reads-%d", number % 1000);
    return name;
}

static const kiln__section *alternative(const kiln__blob *blob, int number)
{
    section_name name = name_of(number);
    return blob != NULL && blob->entry.kind == KILN__ENTRY_READS ? kiln__entry_find(&blob->entry, name.text) : NULL;
}

/* The alternative that tells what files are now, NULL if none does. */
static const kiln__section *find_current(kiln__filesums *sums, const kiln__unit *unit, const kiln__blob *blob)
{
    const kiln__section *section;
    for (int i = 0; (section = alternative(blob, i)) != NULL; i++)
        if (kiln__filesums_agree(sums, &unit->own->places, section->data, section->length))
            return section;
    return NULL;
}

bool kiln__direct_find(kiln__tiers *tiers, kiln__filesums *sums, const kiln__unit *unit, const kiln__key *list,
                       const kiln__text *base, kiln__key *out, kiln__text *text, kiln__miss *why)
{
    const kiln__section *current = NULL;
    kiln__blob *blob = kiln__tiers_get(tiers, list, NULL, why);
    while (blob != NULL && (current = find_current(sums, unit, blob)) == NULL) {
        kiln__blob *older = list->toolchain[0] == '\0' ? kiln__tiers_older(tiers, &blob->entry.key, NULL) : NULL;
        kiln__blob_release(blob);
        blob = older;
    }
    bool found = current != NULL && key_of_reads(base, current->data, current->length, out, text) == KILN_OK;
    if (found)
        memcpy(out->toolchain, blob->entry.key.toolchain, sizeof(out->toolchain));
    kiln__blob_release(blob);
    return found;
}

static kiln__blob *make_list(const kiln__unit *unit, const kiln__key *list, const kiln__text *text,
                             const kiln__blob *old, const char *reads)
{
    kiln__entry entry = {
        .kind = KILN__ENTRY_READS, .key = *list, .key_text = text->data, .key_text_length = text->length
    };
    void *bytes = NULL;
    size_t length = strlen(reads), total = 0;
    const kiln__section *section;
    kiln__text spec = { 0 };
    kiln__text_printf(&spec, "headers of %s", unit->spec);
    bool fits = !spec.failed && kiln__entry_add(&entry, "spec", spec.data, spec.length) &&
                kiln__entry_add(&entry, "reads-0", reads, length);
    int count = 1;
    for (int i = 0; fits && count < ALTERNATIVES_MAX && (section = alternative(old, i)) != NULL; i++) {
        if (section->length == length && memcmp(section->data, reads, length) == 0)
            continue;
        section_name name = name_of(count++);
        fits = kiln__entry_add(&entry, name.text, section->data, section->length);
    }
    bool encoded = fits && kiln__entry_encode(&bytes, &total, &entry) == KILN_OK;
    kiln__text_fini(&spec);
    return encoded ? kiln__blob_take(bytes, total, list, NULL) : NULL;
}

void kiln__direct_remember(kiln__tiers *tiers, const kiln__unit *unit, const kiln__key *list,
                           const kiln__text *list_text, const char *reads)
{
    kiln__blob *old = kiln__tiers_get(tiers, list, NULL, NULL);
    kiln__blob *fresh = make_list(unit, list, list_text, old, reads);
    if (fresh != NULL) {
        /* Puts never replace. */
        kiln__tiers_drop(tiers, list);
        kiln__tiers_put(tiers, fresh);
    }
    kiln__blob_release(fresh);
    kiln__blob_release(old);
}

/* ---- CUDA's own headers */

/* In place of a directory that is not there: nothing is ever in it. The compiler asks it as any other, so that what was read says
 * of each header that there was none, and one that appears is noticed. */
static const char nowhere[] = "/dev/null/none";

static void add_nowhere(kiln__list *places, const char *name)
{
    kiln__list_add(places, name);
    kiln__list_add(places, nowhere);
}

/* Adds directory `from`/`path` as a place if it has the file `witness`. */
static bool add_place(kiln__list *places, const char *name, const char *from, const char *path, const char *witness)
{
    char directory[PATH_MAX], resolved[PATH_MAX], file[PATH_MAX + NAME_MAX];
    if (snprintf(directory, sizeof(directory), "%s/%s", from, path) >= (int)sizeof(directory) ||
        realpath(directory, resolved) == NULL)
        return false;
    snprintf(file, sizeof(file), "%s/%s", resolved, witness);
    if (access(file, R_OK) != 0)
        return false;
    kiln__list_add(places, name);
    kiln__list_add(places, resolved);
    return true;
}

/* Seen from the directory of libnvrtc, or from one beside it: a toolkit or a wheel of CUDA 13, wheels of CUDA 12. */
static bool add_cuda(kiln__list *places, const char *from)
{
    static const struct {
        const char *cuda, *cccl;
    } layouts[] = { { "../include", "../include/cccl" }, { "../../cuda_runtime/include", "../../cuda_cccl/include" } };
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (add_place(places, "cuda", from, layouts[i].cuda, "cuda_fp16.h")) {
            if (!add_place(places, "cccl", from, layouts[i].cccl, "cuda/std/version"))
                add_nowhere(places, "cccl");
            return true;
        }
    return false;
}

void kiln__direct_find_cuda(const char *nvrtc, kiln__list *places)
{
    char from[PATH_MAX];
    const char *slash = strrchr(nvrtc, '/');
    bool elevated = kiln__trust_is_elevated();
    const char *const roots[] = { elevated ? NULL : getenv("CUDA_PATH"), elevated ? NULL : getenv("CUDA_HOME"),
                                  "/usr/local/cuda" };
    if (slash != NULL && snprintf(from, sizeof(from), "%.*s", (int)(slash - nvrtc), nvrtc) < (int)sizeof(from) &&
        add_cuda(places, from))
        return;
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
        if (roots[i] != NULL && roots[i][0] == '/' &&
            snprintf(from, sizeof(from), "%s/include", roots[i]) < (int)sizeof(from) && add_cuda(places, from))
            return;
    add_nowhere(places, "cuda");
    add_nowhere(places, "cccl");
}
