#include "template/dtype.h"
#include <string.h>

static const struct {
    const char *name, *macro;
    unsigned bytes;
} dtypes[KILN__DTYPE_END] = { [KILN__DTYPE_UNSET] = { "", "", 0 },
#define ROW(id, name, bytes) [KILN__DTYPE_##id] = { name, #id, bytes },
                              KILN__DTYPE_MAP(ROW)
#undef ROW
};

kiln__dtype kiln__dtype_parse(const char *name, size_t length)
{
    for (int i = KILN__DTYPE_UNSET + 1; i < KILN__DTYPE_END; i++)
        if (strlen(dtypes[i].name) == length && memcmp(dtypes[i].name, name, length) == 0)
            return (kiln__dtype)i;
    return KILN__DTYPE_UNSET;
}

const char *kiln__dtype_name(kiln__dtype dtype)
{
    return dtypes[dtype].name;
}

const char *kiln__dtype_macro(kiln__dtype dtype)
{
    return dtypes[dtype].macro;
}

unsigned kiln__dtype_bytes(kiln__dtype dtype)
{
    return dtypes[dtype].bytes;
}
