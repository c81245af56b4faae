/* Lists of texts in one block. */
#include "base/list.h"

#include "base/alloc.h"
#include <string.h>

void kiln__list_add_bytes(kiln__list *list, const char *text, size_t length)
{
    kiln__text_append_bytes(&list->bytes, text, length);
    kiln__text_append_bytes(&list->bytes, "", 1);
    list->count++;
}

void kiln__list_add(kiln__list *list, const char *text)
{
    kiln__list_add_bytes(list, text, strlen(text));
}

void kiln__list_fini(kiln__list *list)
{
    kiln__text_fini(&list->bytes);
    list->count = 0;
}

const char *kiln__list_next(const kiln__list *list, const char *at)
{
    at = at != NULL ? at + strlen(at) + 1 : list->bytes.data;
    return at != NULL && at < list->bytes.data + list->bytes.length ? at : NULL;
}

bool kiln__list_next_pair(const kiln__list *list, const char **first, const char **second)
{
    *first = kiln__list_next(list, *first != NULL ? *second : NULL);
    *second = *first != NULL ? kiln__list_next(list, *first) : NULL;
    return *second != NULL;
}

const char **kiln__list_array(const kiln__list *list, size_t first, size_t step)
{
    size_t number = 0, count = 0;
    const char **out = kiln__calloc(list->count + 1, sizeof(*out));
    for (const char *at = NULL; out != NULL && (at = kiln__list_next(list, at)) != NULL; number++)
        if (number >= first && (number - first) % step == 0)
            out[count++] = at;
    return out;
}

bool kiln__list_read(kiln__list *out, const void *bytes, size_t length)
{
    const char *text = bytes;
    if (length > 0 && text[length - 1] != '\0')
        return false;
    kiln__text_append_bytes(&out->bytes, bytes, length);
    for (size_t i = 0; i < length; i++)
        out->count += text[i] == '\0';
    return !out->bytes.failed;
}
