/* Describes a spec in the words of a record. Pure; any thread. */
#ifndef KILN_WISDOM_DESCRIBE_H
#define KILN_WISDOM_DESCRIBE_H

#include "spec/fields.h"

enum {
    KILN__WISDOM_MODEL = 256,
    KILN__WISDOM_CLASS = 96,  /* bytes of a class in words */
    KILN__WISDOM_DIGEST = 17, /* hexadecimal digits and the NUL */
    KILN__WISDOM_HEAVY = 32 /* operations on an element from which on an op is heavy: about as many as a GPU does while
                                 it moves one */
};

/* Appends a spec's op as records have it: "none" where the template takes no op. */
void kiln__wisdom_op(const kiln__fields *spec, kiln__text *out);

/* The class of the spec's op: "1 in, 1 out, light". Ops of one class are expected to like the same geometry. Of a
 * template with user-defined arguments it counts the arrays; an array that is read and written is both. */
void kiln__wisdom_class(const kiln__fields *spec, char out[KILN__WISDOM_CLASS]);

/* Whether the computation of the spec is known: it has an op, or its template takes none. */
bool kiln__wisdom_is_complete(const kiln__fields *spec);

/* Whether the spec leaves a parameter of its template open: else there is nothing to choose. */
bool kiln__wisdom_is_open(const kiln__fields *spec);

/* The logarithm of the power of two nearest to the size of a spec, whose n is set and not 0: nearest as logarithms, so
 * that the bound between two powers lies at the square root of 2. */
unsigned kiln__wisdom_size(const kiln__fields *spec);

/* The length of rows that geometry depends on, where the template reduces them and the spec names it; else 0. */
uint64_t kiln__wisdom_cols(const kiln__fields *spec);

/* A device's model as records have it: printable ASCII, '?' for all else, the end cut off if it is too long. */
void kiln__wisdom_model(const char *model, char out[KILN__WISDOM_MODEL]);

/* Appends the parameters that are set, in the template's order: "block=128 elems=4 vector=4 cache=stream". */
void kiln__wisdom_geometry(const kiln__fields *spec, kiln__text *out);

/* A digest of the text that is compiled, the CUDA text or the C twin, without the declarations: they tell the choices
 * and do not change the code of a choice. False if out of memory; "" where there is no cpu twin. */
bool kiln__wisdom_digest(const kiln__template *template, bool twin, char out[KILN__WISDOM_DIGEST]);

#endif
