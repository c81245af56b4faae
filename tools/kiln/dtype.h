/* The data types of arrays, their .npy names, and their values bit by bit. */
#ifndef KILN_TOOLS_DTYPE_H
#define KILN_TOOLS_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dtype {
    const char *name;  /* "f32" */
    const char *descr; /* "<f4", how .npy calls it */
    uint32_t size;
    uint32_t mantissa; /* bits of it */
} dtype;

/* By Kiln's name, or NULL. */
const dtype *dtype_named(const char *name);

/* The floating-point type of a .npy descr, or NULL; "<u2" has none, it is bf16 only where that is named. */
const dtype *dtype_of_descr(const char *descr);

/* "f32, f64, f16 or bf16" for messages. */
const char *dtype_names(void);

/* The bits of element i of an array. */
uint64_t dtype_bits(const dtype *type, const void *array, uint64_t i);
bool dtype_is_nan(const dtype *type, uint64_t bits);

/* The value of those bits. */
double dtype_value(const dtype *type, uint64_t bits);

/* The nearest bits, ties to even. */
uint64_t dtype_round(const dtype *type, double value);

#endif
