/* Types of array elements and of numbers: one table. Pure. */
#ifndef KILN_LANG_DTYPE_H
#define KILN_LANG_DTYPE_H

#include "lang/word.h"
#include <stdint.h>

/* X(enumerator, name, other names, bytes, kind, and of a binary format the bits of the fraction and the least and the
 * largest exponent of a normal number). The dtypes of specs come first, then the types that only arguments have. */
#define KILN__DTYPES(X)                               \
    X(F32, "f32", "float", 4, REAL, 23, -126, 127)    \
    X(F64, "f64", "double", 8, REAL, 52, -1022, 1023) \
    X(F16, "f16", "", 2, REAL, 10, -14, 15)           \
    X(BF16, "bf16", "", 2, REAL, 7, -126, 127)        \
    X(F8E4M3, "f8e4m3", "", 1, REAL, 3, -6, 8)        \
    X(F8E5M2, "f8e5m2", "", 1, REAL, 2, -14, 15)      \
    X(I8, "i8", "int8", 1, SIGNED, 0, 0, 0)           \
    X(I16, "i16", "int16", 2, SIGNED, 0, 0, 0)        \
    X(I32, "i32", "int32 int", 4, SIGNED, 0, 0, 0)    \
    X(I64, "i64", "int64", 8, SIGNED, 0, 0, 0)        \
    X(U8, "u8", "uint8", 1, UNSIGNED, 0, 0, 0)        \
    X(BOOL, "bool", "", 1, TRUTH, 0, 0, 0)            \
    X(U16, "u16", "uint16", 2, UNSIGNED, 0, 0, 0)     \
    X(U32, "u32", "uint32", 4, UNSIGNED, 0, 0, 0)     \
    X(U64, "u64", "uint64", 8, UNSIGNED, 0, 0, 0)     \
    X(RESULT, "otype", "", 0, OPEN, 0, 0, 0)          \
    X(INPUT, "itype", "", 0, OPEN, 0, 0, 0)

typedef enum kiln__dtype {
    KILN__DTYPE_UNSET = 0, /* "dtype" as the type of an argument: the spec's */
#define KILN__DTYPE_ENUM(id, name, other, bytes, kind, fraction, least, most) KILN__DTYPE_##id,
    KILN__DTYPES(KILN__DTYPE_ENUM)
#undef KILN__DTYPE_ENUM
        KILN__DTYPE_END,
    KILN__DTYPE_SPECS_END = KILN__DTYPE_U16
} kiln__dtype;

/* Whether its values are real numbers, in a binary format. */
bool kiln__dtype_is_real(kiln__dtype dtype);

/* Whether its whole numbers have a sign. */
bool kiln__dtype_is_signed(kiln__dtype dtype);

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

/* Element number i of an array; a whole number beyond 2^53 is rounded. */
double kiln__dtype_value(const void *array, uint64_t i, kiln__dtype dtype);

/* The unit in the last place of a value, 1 for whole numbers: the distance of neighbours in its binade, of zero and
 * subnormal values that of subnormal values, and beyond the largest number that of the last binade. */
double kiln__dtype_unit(double value, kiln__dtype dtype);

double kiln__dtype_largest(kiln__dtype dtype); /* finite real value */

/* The type that two arrays of a binary operation are converted to: torch.promote_types. PyTorch has no such type for f8
 * beside another; here it is the other real type, else f32. Of KILN__DTYPE_UNSET and a type it is that type. */
kiln__dtype kiln__dtype_promote(kiln__dtype a, kiln__dtype b);

/* The same of any number of arrays, in any order; KILN__DTYPE_UNSET of none. */
kiln__dtype kiln__dtype_promote_all(const kiln__dtype *types, uint32_t count);

/* Whether each number of one type is a number of the other, which is real or as kiln__dtype_promote gives it. */
bool kiln__dtype_holds(kiln__dtype dtype, kiln__dtype other);

/* A value as a number of a type: of a real one the nearest, of a narrow one by way of float; of whole numbers modulo
 * 2^bits, if it is a whole number of 64 bits itself. */
double kiln__dtype_round(double value, kiln__dtype dtype);

/* A number of one type as one of another. */
static inline double kiln__dtype_convert(double value, kiln__dtype from, kiln__dtype to)
{
    return kiln__dtype_holds(to, from) ? value : kiln__dtype_round(value, to);
}

/* In units of the last place of `want`; 0 where both are NaN, infinity where one is. Beyond the largest number there is
 * only infinity, in f8e4m3 NaN. */
double kiln__dtype_distance(double got, double want, kiln__dtype dtype);

#endif
