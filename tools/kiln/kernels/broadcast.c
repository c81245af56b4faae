#include "kernels/broadcast.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "text/format.h"

/* The extent of dimension d of the common shape, which has so many; 1 where an array has fewer. */
static uint64_t extent_of(const npy_array *array, uint32_t d, uint32_t dimensions)
{
    uint32_t missing = dimensions - array->dimensions;
    return d < missing ? 1 : array->shape[d - missing];
}

static void count_dimensions(broadcast *out, npy_array *const *arrays, size_t count)
{
    out->dimensions = 0;
    for (size_t i = 0; i < count; i++)
        if (arrays[i]->dimensions > out->dimensions)
            out->dimensions = arrays[i]->dimensions;
}

static int find_shape(broadcast *out, npy_array *const *arrays, size_t count)
{
    for (uint32_t d = 0; d < out->dimensions; d++) {
        const npy_array *other = NULL; /* whose extent is not 1 */
        for (size_t i = 0; i < count; i++) {
            if (extent_of(arrays[i], d, out->dimensions) == 1)
                continue;
            if (other && extent_of(other, d, out->dimensions) != extent_of(arrays[i], d, out->dimensions))
                return fail(STATUS_USAGE, "%s: shape %s does not broadcast with %s of %s: an extent must be equal or 1",
                            arrays[i]->path, npy_shape_text(arrays[i]), npy_shape_text(other), other->path);
            other = other ? other : arrays[i];
        }
        out->shape[d] = other ? extent_of(other, d, out->dimensions) : 1;
    }
    return STATUS_DONE;
}

static const char *layout_of(bool rows, bool cols)
{
    return rows && cols ? "full" : cols ? "row" : rows ? "column" : "one";
}

static int count_elements(const broadcast *common, uint64_t *out)
{
    *out = 1;
    for (uint32_t d = 0; d < common->dimensions; d++)
        if (__builtin_mul_overflow(*out, common->shape[d], out) || *out > INT64_MAX / 8)
            return fail(STATUS_FAILED, "the result is larger than any memory");
    return STATUS_DONE;
}

/* Neighbouring dimensions are one where the same arrays have them. */
int broadcast_find(broadcast *out, npy_array *const *arrays, size_t count)
{
    uint64_t elements = 0, extents[2] = { 1, 1 };
    bool has[2][BROADCAST_ARRAYS] = { { false } };
    count_dimensions(out, arrays, count);
    int groups = 0, status = find_shape(out, arrays, count);
    if (!status)
        status = count_elements(out, &elements);
    out->full = true;
    out->expands = false;
    for (uint32_t d = 0; d < out->dimensions && !status && !out->expands; d++) {
        bool own[BROADCAST_ARRAYS] = { false };
        if (out->shape[d] == 1)
            continue;
        for (size_t i = 0; i < count; i++)
            own[i] = extent_of(arrays[i], d, out->dimensions) != 1;
        bool merges = groups > 0 && memcmp(own, has[groups - 1], sizeof(own)) == 0;
        out->expands = !merges && groups == 2;
        groups += !merges && groups < 2;
        memcpy(has[groups - 1], own, sizeof(own));
        extents[groups - 1] *= out->shape[d];
    }
    bool one_group = groups < 2;
    char *layout = need_copy("");
    out->rows = one_group ? 1 : extents[0];
    out->cols = one_group ? extents[0] : extents[1];
    out->inner = 1;
    if (out->expands) {
        out->rows = 1;
        out->cols = elements;
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        bool all = has[0][i] || groups == 0;
        const char *word = one_group ? layout_of(all, all) : layout_of(has[0][i], has[1][i]);
        out->full = out->full && strcmp(word, "full") == 0;
        text_append(&layout, ",", "%s", word);
    }
    out->layout = need_format("(%s)", layout);
    return status;
}

/* Finds the dimensions of an axis, as the library has checked its text. */
static int find_axis(broadcast *common, const char *axis)
{
    const int count = common->dimensions > 0 ? (int)common->dimensions : 1;
    const char *end = strrchr(axis, ',');
    long from = *axis ? strtol(axis + (*axis == '('), NULL, 10) : -1, to = end ? strtol(end + 1, NULL, 10) : from;
    common->axis = 0;
    common->axis_end = common->dimensions;
    if (strcmp(axis, "all") == 0)
        return STATUS_DONE;
    from += from < 0 ? count : 0;
    to += to < 0 ? count : 0;
    if (from < 0 || to >= count)
        return fail(STATUS_USAGE, "axis=%s is none of the %u dimensions of the inputs", axis, common->dimensions);
    common->axis = (uint32_t)from;
    common->axis_end = common->dimensions > 0 ? (uint32_t)to + 1 : 0;
    return STATUS_DONE;
}

static bool in_axis(const broadcast *common, uint32_t d)
{
    return d >= common->axis && d < common->axis_end;
}

/* Whether an array of an op that reduces is a column. Else it is refused later where the op takes it as one. */
static bool lies_as_column(const broadcast *common, const npy_array *array, bool is_column)
{
    bool one = is_column;
    for (uint32_t d = common->axis; d < common->axis_end; d++)
        one = one && extent_of(array, d, common->dimensions) == 1;
    return one;
}

