/* Ranges of whole numbers: "A..B" (step 1), "A..B+STEP" and "A..B*FACTOR". */
#ifndef KILN_SPEC_RANGE_H
#define KILN_SPEC_RANGE_H

#include "lang/word.h"
#include <stdint.h>

typedef struct kiln__range {
    uint64_t value; /* where it is: at first its first number */
    uint64_t last, step;
    bool multiplies;
} kiln__range;

/* True for what is meant as a range. */
bool kiln__range_is(kiln__word text);

/* NULL, or the rest of a message that began with the text: "never ends: step by 1 or more". */
const char *kiln__range_parse(kiln__range *out, kiln__word text);

/* Goes on to the next number; false after the last. */
bool kiln__range_next(kiln__range *range);

#endif
