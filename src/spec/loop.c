/* From tensors to a loop: dimensions are aligned, sorted by the strides of the first output, and merged. Then the kind
 * of kernel follows from the strides. A launch of tensors begins here, so that nothing is allocated. */
#include "spec/loop.h"

#include "base/report.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FAIL(b, status, ...) kiln__fail((b)->report, status, KILN__STAGE_LAUNCH, 0, __VA_ARGS__)

/* More elements would not fit into any memory, whatever their type is. */
#define COUNT_MAX (INT64_MAX / 8)

/* Launches of an op that reduces for one call: more take longer than to make the inputs contiguous first. */
#define BATCHES_MOST 1024

#define SAME_DTYPE(id) static_assert((int)KILN_##id == (int)KILN__DTYPE_##id, "a dtype has one number")
SAME_DTYPE(F32);
SAME_DTYPE(F64);
SAME_DTYPE(F16);
SAME_DTYPE(BF16);
SAME_DTYPE(F8E4M3);
SAME_DTYPE(F8E5M2);
SAME_DTYPE(I8);
SAME_DTYPE(I16);
SAME_DTYPE(I32);
SAME_DTYPE(I64);
SAME_DTYPE(U8);
SAME_DTYPE(BOOL);
static_assert((int)KILN_BOOL + 1 == (int)KILN__DTYPE_SPECS_END, "tensors have the dtypes of specs");

/* The tensors of a loop that is made. */
typedef struct building {
    kiln__loop *loop;
    const kiln_tensor *tensors[KILN__OPERANDS_MAX];
    unsigned bytes[KILN__OPERANDS_MAX]; /* of an element */
    uint64_t low[KILN__OPERANDS_MAX],
        high[KILN__OPERANDS_MAX]; /* addresses: the first byte, and that behind the last */
    bool placed;
    kiln_report *report;
} building;

/* A name as messages of launches have it. */
typedef struct operand_name {
    char text[8];
} operand_name;

static operand_name name_of(const building *b, uint32_t k)
{
    operand_name name;
    if (k >= b->loop->outputs)
        snprintf(name.text, sizeof(name.text), "%s", kiln__input_names[k - b->loop->outputs]);
    else if (b->loop->outputs == 1)
        snprintf(name.text, sizeof(name.text), "out");
    else
        snprintf(name.text, sizeof(name.text), "out%u", k % KILN__OUTPUTS_MAX);
    return name;
}

/* ---- Tensors one by one */

static kiln_status check_tensor(const building *b, uint32_t k)
{
    const kiln_tensor *tensor = b->tensors[k];
    if (tensor->dtype <= KILN_DTYPE_NONE || tensor->dtype > KILN_BOOL)
        return FAIL(b, KILN_EINVAL, "tensor %s: dtype %d is none of kiln_dtype", name_of(b, k).text,
                    (int)tensor->dtype);
    if (tensor->ndim > KILN_TENSOR_DIMS_MAX)
        return FAIL(b, KILN_EINVAL, "tensor %s has %u dimensions, more than %d", name_of(b, k).text, tensor->ndim,
                    KILN_TENSOR_DIMS_MAX);
    if (tensor->shape == NULL && tensor->ndim > 0)
        return FAIL(b, KILN_EINVAL, "tensor %s has %u dimensions, and its shape is NULL", name_of(b, k).text,
                    tensor->ndim);
    return KILN_OK;
}

static kiln_status check_data(const building *b, uint32_t k)
{
    const kiln_tensor *tensor = b->tensors[k];
    if (tensor->data == NULL)
        return FAIL(b, KILN_EINVAL, "tensor %s: data is NULL", name_of(b, k).text);
    if (((uintptr_t)tensor->data & (b->bytes[k] - 1)) != 0)
        return FAIL(b, KILN_EALIGN, "tensor %s is not aligned to its elements of %u bytes", name_of(b, k).text,
                    b->bytes[k]);
    return KILN_OK;
}

static kiln_status take_tensors(building *b, const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins,
                                size_t in_count)
{
    kiln_status status = KILN_OK;
    b->tensors[0] = outs; /* there is one, whose shape is the loop's */
    b->loop->outputs = (uint32_t)out_count;
    b->loop->operands = (uint32_t)(out_count + in_count);
    for (uint32_t k = 0; k < b->loop->operands && status == KILN_OK; k++) {
        b->tensors[k] = k < out_count ? &outs[k] : &ins[k - out_count];
        b->loop->data[k] = b->tensors[k]->data;
        status = check_tensor(b, k);
        if (status == KILN_OK)
            b->bytes[k] = kiln__dtype_bytes((kiln__dtype)b->tensors[k]->dtype);
    }
    return status;
}

static bool are_few(size_t out_count, size_t in_count)
{
    return out_count >= 1 && out_count <= KILN__OUTPUTS_MAX && in_count <= KILN__INPUTS_MAX;
}

