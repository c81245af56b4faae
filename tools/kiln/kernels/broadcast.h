/* The common shape of arrays that broadcast, by NumPy's and PyTorch's rules. */
#ifndef KILN_TOOLS_BROADCAST_H
#define KILN_TOOLS_BROADCAST_H

#include "files/npy.h"
#include <kiln/kiln.h>

enum { BROADCAST_ARRAYS = 8 };

typedef struct broadcast {
    uint32_t dimensions;
    uint64_t shape[NPY_MOST_DIMENSIONS];
    uint64_t rows, cols; /* of a kernel that takes the arrays so */
    bool full;           /* every array has all elements, though not all have the same shape */
    const char *layout;  /* "(full,row)", the word of each array */
} broadcast;

/* Finds the common shape, and the fewest dimensions in which the arrays have all or one of its elements. Returns
 * STATUS_DONE, or STATUS_USAGE after a message: the shapes do not go together, or the dimensions are more than two. */
int broadcast_find(broadcast *out, const npy_array *const *arrays, size_t count);

#endif
