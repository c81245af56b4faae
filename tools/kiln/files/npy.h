/* .npy files: C order, little endian, one array; and the element types that they can have. */
#ifndef KILN_TOOLS_NPY_H
#define KILN_TOOLS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of an argument of a kernel. */
typedef struct dtype {
    const char *name;  /* "f32" */
    const char *descr; /* "<f4", how .npy calls it */
    uint32_t size;
    bool of_specs; /* a spec's dtype can be it */
} dtype;

/* By Kiln's name, or NULL. */
const dtype *dtype_named(const char *name);

/* The type of a .npy descr, or NULL. "<u2" is u16 and "|u1" u8: the bits of bf16 and f8 have no descr of their type. */
const dtype *dtype_of_descr(const char *descr);

enum { NPY_MOST_DIMENSIONS = 64 };

typedef struct npy_array {
    const char *path; /* borrowed */
    int fd;
    char descr[4]; /* of a type in the table */
    uint32_t element_size;
    uint32_t dimensions;
    uint64_t shape[NPY_MOST_DIMENSIONS];
    uint64_t elements;
    uint64_t bytes;
} npy_array;

/* Opens a file, reads its header and checks everything that can be checked before the data: form, element type,
 * order, size of the file. Returns STATUS_DONE, or STATUS_USAGE after a message that names the file. npy_close is
 * right after either. */
int npy_open(npy_array *out, const char *path);

/* Reads the array's bytes into `data`, which has room for them; nothing may follow in the file. Once only.
 * Returns STATUS_DONE, or STATUS_USAGE after a message. */
int npy_read(npy_array *array, void *data);
void npy_close(npy_array *array);

bool npy_same_shape(const npy_array *a, const npy_array *b);

/* "(3, 4)", as Python writes it. */
char *npy_shape_text(const npy_array *array);

/* Makes the bytes that stand before the data of such an array in a file; returns how many. */
size_t npy_header(char **out, const npy_array *array);

/* Reads a header's dictionary, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", into the element type
 * and the shape of *out, whose path is used in messages. Returns STATUS_DONE, or STATUS_USAGE after a message. */
int npy_parse_header(npy_array *out, const char *text, size_t length);

#endif
