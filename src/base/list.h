/* A list of texts in one block: each with its NUL, one after the other. Frames between processes carry this form. */
#ifndef KILN_BASE_LIST_H
#define KILN_BASE_LIST_H

#include "base/text.h"

/* Zero-initialised is empty. As with a kiln__text, append freely and check once: bytes.failed. */
typedef struct kiln__list {
    kiln__text bytes;
    size_t count;
} kiln__list;

void kiln__list_add(kiln__list *list, const char *text);
void kiln__list_add_bytes(kiln__list *list, const char *text, size_t length); /* without a NUL in them */
void kiln__list_fini(kiln__list *list);

/* The text after `at`, or the first one if it is NULL; NULL after the last. */
const char *kiln__list_next(const kiln__list *list, const char *at);

/* For lists of pairs: the next pair after `*second`, or the first pair if *first is NULL. False after the last. */
bool kiln__list_next_pair(const kiln__list *list, const char **first, const char **second);

/* Pointers to every `step`th text from number `first` on, then NULL. Caller: kiln__free; NULL when out of memory. */
const char **kiln__list_array(const kiln__list *list, size_t first, size_t step);

/* Copies a list of that form into an empty one. False if the bytes do not end with a NUL, or memory ran out. */
bool kiln__list_read(kiln__list *out, const void *bytes, size_t length);

#endif
