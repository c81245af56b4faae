#include "base/keyline.h"

#include <string.h>

/* The form is what stands before the version. */
static bool is_other(const char *text, size_t length, const char *line)
{
    size_t form = strcspn(line, " ") + 1, whole = strlen(line);
    return length >= whole && memcmp(text, line, form) == 0 && memcmp(text, line, whole) != 0;
}

bool kiln__keyline_is_other(const char *text, size_t length)
{
    return is_other(text, length, KILN__KEYLINE_KERNEL) || is_other(text, length, KILN__KEYLINE_SOURCE) ||
           is_other(text, length, KILN__KEYLINE_READS) || is_other(text, length, KILN__KEYLINE_TOOLCHAIN);
}
