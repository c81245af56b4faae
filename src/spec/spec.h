/* Specs: fields that change no more, with their text. docs/spec.md describes the language. */
#ifndef KILN_SPEC_SPEC_H
#define KILN_SPEC_SPEC_H

#include "spec/fields.h"
#include <kiln/kernel.h>
#include <stdatomic.h>

/* Immutable but for the number of references and what is made late. One piece of memory, of the size that it needs:
 * the values, the nodes of the op and the texts follow the struct. */
struct kiln_spec {
    atomic_uint refs;
    uint64_t hash;                       /* of the canonical text */
    size_t length;                       /* of the canonical text, which the hint n is no part of */
    const char *text;                    /* the canonical text, then the hint where it is set */
    _Atomic(kiln_signature *) signature; /* once a caller asked */
    kiln__fields fields;
    const char *values[]; /* by the numbers of fields; "" where a field is open */
};

/* Makes a spec of fields. It needs nothing of them afterwards but the catalog. One reference. NULL: out of memory. */
kiln_spec *kiln__spec_freeze(const kiln__fields *fields);

/* Makes a spec of a text, see kiln__fields_parse. */
kiln_status kiln__spec_parse(kiln_spec **out, const kiln__catalog *catalog, const char *text, kiln_report *report);

/* Makes a spec of another one and a line, see kiln__fields_update. */
kiln_status kiln__spec_with(kiln_spec **out, const kiln_spec *spec, const char *line, kiln_report *report);

/* What the template declares, for the op and the type of the spec; a type that is open is the template's first, and
 * an op that is open has no inputs. Lives as long as the spec. NULL: out of memory. Any thread. */
const kiln_signature *kiln__spec_signature(const kiln_spec *spec);

/* References. The last one frees the spec. NULL is allowed. Any thread. */
kiln_spec *kiln__spec_retain(const kiln_spec *spec);
void kiln__spec_release(kiln_spec *spec);

#endif
