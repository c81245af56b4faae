/* Growable text and small text helpers. */
#ifndef KILN_BASE_TEXT_H
#define KILN_BASE_TEXT_H

#include "base/report.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growable, always terminated buffer. The first failed growth makes `failed` true and every later append a no-op:
 * append freely, check once. Zero-initialised is empty. */
typedef struct kiln__text {
    char *data; /* NULL while empty */
    size_t length, capacity;
    bool failed;
} kiln__text;

void kiln__text_fini(kiln__text *text);
void kiln__text_append(kiln__text *text, const char *string);
void kiln__text_append_bytes(kiln__text *text, const void *bytes, size_t length);

/* Appends a decimal number of at least `width` digits, in a twentieth of the time of kiln__text_printf. */
void kiln__text_append_uint(kiln__text *text, uint64_t value, unsigned width);
void kiln__text_printf(kiln__text *text, const char *format, ...) KILN__PRINTF(2, 3);

/* Appends a word as a shell reads it, in single quotes. */
void kiln__text_quote(kiln__text *text, const char *word);

/* Hands the buffer over (caller: kiln__free) and leaves the text as new. NULL if it had failed or, for an empty text,
 * if memory ran out. */
char *kiln__text_take(kiln__text *text);

/* The contents, "" when empty. Borrowed until the next append. */
const char *kiln__text_string(const kiln__text *text);

/* Copies a possibly longer string as snprintf does: terminated if size > 0; returns strlen(string). */
size_t kiln__text_copy(char *buffer, size_t size, const char *string);

/* Length of the shortest edit script (insert, delete, replace, swap of neighbours) between two words. A word of more
 * than 64 bytes is wholly different from all but itself. */
size_t kiln__text_distance(const char *a, const char *b);

/* The candidate closest to `word`, or NULL when none is close enough to be a likely slip: a distance above 2 or, for
 * words of 6 letters and more, above a third of the length; nothing in common; or a word of more than 64 bytes. Upper
 * and lower case count as equal, and a candidate that begins with `word` as close.
 * `name(data, i)` gives candidate i, NULL after the last. */
const char *kiln__text_closest(const char *word, const char *(*name)(const void *data, size_t i), const void *data);

/* True for letters, digits and '_', the first not a digit; ASCII only, whatever the locale. */
bool kiln__text_is_identifier(const char *text, size_t length);

/* Editors may write it before the text of a file, in UTF-8. NVRTC and old C compilers take it for text. */
#define KILN__TEXT_BYTE_ORDER_MARK "\xEF\xBB\xBF"

/* The text behind its byte-order mark, or all of it. */
const char *kiln__text_skip_mark(const char *text);

/* The text behind the next "#include" at or behind `at`, where the name of the file begins; NULL if there is none. One
 * in a comment or in a branch that is not taken counts too. `at` may be NULL. */
const char *kiln__text_next_include(const char *at);

#endif
