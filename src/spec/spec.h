/* Specs: immutable fields with their text, and lines that stand for many specs. docs/spec.md describes the language. */
#ifndef KILN_SPEC_SPEC_H
#define KILN_SPEC_SPEC_H

#include "spec/fields.h"
#include <kiln/kernel.h>
#include <stdatomic.h>

/* Immutable, except for the number of references and the signature. One piece of memory of the size that it needs: the
 * values, the nodes of the op and the texts follow the struct. */
struct kiln_spec {
    atomic_uint refs;
    uint64_t hash;                       /* of the canonical text */
    size_t length;                       /* of the canonical text, without the hint n */
    const char *text;                    /* the canonical text, then the hint where it is set */
    _Atomic(kiln_signature *) signature; /* made when it is first asked for */
    kiln__fields fields;
    const char *values[]; /* by the numbers of fields; "" where a field is open */
};

/* Makes a spec of fields, with one reference. It copies all but the catalog. NULL: out of memory. */
kiln_spec *kiln__spec_freeze(const kiln__fields *fields);

/* Makes a spec of a text, see kiln__fields_parse. */
kiln_status kiln__spec_parse(kiln_spec **out, const kiln__catalog *catalog, const char *text, kiln_report *report);

/* Makes a spec of another one and a line, see kiln__fields_update. */
kiln_status kiln__spec_with(kiln_spec **out, const kiln_spec *spec, const char *line, kiln_report *report);

/* The signature that the template declares, for the op and the dtype of the spec. An open dtype is the template's
 * first, and an open op has no inputs. Lives as long as the spec. NULL: out of memory. Any thread. */
const kiln_signature *kiln__spec_signature(const kiln_spec *spec);

/* References. The last one frees the spec. NULL is allowed. Any thread. */
kiln_spec *kiln__spec_retain(const kiln_spec *spec);
void kiln__spec_release(kiln_spec *spec);

/* ---- Lines of lists and ranges: "op=relu6,hardtanh(-1,1) dtype=f32,f16 block=64..1024*2 target=sm_80,sm_90" */

enum { KILN__EXPAND_MAX = 65536 }; /* specs that one line may stand for */

/* Appends the comma-separated targets that "all" or "native" stands for. */
typedef kiln_status (*kiln__expand_word)(void *data, const char *word, kiln__text *out, kiln_report *report);

/* Calls fn with each spec of the product, first field slowest. Values are separated by commas outside parentheses; an
 * integer field also takes A..B (step 1), A..B+S and A..B*F. Every spec is parsed before the first call.
 * `word` may be NULL: then "all" and "native" are ordinary, hence unknown, targets. */
kiln_status kiln__spec_expand(const kiln__catalog *catalog, const char *line, kiln__expand_word word, void *word_data,
                              int (*fn)(void *data, const kiln_spec *spec), void *data, kiln_report *report);

#endif
