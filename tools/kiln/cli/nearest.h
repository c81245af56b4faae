#ifndef KILN_TOOLS_NEAREST_H
#define KILN_TOOLS_NEAREST_H

#include <stddef.h>

/* The number of single-letter insertions, removals and changes that make `a` of `b`. */
size_t edit_distance(const char *a, const char *b);

/* The closest of `count` words to `word`, or NULL if none is near enough to be what was meant. `get` returns the
 * word with that index. */
const char *nearest_word(const char *word, const char *(*get)(const void *words, size_t index), const void *words,
                         size_t count);

#endif
