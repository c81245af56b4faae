#include "compile/key.h"

#include <string.h>

enum { KEY_VERSION = 3 };

/* SHA-256 is what CMake can make when the library is built; here BLAKE2b takes a third of its time. */
static void append_part(kiln__text *text, const kiln__part *part)
{
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    if (part->sha256 == NULL) {
        kiln__digest(digest, part->text, part->length);
        kiln__digest_hex(hex, digest);
    }
    kiln__text_append(text, "part ");
    kiln__text_append_uint(text, part->length, 1);
    kiln__text_append(text, part->sha256 != NULL ? " sha256 " : " blake2b ");
    kiln__text_append(text, part->sha256 != NULL ? part->sha256 : hex);
    kiln__text_append(text, "\n");
}

/* Each part by its own digest, so that those which are built in need not be digested. */
static void append_source(kiln__text *text, const kiln__unit *unit)
{
    const kiln__part whole = { unit->source, unit->source_length, NULL };
    const kiln__part *parts = unit->part_count > 0 ? unit->parts : &whole;
    for (uint32_t i = 0; i == 0 || i < unit->part_count; i++)
        append_part(text, &parts[i]);
}

kiln_status kiln__key_make(kiln__key *out, kiln__text *text, const kiln__unit *unit, const char *options)
{
    /* One field a line and no free text but at a line's end, so that no two keys share a text. */
    kiln__text_append(text, "kiln-key ");
    kiln__text_append_uint(text, KEY_VERSION, 1);
    kiln__text_append(text, "\ntarget ");
    kiln__text_append(text, unit->target.name);
    kiln__text_append(text, "\noptions ");
    kiln__text_append(text, options);
    kiln__text_append(text, "\nsource ");
    kiln__text_append_uint(text, unit->source_length, 1);
    kiln__text_append(text, "\n");
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
