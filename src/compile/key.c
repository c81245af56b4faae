#include "compile/key.h"

#include <string.h>

enum { KEY_VERSION = 1 };

kiln_status kiln__key_make(kiln__key *out, kiln__text *text, const kiln__unit *unit, const char *options)
{
    uint8_t source[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    kiln__digest(source, unit->source, unit->source_length);
    kiln__digest_hex(hex, source);

    /* One field a line and no free text but at a line's end, so that no two keys share a text. */
    kiln__text_printf(text, "kiln-key %d\ntarget %s\noptions %s\nsource %zu %s\n", (int)KEY_VERSION, unit->target.name,
                      options, unit->source_length, hex);
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