static kiln_status fail_counts(size_t out_count, size_t in_count, kiln_report *report)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0,
                      "%zu outputs and %zu inputs: expected 1 to %d outputs and at most %d inputs", out_count, in_count,
                      KILN__OUTPUTS_MAX, KILN__INPUTS_MAX);
}

/* Neither is cleared: a hit of kiln_apply needs a small part. */
static kiln_status begin(building *b, kiln__loop *loop, const kiln_tensor *outs, size_t out_count,
                         const kiln_tensor *ins, size_t in_count, bool placed, kiln_report *report)
{
    b->loop = loop;
    b->placed = placed;
    b->report = report;
    loop->span = loop->batches = 0;
    loop->ordered = true;
    return take_tensors(b, outs, out_count, ins, in_count);
}

/* ---- Dimensions and their strides */

static kiln_status fail_shape(const building *b, uint32_t k, uint32_t d)
{
    const kiln_tensor *out = b->tensors[0], *tensor = b->tensors[k];
    operand_name name = name_of(b, k), first = name_of(b, 0);
    bool written = k < b->loop->outputs;
    if (d >= tensor->ndim || d >= out->ndim)
        return FAIL(b, KILN_EINVAL, "tensor %s has %u dimension%s, and %s has %u", name.text, tensor->ndim,
                    tensor->ndim == 1 ? "" : "s", first.text, out->ndim);
    return FAIL(b, KILN_EINVAL, "tensor %s: extent %" PRId64 " of dimension %u does not %s the %" PRId64 " of %s",
                name.text, tensor->shape[tensor->ndim - 1 - d], tensor->ndim - 1 - d,
                written ? "equal" : "broadcast to", out->shape[out->ndim - 1 - d], first.text);
}

/* The dimensions of the loop, from the last of the first output to its first, but for those of the extent 1. */
static kiln_status take_shape(building *b)
{
    const kiln_tensor *out = b->tensors[0];
    int64_t count = 1;
    bool is_large = false, is_empty = false;
    b->loop->dims = 0;
    for (uint32_t d = out->ndim; d-- > 0;) {
        int64_t extent = out->shape[d];
        if (extent < 0)
            return FAIL(b, KILN_EINVAL, "tensor %s: extent %" PRId64 " of dimension %u is below 0", name_of(b, 0).text,
                        extent, d);
        is_empty = is_empty || extent == 0;
        is_large = is_large || __builtin_mul_overflow(count, extent, &count) || count > COUNT_MAX;
        if (extent != 1)
            b->loop->extent[b->loop->dims++] = extent;
    }
    if (is_large && !is_empty)
        return FAIL(b, KILN_EINVAL, "tensor %s is larger than any memory", name_of(b, 0).text);
    b->loop->count = is_empty ? 0 : (uint64_t)count;
    return KILN_OK;
}

/* The strides of a tensor along the dimensions of the loop, once its shape is found to fit. A tensor without strides is
 * contiguous in its own shape. */
static kiln_status take_strides(building *b, uint32_t k)
{
    const kiln_tensor *out = b->tensors[0], *tensor = b->tensors[k];
    const int64_t *shape = tensor->shape + tensor->ndim, *of_loop = out->shape + out->ndim;
    int64_t dense = 1, *stride = b->loop->stride[k];
    bool written = k < b->loop->outputs;
    if (tensor->ndim > out->ndim || (written && tensor->ndim < out->ndim))
        return fail_shape(b, k, tensor->ndim < out->ndim ? tensor->ndim : out->ndim);
    for (uint32_t d = 0; d < out->ndim; d++) {
        int64_t whole = *--of_loop, extent = d < tensor->ndim ? *--shape : 1;
        if (extent != whole && (extent != 1 || written))
            return fail_shape(b, k, d);
        if (whole == 1)
            continue;
        *stride++ = extent != whole ? 0 : tensor->strides != NULL ? tensor->strides[tensor->ndim - 1 - d] : dense;
        __builtin_mul_overflow(dense, extent, &dense); /* only an empty loop overflows */
    }
    return KILN_OK;
}

static void swap_dims(kiln__loop *loop, uint32_t i, uint32_t j)
{
    int64_t extent = loop->extent[i];
    loop->extent[i] = loop->extent[j];
    loop->extent[j] = extent;
    for (uint32_t k = 0; k < loop->operands; k++) {
        int64_t stride = loop->stride[k][i];
        loop->stride[k][i] = loop->stride[k][j];
        loop->stride[k][j] = stride;
    }
}

/* By the strides of the first output, so that it is written in order: a permuted contiguous output becomes a contiguous
 * one. Most are sorted already. */
static void sort_dims(kiln__loop *loop)
{
    for (uint32_t i = 1; i < loop->dims; i++)
        for (uint32_t j = i; j > 0 && loop->stride[0][j] < loop->stride[0][j - 1]; j--) {
            swap_dims(loop, j, j - 1);
            loop->ordered = false;
        }
}