/* Whether an array has the shape of another one, `of`, without the axis. */
static bool lacks_axis(const broadcast *common, const npy_array *array, const npy_array *of)
{
    const uint32_t along = common->axis_end - common->axis;
    if (of->dimensions != common->dimensions || array->dimensions + along != common->dimensions)
        return false;
    for (uint32_t d = 0, next = 0; d < common->dimensions; d++)
        if (!in_axis(common, d) && array->shape[next++] != of->shape[d])
            return false;
    return true;
}

/* Gives a column that lacks the axis the extent 1 there. */
static void settle_column(const broadcast *common, npy_array *column, npy_array *const *arrays, const bool *columns,
                          size_t count)
{
    const uint32_t along = common->axis_end - common->axis;
    bool lacks = false;
    for (size_t i = 0; i < count; i++)
        lacks = lacks || (!columns[i] && lacks_axis(common, column, arrays[i]));
    for (uint32_t d = common->dimensions; lacks && d-- > common->axis;)
        column->shape[d] = d < common->axis_end ? 1 : column->shape[d - along];
    column->dimensions = lacks ? common->dimensions : column->dimensions;
}

/* The word of an array; NULL where it has a part of the axis, or of the other dimensions. */
static const char *word_of(const broadcast *common, const npy_array *array, bool is_column)
{
    bool one[2] = { true, true }, all[2] = { true, true };
    for (uint32_t d = 0; d < common->dimensions; d++) {
        const int part = in_axis(common, d);
        const uint64_t extent = extent_of(array, d, common->dimensions);
        one[part] = one[part] && extent == 1;
        all[part] = all[part] && extent == common->shape[d];
    }
    const bool has_axis = all[1] && !(one[1] && is_column);
    return (one[0] || all[0]) && (one[1] || all[1]) ? layout_of(all[0], has_axis) : NULL;
}

int broadcast_find_rows(broadcast *out, npy_array *const *arrays, const bool *columns, size_t count, const char *axis)
{
    uint64_t elements = 0;
    count_dimensions(out, arrays, count);
    int status = find_axis(out, axis);
    for (size_t i = 0; i < count && !status; i++)
        if (columns[i])
            settle_column(out, arrays[i], arrays, columns, count);
    if (!status)
        status = find_shape(out, arrays, count);
    if (!status)
        status = count_elements(out, &elements);
    if (status)
        return status;
    out->rows = out->cols = out->inner = 1;
    for (uint32_t d = 0; d < out->dimensions; d++)
        *(d < out->axis ? &out->rows : d < out->axis_end ? &out->cols : &out->inner) *= out->shape[d];
    for (size_t i = 0; i < count; i++)
        out->expands = out->expands || !word_of(out, arrays[i], columns[i]);
    char *layout = need_copy("");
    for (size_t i = 0; i < count; i++)
        text_append(&layout, ",", "%s",
                    !out->expands                                ? word_of(out, arrays[i], columns[i])
                    : lies_as_column(out, arrays[i], columns[i]) ? "column"
                                                                 : "full");
    out->layout = need_format("(%s)", layout);
    return STATUS_DONE;
}

typedef struct expanding {
    const broadcast *common;
    const npy_array *array;
    bool is_column;
} expanding;

/* The extent to which dimension d is repeated. */
static uint64_t repeated_extent(const expanding *e, uint32_t d)
{
    return e->is_column && in_axis(e->common, d) ? 1 : e->common->shape[d];
}

/* The bytes of what stands behind dimension d, in the array or as it is repeated. */
static uint64_t block_bytes(const expanding *e, uint32_t d, bool repeated)
{
    uint64_t bytes = e->array->element_size;
    for (uint32_t i = d + 1; i < e->common->dimensions; i++)
        bytes *= repeated ? repeated_extent(e, i) : extent_of(e->array, i, e->common->dimensions);
    return bytes;
}

/* Dimension d and all behind it. Elements that an array has once are written once and then copied. */
static void expand_from(const expanding *e, uint32_t d, const char *from, char *to)
{
    if (d == e->common->dimensions) {
        memcpy(to, from, e->array->element_size);
        return;
    }
    uint64_t own = extent_of(e->array, d, e->common->dimensions), step = block_bytes(e, d, true);
    const uint64_t all = repeated_extent(e, d);
    for (uint64_t i = 0; i < own && all > 0; i++)
        expand_from(e, d + 1, from + i * block_bytes(e, d, false), to + i * step);
    for (uint64_t i = own; i < all; i++)
        memcpy(to + i * step, to, step);
}

uint64_t broadcast_expanded(const broadcast *common, const npy_array *array, bool is_column)
{
    const uint64_t cols = lies_as_column(common, array, is_column) ? 1 : common->cols;
    return common->rows * cols * common->inner * array->element_size;
}

void broadcast_expand(const broadcast *common, const npy_array *array, bool is_column, const void *from, void *to)
{
    const expanding e = { common, array, lies_as_column(common, array, is_column) };
    expand_from(&e, 0, from, to);
}
