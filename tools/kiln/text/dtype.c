#include "text/dtype.h"

#include <string.h>

static const dtype types[] = {
    { "f32", "<f4", 4 },
    { "f64", "<f8", 8 },
    { "f16", "<f2", 2 },
    { "bf16", "<u2", 2 },
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

const dtype *dtype_named(const char *name)
{
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const dtype *dtype_of_descr(const char *descr)
{
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].descr, descr) == 0 && descr[1] == 'f')
            return &types[i];
    return NULL;
}

const char *dtype_names(void)
{
    return "f32, f64, f16 or bf16";
}
