/* Pieces of text, and how messages speak of them. */
#ifndef KILN_LANG_WORD_H
#define KILN_LANG_WORD_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of somebody else's text; not terminated. */
typedef struct kiln__word {
    const char *text;
    size_t length;
} kiln__word;

/* Text made fit for a message, to be used at once: kiln__word_quote(word).text. */
typedef struct kiln__quote {
    char text[41];
} kiln__quote;
typedef struct kiln__hint {
    char text[320];
} kiln__hint;

/* Spaces, tabs and line ends; the same in every locale. */
bool kiln__word_is_blank(char c);

/* 0 to 9; letters, digits and '_': the same in every locale. */
bool kiln__word_is_digit(char c);
bool kiln__word_is_name_char(char c);

bool kiln__word_is(kiln__word word, const char *string);

/* The word without blanks around it. */
kiln__word kiln__word_trim(kiln__word word);

/* Cuts *rest at the first `separator`: returns what is before it and leaves in *rest what is after it. Without one,
 * returns all and leaves an empty rest whose text is NULL. Both are trimmed. */
kiln__word kiln__word_cut(kiln__word *rest, const char *separator);

/* As cut, at the first run of blanks; *rest must be trimmed. */
kiln__word kiln__word_next(kiln__word *rest);

/* The letters, digits and '_' at *at, which is left behind them: a name, a number or nothing. */
kiln__word kiln__word_take(const char **at);

/* At most 40 characters, the end cut off where there are more, with '?' for all but printable ASCII. */
kiln__quote kiln__word_quote(kiln__word word);

/* What to write instead of an unknown word: "did you mean hardsigmoid?", or, where no candidate is close, all of them:
 * "f32, f64 or bf16". `name(data, i)` gives candidate i, NULL after the last. */
kiln__hint kiln__word_hint(kiln__word word, const char *(*name)(const void *data, size_t i), const void *data);

/* All candidates: "f32, f64 or bf16". */
kiln__hint kiln__word_choices(const char *(*name)(const void *data, size_t i), const void *data);

/* Lower-case letters, digits and '_', the first a letter: what a declared name may be. */
bool kiln__word_is_name(kiln__word word);

#endif
