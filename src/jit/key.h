/* The only definition of a key: everything that can change what a compiler makes of a unit. */
#ifndef KILN_JIT_KEY_H
#define KILN_JIT_KEY_H

#include "spec/unit.h"
#include "store/entry.h"

/* Appends the key's text: of a source without the contents of the files that it reads. */
void kiln__key_text(kiln__text *text, const kiln__unit *unit, const char *options);

/* Writes the key's text to `text` (empty before) and its digest to *out; out->toolchain is left empty. Pure.
 * KILN_ENOMEM. */
kiln_status kiln__key_make(kiln__key *out, kiln__text *text, const kiln__unit *unit, const char *options);

/* The key whose text is given. KILN_ENOMEM if the text had failed. */
kiln_status kiln__key_of(kiln__key *out, const kiln__text *text);

#endif
