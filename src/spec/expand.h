/* Lines of lists and ranges: "op=relu6,hardtanh(-1,1) dtype=f32,f16 block=64..1024*2 target=sm_80,sm_90". */
#ifndef KILN_SPEC_EXPAND_H
#define KILN_SPEC_EXPAND_H

#include "spec/spec.h"

enum { KILN__EXPAND_MAX = 65536 }; /* specs that one line may stand for */

/* Appends the comma-separated targets that "all" or "native" stands for. */
typedef kiln_status (*kiln__expand_word)(void *data, const char *word, kiln__text *out, kiln_report *report);

/* Calls fn with each spec of the product, first field slowest. Values are separated by commas outside parentheses; an
 * integer field also takes A..B (step 1), A..B+S and A..B*F. Every spec is parsed before the first call.
 * `word` may be NULL: then "all" and "native" are ordinary, hence unknown, targets. */
kiln_status kiln__spec_expand(const kiln__catalog *catalog, const char *line, kiln__expand_word word, void *word_data,
                              int (*fn)(void *data, const kiln_spec *spec), void *data, kiln_report *report);

#endif