/* Whether dimension j goes on where i ends, for every operand. */
static bool continues(const kiln__loop *loop, uint32_t i, uint32_t j)
{
    for (uint32_t k = 0; k < loop->operands; k++) {
        int64_t reach;
        if (__builtin_mul_overflow(loop->stride[k][i], loop->extent[i], &reach) || reach != loop->stride[k][j])
            return false;
    }
    return true;
}

static void merge_dims(kiln__loop *loop)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < loop->dims; i++) {
        if (continues(loop, last, i)) {
            loop->extent[last] *= loop->extent[i];
            continue;
        }
        last++;
        loop->extent[last] = loop->extent[i];
        for (uint32_t k = 0; k < loop->operands && last != i; k++)
            loop->stride[k][last] = loop->stride[k][i];
    }
    loop->dims = loop->dims > 0 ? last + 1 : 0;
}

static kiln_status find_dims(building *b)
{
    kiln_status status = take_shape(b);
    for (uint32_t k = 0; k < b->loop->operands && status == KILN_OK; k++)
        status = take_strides(b, k);
    if (status != KILN_OK || b->loop->count == 0) {
        b->loop->dims = 0;
        return status;
    }
    sort_dims(b->loop);
    merge_dims(b->loop);
    if (b->loop->dims <= KILN__LOOP_DIMS)
        return KILN_OK;
    return FAIL(b, KILN_EINVAL,
                "these tensors have %u dimensions that do not merge, and a kernel has at most %d: make one of them "
                "contiguous",
                b->loop->dims, KILN__LOOP_DIMS);
}

/* ---- Memory */

/* Finds the addresses of an operand. */
static kiln_status find_range(building *b, uint32_t k)
{
    const int64_t *stride = b->loop->stride[k], *extent = b->loop->extent, bytes = b->bytes[k];
    int64_t low = 0, high = 0, reach = 0;
    bool is_far = false;
    for (uint32_t d = 0; d < b->loop->dims + b->loop->batches; d++) {
        int64_t *end = stride[d] < 0 ? &low : &high;
        is_far = is_far || __builtin_mul_overflow(stride[d], extent[d] - 1, &reach) ||
                 __builtin_add_overflow(*end, reach, end);
    }
    is_far = is_far || low < -COUNT_MAX || high > COUNT_MAX;
    uint64_t address = b->placed ? (uintptr_t)b->loop->data[k] : 0;
    if (!is_far) {
        uint64_t below = (uint64_t)(-low * bytes), above = (uint64_t)(high * bytes) + (uint64_t)bytes;
        is_far = b->placed && (below > address || above > UINT64_MAX - address);
        b->low[k] = address - below;
        b->high[k] = address + above;
        b->loop->span = (uint64_t)(high - low) > b->loop->span ? (uint64_t)(high - low) : b->loop->span;
    }
    if (is_far)
        return FAIL(b, KILN_EINVAL, "tensor %s: its strides reach beyond any memory", name_of(b, k).text);
    return KILN_OK;
}

/* Sorted by stride, each dimension must step over all elements of those before it. */
static bool overlaps_itself(const kiln__loop *loop, uint32_t k)
{
    int64_t stride[KILN__LOOP_DIMS], extent[KILN__LOOP_DIMS], reach = 0;
    for (uint32_t i = 0; i < loop->dims; i++) {
        uint32_t j = i;
        for (; j > 0 && stride[j - 1] > loop->stride[k][i]; j--) {
            stride[j] = stride[j - 1];
            extent[j] = extent[j - 1];
        }
        stride[j] = loop->stride[k][i];
        extent[j] = loop->extent[i];
    }
    for (uint32_t i = 0; i < loop->dims; i++) {
        if (stride[i] <= reach)
            return true;
        reach += stride[i] * (extent[i] - 1); /* find_range has found no overflow */
    }
    return false;
}

static kiln_status check_output(const building *b, uint32_t k)
{
    for (uint32_t d = 0; d < b->loop->dims; d++)
        if (b->loop->stride[k][d] < 0)
            return FAIL(b, KILN_EINVAL, "tensor %s has a stride of %" PRId64 ": only inputs may have one below 0",
                        name_of(b, k).text, b->loop->stride[k][d]);
    if (overlaps_itself(b->loop, k))
        return FAIL(b, KILN_EOVERLAP, "tensor %s is written, and its strides let elements overlap", name_of(b, k).text);
    return KILN_OK;
}

/* Whether two operands have the same elements at the same indices. */
static bool is_same(const building *b, uint32_t i, uint32_t j)
{
    const kiln__loop *loop = b->loop;
    return loop->data[i] == loop->data[j] && b->bytes[i] == b->bytes[j] &&
           memcmp(loop->stride[i], loop->stride[j], (loop->dims + loop->batches) * sizeof(loop->stride[i][0])) == 0;
}

