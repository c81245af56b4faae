/* Allocation. All of Kiln allocates here, so that tests can fail any allocation. */
#ifndef KILN_BASE_ALLOC_H
#define KILN_BASE_ALLOC_H

#include <stddef.h>

/* As malloc, calloc, realloc and free; NULL on failure. kiln__calloc refuses products that overflow. Any thread. */
void *kiln__alloc(size_t bytes);
void *kiln__calloc(size_t count, size_t bytes);
void *kiln__realloc(void *memory, size_t bytes);
void kiln__free(void *memory);

/* A copy of a string or of bytes (followed by a NUL), NULL on failure. kiln__strdup(NULL) is NULL. */
char *kiln__strdup(const char *text);
void *kiln__memdup(const void *bytes, size_t length);

/* Called before each allocation when set; returning non-zero makes it fail. For tests only: set it while no other
 * thread is inside Kiln, NULL to remove. */
typedef int (*kiln__alloc_hook)(void);
void kiln__alloc_set_hook(kiln__alloc_hook hook);

#endif
