#include "compile/key.h"

#include <string.h>

enum { KEY_VERSION = 2 };

static void append_part(kiln__text *text, const char *bytes, const kiln__part *part)
{
    char made[KILN__DIGEST_HEX];
    const char *digest = part->digest;
    if (digest == NULL) {
        kiln__digest_part(made, bytes, part->length);
        digest = made;
    }
    kiln__text_printf(text, "part %zu %s\n", part->length, digest);
}

/* Each part by its own digest, so that those which are the same in all units need not be digested again. */
static void append_source(kiln__text *text, const kiln__unit *unit)
{
    const kiln__part whole = { unit->source_length, NULL }, *parts = unit->part_count > 0 ? unit->parts : &whole;
    const char *bytes = unit->source;
    for (uint32_t i = 0; i == 0 || i < unit->part_count; i++) {
        append_part(text, bytes, &parts[i]);
        bytes += parts[i].length;
    }
}

kiln_status kiln__key_make(kiln__key *out, kiln__text *text, const kiln__unit *unit, const char *options)
{
    /* One field a line and no free text but at a line's end, so that no two keys share a text. */
    kiln__text_printf(text, "kiln-key %d\ntarget %s\noptions %s\nsource %zu\n", (int)KEY_VERSION, unit->target.name,
                      options, unit->source_length);
    append_source(text, unit);
    return kiln__key_of(out, text);
}

kiln_status kiln__key_of(kiln__key *out, const kiln__text *text)
{
    memset(out, 0, sizeof(*out));
    if (text->failed)
        return KILN_ENOMEM;
    kiln__digest(out->digest, text->data, text->length);
    return KILN_OK;
}