static kiln_status check_overlap(const building *b)
{
    for (uint32_t i = 0; i < b->loop->outputs; i++)
        for (uint32_t j = i + 1; j < b->loop->operands; j++) {
            bool apart = b->low[i] >= b->high[j] || b->low[j] >= b->high[i], written = j < b->loop->outputs;
            if (apart || (!written && is_same(b, i, j)))
                continue;
            return FAIL(b, KILN_EOVERLAP, "tensors %s and %s overlap: %s", name_of(b, i).text, name_of(b, j).text,
                        written ? "outputs must not share memory"
                                : "an output may be an input of the same data and strides, or must be apart");
        }
    return KILN_OK;
}

static kiln_status check_memory(building *b)
{
    kiln_status status = KILN_OK;
    for (uint32_t k = 0; k < b->loop->operands && status == KILN_OK; k++) {
        status = b->placed ? check_data(b, k) : KILN_OK;
        if (status == KILN_OK)
            status = find_range(b, k);
    }
    for (uint32_t k = 0; k < b->loop->outputs && status == KILN_OK; k++)
        status = check_output(b, k);
    return status == KILN_OK && b->placed ? check_overlap(b) : status;
}

/* ---- The kind of kernel */

/* The layout of an operand in rows and columns, KILN__LAYOUT_END where it has none. `row` and `col` are its strides. */
static kiln__layout layout_of(int64_t row, int64_t col, int64_t cols, bool one_row)
{
    if (col == 1 && (one_row || row == cols))
        return KILN__LAYOUT_FULL;
    if (col == 0 && (one_row || row == 0))
        return KILN__LAYOUT_ONE;
    return col == 1 && row == 0 ? KILN__LAYOUT_ROW : col == 0 && row == 1 ? KILN__LAYOUT_COLUMN : KILN__LAYOUT_END;
}

kiln__layout kiln__loop_layout(const kiln__loop *loop, uint32_t k)
{
    int64_t stride = loop->dims > 0 ? loop->stride[k][0] : 1;
    return stride == 1 ? KILN__LAYOUT_UNIT : stride == 0 ? KILN__LAYOUT_SAME : KILN__LAYOUT_ANY;
}

static void set_kind(kiln__loop *out)
{
    bool flat = true, rows = out->dims <= 2;
    for (uint32_t k = 0; k < out->operands && rows; k++) {
        int64_t col = out->dims > 0 ? out->stride[k][0] : 1, row = out->dims > 1 ? out->stride[k][1] : 0;
        out->layouts[k] = layout_of(row, col, out->dims > 0 ? out->extent[0] : 1, out->dims < 2);
        rows = out->layouts[k] != KILN__LAYOUT_END && (k >= out->outputs || out->layouts[k] == KILN__LAYOUT_FULL);
        flat = flat && out->layouts[k] == KILN__LAYOUT_FULL;
    }
    out->kind = !rows ? KILN__LOOP_STRIDED : flat ? KILN__LOOP_FLAT : KILN__LOOP_ROWS;
    for (uint32_t k = 0; k < out->operands && !rows; k++)
        out->layouts[k] = kiln__loop_layout(out, k);
}

enum {
    CROSS_LEAST = 16,       /* extent of either dimension for which a tile pays */
    CROSS_WORDS = 32 * 33,  /* of a tile, for each row of a word's elements */
    CROSS_BYTES = 48 << 10, /* of shared memory, which every GPU gives a block */
    WORD_BYTES = 4
};

/* The dimension along which an input is contiguous that is not so along the innermost one, 0 where there is none. */
static uint32_t find_crossing(const kiln__loop *loop)
{
    if (loop->extent[0] < CROSS_LEAST)
        return 0;
    for (uint32_t k = 0; k < loop->operands; k++)
        for (uint32_t d = 1; d < loop->dims; d++) {
            if (k < loop->outputs && loop->stride[k][0] != 1)
                return 0;
            if (k >= loop->outputs && loop->layouts[k] == KILN__LAYOUT_ANY && loop->stride[k][d] == 1 &&
                loop->extent[d] >= CROSS_LEAST)
                return d;
        }
    return 0;
}

/* Of a tile in the template crossed, whose words have WORD_BYTES at most, as the template requires it. */
static uint32_t tile_bytes(const building *b)
{
    uint32_t largest = 1;
    for (uint32_t k = 0; k < b->loop->operands; k++)
        largest = b->bytes[k] > largest ? b->bytes[k] : largest;
    uint32_t vector = largest < WORD_BYTES ? WORD_BYTES / largest : 1;
    return vector * vector * CROSS_WORDS * largest;
}

/* Inputs that cross go through tiles of shared memory, as many as there is room for. */
static void set_crossing(building *b)
{
    kiln__loop *loop = b->loop;
    uint32_t crossing = find_crossing(loop), bytes = 0;
    if (crossing == 0)
        return;
    const uint32_t tile = tile_bytes(b);
    swap_dims(loop, 1, crossing);
    loop->kind = KILN__LOOP_CROSSED;
    for (uint32_t k = loop->outputs; k < loop->operands; k++)
        if (loop->layouts[k] == KILN__LAYOUT_ANY && loop->stride[k][1] == 1 && bytes + tile <= CROSS_BYTES) {
            loop->layouts[k] = KILN__LAYOUT_CROSS;
            bytes += tile;
        }
}

