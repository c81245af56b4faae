/* Which functions a source offers to the host, as far as its text tells: for people who have asked for another.
 * Pure. */
#ifndef KILN_SOURCE_KERNELS_H
#define KILN_SOURCE_KERNELS_H

#include "source/source.h"

/* Appends the __global__ functions of the text and of the headers in memory, in their order, each once and with a
 * comma between: "scale<class T, int N>, ns::plain". Nothing is preprocessed: those of an #if that is not taken are
 * among them, and those that macros make are not. A long list ends with "...". */
void kiln__source_list_kernels(kiln__text *out, const kiln__unit *unit);

#endif
