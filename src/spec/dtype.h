/* Types of array elements and of numbers: one table. Pure. */
#ifndef KILN_SPEC_DTYPE_H
#define KILN_SPEC_DTYPE_H

#include "lang/word.h"
#include <stdint.h>

/* X(enumerator, name, other name or "", bytes, and of a binary format the bits of the fraction and the least and the
 * largest exponent of a normal number). The dtypes of specs come first, then the types that only arguments have. */
#define KILN__DTYPES(X)                         \
    X(F32, "f32", "float", 4, 23, -126, 127)    \
    X(F64, "f64", "double", 8, 52, -1022, 1023) \
    X(F16, "f16", "", 2, 10, -14, 15)           \
    X(BF16, "bf16", "", 2, 7, -126, 127)        \
    X(INT8, "int8", "", 1, 0, 0, 0)             \
    X(UINT8, "uint8", "", 1, 0, 0, 0)           \
    X(INT16, "int16", "", 2, 0, 0, 0)           \
    X(UINT16, "uint16", "", 2, 0, 0, 0)         \
    X(INT32, "int32", "int", 4, 0, 0, 0)        \
    X(UINT32, "uint32", "", 4, 0, 0, 0)         \
    X(INT64, "int64", "", 8, 0, 0, 0)           \
    X(UINT64, "uint64", "", 8, 0, 0, 0)

typedef enum kiln__dtype {
    KILN__DTYPE_UNSET = 0, /* "dtype" as the type of an argument: the spec's */
#define KILN__DTYPE_ENUM(id, name, other, bytes, fraction, least, most) KILN__DTYPE_##id,
    KILN__DTYPES(KILN__DTYPE_ENUM)
#undef KILN__DTYPE_ENUM
        KILN__DTYPE_END,
    KILN__DTYPE_SPECS_END = KILN__DTYPE_INT8
} kiln__dtype;

/* The dtype of a spec by its name; KILN__DTYPE_UNSET for an unknown one. */
kiln__dtype kiln__dtype_parse(const char *name, size_t length);

/* The meaning elsewhere of a name that is unknown here: "fp32", "float", "HALF", "F32"; KILN__DTYPE_UNSET if none. */
kiln__dtype kiln__dtype_guess(kiln__word name);

/* The type of an argument by either of its names, or "dtype". False for an unknown one. */
bool kiln__dtype_find(kiln__word name, kiln__dtype *out);

/* For kiln__word_hint: the names of all types of arguments, and of the dtypes of specs. */
const char *kiln__dtype_type_at(const void *data, size_t i);
const char *kiln__dtype_name_at(const void *data, size_t i);

const char *kiln__dtype_name(kiln__dtype dtype);  /* "f32" */
const char *kiln__dtype_macro(kiln__dtype dtype); /* "F32" */
unsigned kiln__dtype_bytes(kiln__dtype dtype);

/* Element number i of an array of a dtype of specs. */
double kiln__dtype_value(const void *array, uint64_t i, kiln__dtype dtype);

/* The unit in the last place of a value: the distance of neighbours in its binade, of zero and subnormal values that of
 * subnormal values, and beyond the largest number that of the last binade. */
double kiln__dtype_unit(double value, kiln__dtype dtype);

double kiln__dtype_largest(kiln__dtype dtype); /* finite value */

/* In units of the last place of `want`; 0 where both are NaN, infinity where one is. Beyond the largest number there is
 * only infinity. */
double kiln__dtype_distance(double got, double want, kiln__dtype dtype);

#endif