kiln_status kiln__loop_make(kiln__loop *out, const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins,
                            size_t in_count, bool placed, kiln_report *report)
{
    building b;
    if (!are_few(out_count, in_count))
        return fail_counts(out_count, in_count, report);
    kiln_status status = begin(&b, out, outs, out_count, ins, in_count, placed, report);
    if (status == KILN_OK)
        status = find_dims(&b);
    if (status == KILN_OK && out->count > 0)
        status = check_memory(&b);
    if (status == KILN_OK)
        set_kind(out);
    if (status == KILN_OK && out->kind == KILN__LOOP_STRIDED)
        set_crossing(&b);
    return status;
}

/* ---- Inputs that broadcast, and rows of an op that reduces */

/* The shape to which the inputs broadcast, the first and the last dimension of the axis, and the first dimension of one
 * launch. */
typedef struct reducing {
    int64_t shape[KILN_TENSOR_DIMS_MAX];
    uint32_t ndim, axis[2], first;
    uint32_t columns, lacking; /* inputs that are columns, and those of them that lack the axis, as bits */
} reducing;

static bool is_input(const building *b, uint32_t k, uint32_t inputs)
{
    return (inputs >> (k - b->loop->outputs) & 1) != 0;
}

/* The dimension of an input that is dimension d of the common shape; -1: it has none. */
static int own_dim(const building *b, const reducing *r, uint32_t k, uint32_t d)
{
    const uint32_t missing = r->ndim - b->tensors[k]->ndim;
    if (!is_input(b, k, r->lacking))
        return (int)d - (int)missing;
    return d < r->axis[0] ? (int)d : d <= r->axis[1] ? -1 : (int)(d - missing);
}

static void count_dims(const building *b, reducing *r)
{
    for (uint32_t k = b->loop->outputs; k < b->loop->operands; k++)
        r->ndim = b->tensors[k]->ndim > r->ndim ? b->tensors[k]->ndim : r->ndim;
}

static kiln_status find_common(const building *b, reducing *r)
{
    for (uint32_t d = 0; d < r->ndim; d++)
        r->shape[d] = 1;
    for (uint32_t k = b->loop->outputs; k < b->loop->operands; k++)
        for (uint32_t d = 0; d < r->ndim; d++) {
            const int own = own_dim(b, r, k, d);
            int64_t extent = own < 0 ? 1 : b->tensors[k]->shape[own], *common = &r->shape[d];
            if (extent < 0)
                return FAIL(b, KILN_EINVAL, "tensor %s: extent %" PRId64 " of dimension %d is below 0",
                            name_of(b, k).text, extent, own);
            if (extent != *common && extent != 1 && *common != 1)
                return FAIL(b, KILN_EINVAL,
                            "tensor %s: extent %" PRId64 " of dimension %d does not broadcast with %" PRId64
                            " of the other inputs",
                            name_of(b, k).text, extent, own, *common);
            *common = *common == 1 ? extent : *common;
        }
    return KILN_OK;
}

/* A tensor without dimensions has one element along any axis. */
static kiln_status find_axis(const building *b, reducing *r, const kiln__axis *axis)
{
    const int count = r->ndim > 0 ? (int)r->ndim : 1;
    const int from = axis->first < 0 ? axis->first + count : axis->first,
              to = axis->last < 0 ? axis->last + count : axis->last;
    r->axis[0] = 0;
    r->axis[1] = (uint32_t)count - 1;
    if (axis->all)
        return KILN_OK;
    if (from < 0 || to >= count || from > to)
        return FAIL(b, KILN_EINVAL, "axis %d is none of the %u dimensions of the tensors",
                    from < 0 ? axis->first : axis->last, r->ndim);
    r->axis[0] = (uint32_t)from;
    r->axis[1] = (uint32_t)to;
    return KILN_OK;
}

static bool in_axis(const reducing *r, uint32_t d)
{
    return d >= r->axis[0] && d <= r->axis[1];
}

/* Whether a tensor has the shape of another one, `of`, without the axis. */
static bool lacks_axis(const reducing *r, const kiln_tensor *tensor, const kiln_tensor *of)
{
    uint32_t next = 0;
    if (of->ndim != r->ndim || tensor->ndim + r->axis[1] - r->axis[0] + 1 != r->ndim)
        return false;
    for (uint32_t d = 0; d < r->ndim; d++)
        if (!in_axis(r, d) && tensor->shape[next++] != of->shape[d])
            return false;
    return true;
}

