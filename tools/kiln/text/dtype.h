/* The data types of arrays and their .npy names. */
#ifndef KILN_TOOLS_DTYPE_H
#define KILN_TOOLS_DTYPE_H

#include <stddef.h>
#include <stdint.h>

typedef struct dtype {
    const char *name;  /* "f32" */
    const char *descr; /* "<f4", how .npy calls it */
    uint32_t size;
} dtype;

/* By Kiln's name, or NULL. */
const dtype *dtype_named(const char *name);

/* The floating-point type of a .npy descr, or NULL; "<u2" has none, it is bf16 only where that is named. */
const dtype *dtype_of_descr(const char *descr);

/* "f32, f64, f16 or bf16" for messages. */
const char *dtype_names(void);

#endif
