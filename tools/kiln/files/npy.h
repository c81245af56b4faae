/* .npy files of one array: reads either memory order and byte order, writes C order, little endian. Also the element
 * types that they can have. */
#ifndef KILN_TOOLS_NPY_H
#define KILN_TOOLS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of an argument of a kernel. */
typedef struct dtype {
    const char *name;  /* "f32" */
    const char *descr; /* "<f4", how .npy calls it in little-endian order */
    uint32_t size;
    bool of_specs; /* a spec's dtype can be it */
} dtype;

/* By Kiln's name, or NULL. */
const dtype *dtype_named(const char *name);

/* The type of a little-endian descr, or NULL. "<u2" is u16 and "|u1" u8: the bits of bf16 and f8 have no descr of
 * their type. */
const dtype *dtype_of_descr(const char *descr);

enum { NPY_MOST_DIMENSIONS = 64 };

typedef struct npy_array {
    const char *path; /* borrowed */
    int fd;
    char descr[4];            /* of a type in the table, little endian whatever the file has */
    bool big_endian, fortran; /* the file's data, and only where that differs from little endian and from C order */
    uint32_t element_size;
    uint32_t dimensions;
    uint64_t shape[NPY_MOST_DIMENSIONS];
    uint64_t elements;
    uint64_t bytes;
} npy_array;

/* Opens a file, reads its header and checks everything that can be checked before the data: form, element type, size of
 * the file. Returns STATUS_DONE, or STATUS_USAGE after a message that names the file. npy_close is
 * right after either. */
int npy_open(npy_array *out, const char *path);

/* Reads the array's bytes into `data`, which has room for them, in C order, little endian; nothing may follow in the
 * file. Once only. An array in Fortran order takes memory for a second copy while it is read. Returns STATUS_DONE,
 * STATUS_USAGE after a message, or STATUS_FAILED after one when out of memory. */
int npy_read(npy_array *array, void *data);
void npy_close(npy_array *array);

bool npy_same_shape(const npy_array *a, const npy_array *b);

/* ">f4", as the file has it. */
char *npy_descr_text(const npy_array *array);

/* "(3, 4)", as Python writes it. */
char *npy_shape_text(const npy_array *array);

/* Makes the bytes that stand in a file before the data of such an array in C order, little endian; returns how many. */
size_t npy_header(char **out, const npy_array *array);

/* Reads a header's dictionary, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", into the element type,
 * the orders and the shape of *out, whose path is used in messages. Returns STATUS_DONE, or STATUS_USAGE after a
 * message. */
int npy_parse_header(npy_array *out, const char *text, size_t length);

#endif