static void find_lacking(const building *b, reducing *r)
{
    const uint32_t first = b->loop->outputs, end = b->loop->operands;
    for (uint32_t k = first; k < end && r->columns != 0; k++)
        for (uint32_t of = first; of < end && is_input(b, k, r->columns); of++)
            if (!is_input(b, of, r->columns) && lacks_axis(r, b->tensors[k], b->tensors[of]))
                r->lacking |= 1u << (k - first);
}

/* `along` is NULL where the op reduces no axis. */
static kiln_status find_shape(const building *b, reducing *r, const kiln__along *along)
{
    count_dims(b, r);
    if (along != NULL) {
        const kiln_status status = find_axis(b, r, &along->axis);
        if (status != KILN_OK)
            return status;
        r->columns = along->columns;
        find_lacking(b, r);
    }
    return find_common(b, r);
}

static bool is_empty(const kiln_tensor *tensor)
{
    for (uint32_t d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] == 0)
            return true;
    return false;
}

/* The stride of an input along dimension d of the common shape. False: it has one element for all of that. */
static bool has_dim(const building *b, const reducing *r, uint32_t k, uint32_t d, int64_t *stride)
{
    const kiln_tensor *tensor = b->tensors[k];
    const int own = own_dim(b, r, k, d);
    *stride = 0;
    if (own < 0 || tensor->shape[own] == 1)
        return false;
    if (tensor->strides != NULL) {
        *stride = tensor->strides[own];
        return true;
    }
    *stride = 1;
    for (uint32_t i = (uint32_t)own + 1; i < tensor->ndim; i++)
        __builtin_mul_overflow(*stride, tensor->shape[i], stride); /* find_range finds what is too far */
    return true;
}

/* How an input lies from a dimension on. */
typedef enum place {
    PLACE_SIMPLE,  /* it has all of the axis or none, all of the others or none, and no gaps */
    PLACE_OF_AXIS, /* it has a part of the axis */
    PLACE_BESIDE,  /* it has a part of the other dimensions */
    PLACE_GAPS
} place;

static place place_of(const building *b, const reducing *r, uint32_t k, uint32_t from, kiln__layout *layout)
{
    bool one[2] = { true, true }, all[2] = { true, true }; /* beside the axis, and along it */
    bool dense = true, empty = is_empty(b->tensors[k]);    /* whose elements are nowhere */
    int64_t stride, step = 1;
    for (uint32_t d = r->ndim; d-- > from;) {
        const bool along = in_axis(r, d), has = has_dim(b, r, k, d, &stride) && (along || empty || stride != 0);
        if (r->shape[d] == 1)
            continue;
        one[along] = one[along] && !has;
        all[along] = all[along] && has;
        dense = dense && (!has || empty || stride == step);
        if (has)
            __builtin_mul_overflow(step, r->shape[d], &step);
    }
    const bool has_axis = all[1] && !(one[1] && is_input(b, k, r->columns));
    *layout = all[0] && has_axis ? KILN__LAYOUT_FULL
              : has_axis         ? KILN__LAYOUT_ROW
              : all[0]           ? KILN__LAYOUT_COLUMN
                                 : KILN__LAYOUT_ONE;
    return !(one[1] || all[1]) ? PLACE_OF_AXIS : !(one[0] || all[0]) ? PLACE_BESIDE : dense ? PLACE_SIMPLE : PLACE_GAPS;
}

static kiln_status fail_place(const building *b, uint32_t k, place at)
{
    if (at == PLACE_GAPS)
        return FAIL(b, KILN_EINVAL,
                    "tensor %s: its elements along the axis and behind it have gaps: make it contiguous",
                    name_of(b, k).text);
    return FAIL(b, KILN_EINVAL, "tensor %s broadcasts along a part of the %s: expand it and make it contiguous",
                name_of(b, k).text, at == PLACE_OF_AXIS ? "axis" : "dimensions behind the axis");
}

/* Finds the first of the dimensions that one launch takes: all from the axis on, and as many before it as may be. Finds
 * the layouts of the inputs there. */
static kiln_status find_first(building *b, reducing *r)
{
    for (r->first = 0;; r->first++) {
        uint32_t k = b->loop->outputs;
        place at = PLACE_SIMPLE;
        for (; k < b->loop->operands && at == PLACE_SIMPLE; k++)
            at = place_of(b, r, k, r->first, &b->loop->layouts[k]);
        if (at == PLACE_SIMPLE)
            return KILN_OK;
        if (r->first == r->axis[0])
            return fail_place(b, k - 1, at);
    }
}

static kiln_status check_contiguous(const building *b, uint32_t k)
{
    const kiln_tensor *tensor = b->tensors[k];
    int64_t dense = 1;
    if (tensor->strides == NULL || is_empty(tensor))
        return KILN_OK;
    for (uint32_t d = tensor->ndim; d-- > 0;) {
        if (tensor->shape[d] != 1 && tensor->strides[d] != dense)
            return FAIL(b, KILN_EINVAL, "tensor %s is written by an op that reduces: make it contiguous",
                        name_of(b, k).text);
        __builtin_mul_overflow(dense, tensor->shape[d], &dense);
    }
    return KILN_OK;
}

