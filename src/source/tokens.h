/* Tokens of CUDA text, without a preprocessor. */
#ifndef KILN_SOURCE_TOKENS_H
#define KILN_SOURCE_TOKENS_H

#include "lang/word.h"
#include <stdbool.h>

/* A text that is being read: { .at = text, .at_line = true }. */
typedef struct kiln__tokens {
    const char *at;
    bool at_line;    /* only blanks and comments stand before on this line */
    bool directives; /* directives are read as any text, else they are passed over */
} kiln__tokens;

/* Goes to the next token. Comments, and directives as the case may be, count as space. */
void kiln__tokens_skip_space(kiln__tokens *tokens);

/* The next token, one word or one character; the end has no length. Texts in quotes are passed over. */
kiln__word kiln__tokens_next(kiln__tokens *tokens);

#endif
