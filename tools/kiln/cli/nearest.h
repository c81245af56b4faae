#ifndef KILN_TOOLS_NEAREST_H
#define KILN_TOOLS_NEAREST_H

#include <stddef.h>

/* The closest to `word` of the names with which `count` rows of `stride` bytes begin, or NULL if none is so near that
 * it was probably meant. */
const char *nearest_word(const char *word, const void *rows, size_t count, size_t stride);

#endif