/* Whether an output has the shape: without the axis where that is `left_out`, or with 1 there where it is `reduced`. */
static bool has_shape(const kiln_tensor *tensor, const reducing *r, bool reduced, bool left_out)
{
    uint32_t next = 0;
    for (uint32_t d = 0; d < r->ndim; d++) {
        if (in_axis(r, d) && left_out)
            continue;
        if (next == tensor->ndim || tensor->shape[next++] != (in_axis(r, d) && reduced ? 1 : r->shape[d]))
            return false;
    }
    return next == tensor->ndim;
}

static kiln_status place_output(building *b, const reducing *r, uint32_t k)
{
    const kiln_tensor *tensor = b->tensors[k];
    const bool full = has_shape(tensor, r, false, false);
    if (!full && !has_shape(tensor, r, true, true) && !has_shape(tensor, r, true, false))
        return FAIL(b, KILN_EINVAL,
                    "tensor %s has neither the shape of the inputs nor this without the axis, or with 1 there",
                    name_of(b, k).text);
    b->loop->layouts[k] = full ? KILN__LAYOUT_FULL : KILN__LAYOUT_COLUMN;
    return check_contiguous(b, k);
}

/* The dimensions before those of a launch, the innermost first. */
static kiln_status count_batches(building *b, const reducing *r)
{
    kiln__loop *loop = b->loop;
    int64_t launches = 1, step[2]; /* of outputs that lack the axis, and of those that have it */
    step[0] = loop->extent[1] * loop->extent[2];
    step[1] = step[0] * loop->extent[0];
    loop->batches = 0;
    for (uint32_t d = r->first; d-- > 0 && loop->count > 0;) {
        const uint32_t i = loop->dims + loop->batches;
        if (r->shape[d] == 1)
            continue;
        if (r->shape[d] > BATCHES_MOST / launches || i == KILN__LOOP_DIMS)
            return FAIL(b, KILN_EINVAL,
                        "these inputs take a launch for each of more than %d parts before the axis: make them "
                        "contiguous, and of one shape",
                        BATCHES_MOST);
        loop->extent[i] = r->shape[d];
        for (uint32_t k = 0; k < loop->operands; k++)
            if (k < loop->outputs)
                loop->stride[k][i] = step[loop->layouts[k] == KILN__LAYOUT_FULL];
            else
                has_dim(b, r, k, d, &loop->stride[k][i]);
        step[0] *= r->shape[d];
        step[1] *= r->shape[d];
        launches *= r->shape[d];
        loop->batches++;
    }
    return KILN_OK;
}

static kiln_status count_rows(building *b, const reducing *r)
{
    kiln__loop *loop = b->loop;
    int64_t launches = 1, outer = 1, cols = 1, inner = 1, count = 1;
    bool is_large = false;
    for (uint32_t d = 0; d < r->ndim; d++) {
        int64_t *part = d < r->first ? &launches : d < r->axis[0] ? &outer : in_axis(r, d) ? &cols : &inner;
        is_large = __builtin_mul_overflow(*part, r->shape[d], part) || is_large;
        is_large = __builtin_mul_overflow(count, r->shape[d] > 0 ? r->shape[d] : 1, &count) || is_large;
    }
    if (is_large || count > COUNT_MAX)
        return FAIL(b, KILN_EINVAL, "the inputs broadcast to more elements than any memory has");
    loop->dims = inner > 1 ? 3 : 2;
    loop->extent[0] = cols;
    outer = launches == 0 ? 0 : outer;
    loop->extent[1] = inner == 0 ? 0 : outer;
    loop->extent[2] = inner;
    loop->count = (uint64_t)(outer * (cols > 0 ? cols : 1) * inner);
    for (uint32_t k = 0; k < loop->operands; k++) {
        const kiln__layout layout = loop->layouts[k];
        const bool full = layout == KILN__LAYOUT_FULL, along = full || layout == KILN__LAYOUT_ROW,
                   beside = full || layout == KILN__LAYOUT_COLUMN;
        loop->stride[k][0] = !along ? 0 : full ? inner : 1;
        loop->stride[k][1] = !beside ? 0 : full ? cols * inner : inner;
        loop->stride[k][2] = beside;
    }
    return count_batches(b, r);
}

static kiln_status check_placed(building *b)
{
    kiln_status status = KILN_OK;
    for (uint32_t k = 0; k < b->loop->operands && status == KILN_OK; k++) {
        const bool empty = b->loop->extent[1] == 0 || (b->loop->extent[0] == 0 && b->loop->stride[k][0] > 0);
        status = b->placed && !empty ? check_data(b, k) : KILN_OK;
        if (status == KILN_OK)
            status = find_range(b, k);
    }
    return status == KILN_OK && b->placed && b->loop->count > 0 ? check_overlap(b) : status;
}

