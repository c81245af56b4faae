/* What pasting words together ("##") could make of those of a source: a word that asks whether a file is there, where the source has
 * none. Pure. */
#ifndef KILN_SOURCE_PASTE_H
#define KILN_SOURCE_PASTE_H

#include "base/text.h"

/* The words that ask for files. */
enum { KILN__ASKING = 3, KILN__ASKING_LENGTH = 18 };
extern const char *const kiln__asking[KILN__ASKING];

/* The length of the word that begins here; 0 where none does. */
size_t kiln__asking_word(const char *at);

/* Whether a word is one of them. */
bool kiln__asking_is(const char *word, size_t length);

/* The parts of these words that a source has as words of its own. Zero-initialised. */
typedef struct kiln__pieces {
    bool pasting;                                        /* some text may paste */
    uint32_t lengths[KILN__ASKING][KILN__ASKING_LENGTH]; /* bit n: n bytes from there on */
} kiln__pieces;

/* Adds what a text has, one without line splices. */
void kiln__pieces_add(kiln__pieces *pieces, const char *text);

/* One of the words that can be made, NULL if none can; what it can be made of is appended to `out`: "'_' and '_has_include'". */
const char *kiln__pieces_find(const kiln__pieces *pieces, kiln__text *out);

#endif
