/* The heap, with a hook for tests. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static kiln__alloc_hook alloc_hook;

void kiln__alloc_set_hook(kiln__alloc_hook hook)
{
    alloc_hook = hook;
}

static int must_fail(void)
{
    return alloc_hook && alloc_hook();
}

void *kiln__alloc(size_t bytes)
{
    return must_fail() ? NULL : malloc(bytes);
}

void *kiln__calloc(size_t count, size_t bytes)
{
    size_t product;
    if (__builtin_mul_overflow(count, bytes, &product) || must_fail())
        return NULL;
    return calloc(count, bytes);
}

void *kiln__realloc(void *memory, size_t bytes)
{
    return must_fail() ? NULL : realloc(memory, bytes);
}

void kiln__free(void *memory)
{
    free(memory);
}

char *kiln__strdup(const char *text)
{
    return text ? kiln__memdup(text, strlen(text)) : NULL;
}

void *kiln__memdup(const void *bytes, size_t length)
{
    char *copy = length < SIZE_MAX ? kiln__alloc(length + 1) : NULL;
    if (!copy)
        return NULL;
    if (length)
        memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}
