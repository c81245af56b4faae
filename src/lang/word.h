/* Pieces of text, and their form in messages. All functions are pure, and the same in every locale. */
#ifndef KILN_LANG_WORD_H
#define KILN_LANG_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A borrowed piece of text, without a NUL at its end. */
typedef struct kiln__word {
    const char *text;
    size_t length;
} kiln__word;

/* Text made fit for a message, for use within the same expression: kiln__word_quote(word).text. */
typedef struct kiln__quote {
    char text[41];
} kiln__quote;
typedef struct kiln__hint {
    char text[320];
} kiln__hint;

static inline kiln__word kiln__word_of(const char *string)
{
    return (kiln__word){ string, strlen(string) };
}

/* Spaces, tabs and line ends. */
bool kiln__word_is_blank(char c);

/* 0 to 9; letters, digits and '_'. */
bool kiln__word_is_digit(char c);
bool kiln__word_is_name_char(char c);

bool kiln__word_is(kiln__word word, const char *string);
bool kiln__word_same(kiln__word a, kiln__word b);

/* Moves *at, in a text that ends with a NUL, over blanks. */
void kiln__word_skip_blanks(const char **at);

/* The word without blanks around it. */
kiln__word kiln__word_trim(kiln__word word);

/* Cuts *rest at the first `separator`: returns the part before it and leaves the part after it in *rest. Without one,
 * returns all and leaves an empty rest whose text is NULL. Both are trimmed. */
kiln__word kiln__word_cut(kiln__word *rest, const char *separator);

/* Cuts the item before the first comma outside parentheses off *rest and returns it trimmed. *rest gets a NULL text
 * after the last item. */
kiln__word kiln__word_cut_item(kiln__word *rest);

/* As kiln__word_cut, at the first run of blanks; *rest must be trimmed. */
kiln__word kiln__word_next(kiln__word *rest);

/* Takes the letters, digits and '_' at *at and moves *at behind them: a name, a number or nothing. */
kiln__word kiln__word_take(const char **at);

/* At most 40 characters, the end cut off where there are more, with '?' for all but printable ASCII. */
kiln__quote kiln__word_quote(kiln__word word);

/* The advice for an unknown word: "did you mean hardsigmoid?" or, where no candidate is close, all of them:
 * "f32, f64 or bf16". `name(data, i)` gives candidate i, NULL after the last. */
kiln__hint kiln__word_hint(kiln__word word, const char *(*name)(const void *data, size_t i), const void *data);

/* The same for the name of a function: a short word is never taken for a slip, because it may well name another
 * function. */
kiln__hint kiln__word_hint_function(kiln__word word, const char *(*name)(const void *data, size_t i), const void *data);

/* All candidates: "f32, f64 or bf16". */
kiln__hint kiln__word_choices(const char *(*name)(const void *data, size_t i), const void *data);

/* Lower-case letters, digits and '_', the first a letter: the form of declared names. */
bool kiln__word_is_name(kiln__word word);

#endif
