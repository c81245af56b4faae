/* Data types of array elements. */
#ifndef KILN_SPEC_DTYPE_H
#define KILN_SPEC_DTYPE_H

#include <stddef.h>

/* X(enumerator, name, bytes) */
#define KILN__DTYPE_MAP(X) X(F32, "f32", 4) X(F64, "f64", 8) X(F16, "f16", 2) X(BF16, "bf16", 2)

typedef enum kiln__dtype {
    KILN__DTYPE_UNSET = 0,
#define KILN__DTYPE_ENUM(id, name, bytes) KILN__DTYPE_##id,
    KILN__DTYPE_MAP(KILN__DTYPE_ENUM)
#undef KILN__DTYPE_ENUM
        KILN__DTYPE_END
} kiln__dtype;

/* KILN__DTYPE_UNSET for an unknown name. */
kiln__dtype kiln__dtype_parse(const char *name, size_t length);

/* What a name that is unknown here means elsewhere: "fp32", "float", "HALF", "F32"; KILN__DTYPE_UNSET if nothing. */
kiln__dtype kiln__dtype_guess(const char *name, size_t length);
const char *kiln__dtype_name(kiln__dtype dtype);  /* "f32" */
const char *kiln__dtype_macro(kiln__dtype dtype); /* "F32" */
unsigned kiln__dtype_bytes(kiln__dtype dtype);

#endif
