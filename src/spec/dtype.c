#include "spec/dtype.h"
#include <string.h>
#include <strings.h>

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

kiln__dtype kiln__dtype_guess(const char *name, size_t length)
{
    static const struct {
        const char *name;
        kiln__dtype dtype;
    } others[] = {
        { "fp32", KILN__DTYPE_F32 },    { "float32", KILN__DTYPE_F32 }, { "float", KILN__DTYPE_F32 },
        { "single", KILN__DTYPE_F32 },  { "fp64", KILN__DTYPE_F64 },    { "float64", KILN__DTYPE_F64 },
        { "double", KILN__DTYPE_F64 },  { "fp16", KILN__DTYPE_F16 },    { "float16", KILN__DTYPE_F16 },
        { "half", KILN__DTYPE_F16 },    { "__half", KILN__DTYPE_F16 },  { "bfloat16", KILN__DTYPE_BF16 },
        { "bfloat", KILN__DTYPE_BF16 }, { "bfp16", KILN__DTYPE_BF16 },  { "__nv_bfloat16", KILN__DTYPE_BF16 },
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strlen(others[i].name) == length && strncasecmp(others[i].name, name, length) == 0)
            return others[i].dtype;
    for (int i = KILN__DTYPE_UNSET + 1; i < KILN__DTYPE_END; i++)
        if (strlen(dtypes[i].name) == length && strncasecmp(dtypes[i].name, name, length) == 0)
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
