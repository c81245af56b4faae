#include "text/sizes.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "text/format.h"

static bool add_size(size_list *out, uint64_t size)
{
    if (out->count == SIZES_MAX)
        return false;
    out->items[out->count++] = size;
    return true;
}

static bool add_range(size_list *out, uint64_t low, uint64_t high, uint64_t factor)
{
    if (low > high || factor < 2)
        return false;
    for (uint64_t size = low; size <= high; size *= factor) {
        if (!add_size(out, size))
            return false;
        if (size > high / factor)
            break;
    }
    return true;
}

/* One item of the list; it is cut into its parts. */
static bool add_item(size_list *out, char *item)
{
    uint64_t low, high, factor = 2;
    char *dots = strstr(item, ".."), *star = strchr(item, '*');
    if (!dots)
        return parse_size(&low, item) && add_size(out, low);
    *dots = '\0';
    if (star && star < dots)
        return false;
    if (star)
        *star = '\0';
    if (star && !parse_size(&factor, star + 1))
        return false;
    return parse_size(&low, item) && parse_size(&high, dots + 2) && add_range(out, low, high, factor);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void drop_doubles(size_list *list)
{
    size_t kept = 1;
    for (size_t i = 1; i < list->count; i++)
        if (list->items[i] != list->items[kept - 1])
            list->items[kept++] = list->items[i];
    list->count = kept;
}

bool sizes_parse(size_list *out, const char *text)
{
    char *copy = need_copy(text), *rest = copy, *item;
    bool right = true;
    out->count = 0;
    while (right && (item = strsep(&rest, ",")))
        right = add_item(out, item);
    free(copy);
    if (!right)
        return false;
    qsort(out->items, out->count, sizeof(out->items[0]), compare);
    drop_doubles(out);
    return true;
}
