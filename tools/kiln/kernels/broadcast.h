/* The common shape of arrays that broadcast, by NumPy's and PyTorch's rules. */
#ifndef KILN_TOOLS_BROADCAST_H
#define KILN_TOOLS_BROADCAST_H

#include "files/npy.h"
#include <kiln/kiln.h>

enum { BROADCAST_ARRAYS = 8 };

typedef struct broadcast {
    uint32_t dimensions;
    uint64_t shape[NPY_MOST_DIMENSIONS];
    uint64_t rows, cols,
        inner;          /* of a kernel that takes the arrays so; inner is 1 but where dimensions follow the axis */
    bool full;          /* every array has all elements, though not all have the same shape */
    bool expands;       /* the arrays broadcast along more than rows and columns: broadcast_expand makes them full */
    const char *layout; /* "(full,row)", the word of each array */
    uint32_t axis, axis_end; /* of an op that reduces: its first dimension, and the one behind its last */
} broadcast;

/* Finds the common shape, and the fewest dimensions in which the arrays have all or one of its elements. Returns
 * STATUS_DONE, or after a message STATUS_USAGE: the shapes do not go together; or STATUS_FAILED: no memory holds the
 * common shape. */
int broadcast_find(broadcast *out, npy_array *const *arrays, size_t count);

/* The same for an op that reduces the dimensions of `axis`, "-1", "(1,2)" or "all", and "" for the last one: these are
 * the columns of rows. `columns` says which arrays the op takes as a column. One that lacks the axis gets the extent 1
 * there. */
int broadcast_find_rows(broadcast *out, npy_array *const *arrays, const bool *columns, size_t count, const char *axis);

/* The bytes of the elements of an array, as the common shape repeats them; of a column not along the axis. */
uint64_t broadcast_expanded(const broadcast *common, const npy_array *array, bool is_column);

/* Writes these elements. */
void broadcast_expand(const broadcast *common, const npy_array *array, bool is_column, const void *from, void *to);

#endif
