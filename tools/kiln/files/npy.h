/* .npy files: C order, little endian, one array. */
#ifndef KILN_TOOLS_NPY_H
#define KILN_TOOLS_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NPY_MOST_DIMENSIONS = 64 };

typedef struct npy_array {
    const char *path; /* borrowed */
    int fd;
    char descr[4]; /* "<f4", "<f8", "<f2" or "<u2" */
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

/* "(3, 4)", as Python writes it. The caller frees it. */
char *npy_shape_text(const npy_array *array);

/* The bytes that stand before the data of such an array in a file: *out is freed by the caller. */
size_t npy_header(char **out, const npy_array *array);

#endif
