#include "jit/key.h"

#include "base/keyline.h"
#include "source/source.h"
#include <string.h>

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

void kiln__key_text(kiln__text *text, const kiln__unit *unit, const char *options)
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

kiln_status kiln__key_make(kiln__key *out, kiln__text *text, const kiln__unit *unit, const char *options)
{
    kiln__key_text(text, unit, options);
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