kiln_status kiln__loop_make_rows(kiln__loop *out, const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins,
                                 size_t in_count, const kiln__along *along, bool placed, kiln_report *report)
{
    reducing r = { .ndim = 0 };
    building b = { .loop = NULL };
    if (!are_few(out_count, in_count))
        return fail_counts(out_count, in_count, report);
    kiln_status status = begin(&b, out, outs, out_count, ins, in_count, placed, report);
    out->kind = KILN__LOOP_REDUCED;
    if (status == KILN_OK)
        status = find_shape(&b, &r, along);
    if (status == KILN_OK)
        status = find_first(&b, &r);
    for (uint32_t k = 0; k < out->outputs && status == KILN_OK; k++)
        status = place_output(&b, &r, k);
    if (status == KILN_OK)
        status = count_rows(&b, &r);
    return status == KILN_OK ? check_placed(&b) : status;
}

kiln_status kiln__loop_inputs(kiln__inputs *out, const kiln_tensor *ins, size_t in_count, const kiln__along *along,
                              kiln_report *report)
{
    reducing r = { .ndim = 0 };
    kiln__loop loop;
    building b;
    if (!are_few(1, in_count))
        return fail_counts(1, in_count, report);
    kiln_status status = begin(&b, &loop, NULL, 0, ins, in_count, false, report);
    if (status == KILN_OK)
        status = find_shape(&b, &r, along);
    if (status == KILN_OK && along != NULL)
        status = find_first(&b, &r);
    if (status != KILN_OK)
        return status;
    out->ndim = r.ndim;
    memcpy(out->shape, r.shape, sizeof(r.shape));
    memcpy(out->axis, r.axis, sizeof(r.axis));
    for (size_t k = 0; k < in_count; k++)
        out->layouts[k] = along != NULL ? loop.layouts[k] : KILN__LAYOUT_FULL;
    return KILN_OK;
}

/* ---- The argument of strides: extents, the numbers that replace a division by them, and the strides of each array */

/* i / extent is ((i * magic >> 32) + i) >> shift for all i below 2^31: 2^32 + magic is 2^(32 + shift) / extent, rounded
 * up, and the error of that stays below 1 / extent. Nothing is divided where there is no element. */
static void put_division(uint64_t extent, uint32_t *magic, uint32_t *shift)
{
    *shift = 0;
    while (*shift < 31 && UINT64_C(1) << *shift < extent)
        ++*shift;
    *magic =
        extent > 0 && extent <= INT32_MAX ? (uint32_t)((((UINT64_C(1) << *shift) - extent) << 32) / extent + 1) : 0;
}

void kiln__loop_view(const kiln__loop *loop, uint64_t out[KILN__VIEW_MAX])
{
    uint32_t dims = loop->dims;
    uint32_t *magic = (uint32_t *)(out + dims), *shift = magic + dims;
    for (uint32_t d = 0; d < dims; d++) {
        out[d] = (uint64_t)loop->extent[d];
        put_division(out[d], &magic[d], &shift[d]);
    }
    for (uint32_t k = 0; k < loop->operands; k++)
        memcpy(out + (2 + k) * dims, loop->stride[k], dims * sizeof(out[0]));
}

/* ---- Launches without tensors */

static void put_dense(kiln__loop *loop, uint32_t k)
{
    const bool reversed = loop->layouts[k] == KILN__LAYOUT_ANY;
    int64_t stride = 1;
    for (uint32_t i = 0; i < loop->dims; i++) {
        uint32_t d = reversed ? loop->dims - 1 - i : i;
        if (loop->layouts[k] == KILN__LAYOUT_CROSS && d < 2 && loop->dims > 1)
            d = 1 - d;
        loop->stride[k][d] = loop->layouts[k] == KILN__LAYOUT_SAME && k >= loop->outputs ? 0 : stride;
        stride *= loop->extent[d];
    }
}

void kiln__loop_of_plan(kiln__loop *out, const kiln__plan *plan, uint64_t n)
{
    out->dims = plan->dims;
    out->batches = 0;
    out->outputs = plan->outputs;
    out->operands = plan->outputs + plan->inputs;
    out->count = n;
    out->span = n;
    kiln__plan_extents(plan, (int64_t)n, out->extent);
    for (uint32_t i = 0, written = 0, read = plan->outputs; i < plan->arg_count; i++) {
        const kiln__plan_arg *arg = &plan->args[i];
        if (arg->role > KILN__ARG_INOUT)
            continue;
        uint32_t k = arg->role == KILN__ARG_IN ? read++ : written++;
        out->layouts[k] = arg->layout;
        put_dense(out, k);
    }
}

uint64_t kiln__loop_offset(const kiln__loop *loop, uint32_t from, uint32_t to, uint64_t at)
{
    uint64_t offset = 0;
    for (uint32_t d = 0; d < loop->dims; d++)
        offset += at / (uint64_t)loop->stride[from][d] % (uint64_t)loop->extent[d] * (uint64_t)loop->stride[to][d];
    return offset;
}
