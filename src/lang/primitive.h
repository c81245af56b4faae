/* The functions that definitions of ops can call. Pure. */
#ifndef KILN_LANG_PRIMITIVE_H
#define KILN_LANG_PRIMITIVE_H

#include "lang/word.h"
#include <stdint.h>

enum { KILN__PRIMITIVES = 22, KILN__COST_DIV = 16 };

/* What a call means: the C function kiln_NAME, which stands in real.h or in functions.h, and the same in double. */
typedef struct kiln__primitive {
    const char *name;
    uint16_t arity;
    uint16_t cost; /* what a compiler has to do for it; 0: for references only, because GPU and cpu differ in it */
    double (*value)(const double *arguments);
} kiln__primitive;

extern const kiln__primitive kiln__primitives[KILN__PRIMITIVES];

/* Index of a function by its name here or in C, "fmaxf"; -1 if there is none. */
int kiln__primitive_find(kiln__word name);

#endif
