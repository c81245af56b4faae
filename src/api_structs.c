#include "api_structs.h"

#include <string.h>

static size_t size_of(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof(size));
    return size;
}

static void copy_fields(void *to, const void *from, size_t size)
{
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), size - sizeof(size));
}

kiln_status kiln__hand_out(void *out, const void *full, size_t full_size)
{
    size_t size = size_of(out);
    if (size < sizeof(size))
        return KILN_EINVAL;
    copy_fields(out, full, size < full_size ? size : full_size);
    return KILN_OK;
}

kiln_status kiln__take_in(void *full, size_t full_size, const void *given)
{
    size_t size = given != NULL ? size_of(given) : sizeof(size);
    if (size < sizeof(size))
        return KILN_EINVAL;
    if (given != NULL)
        copy_fields(full, given, size < full_size ? size : full_size);
    return KILN_OK;
}
