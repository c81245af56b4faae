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

/* The loop before its dimensions are merged. */
typedef struct building {
    const kiln_tensor *tensors[KILN__OPERANDS_MAX];
    uint32_t outputs, operands, dims;
    uint64_t count;
    int64_t extent[KILN_TENSOR_DIMS_MAX];
    int64_t stride[KILN__OPERANDS_MAX][KILN_TENSOR_DIMS_MAX];
    uint64_t low[KILN__OPERANDS_MAX],
        high[KILN__OPERANDS_MAX]; /* addresses: the first byte, and that behind the last */
    uint64_t span;
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
    if (k >= b->outputs)
        snprintf(name.text, sizeof(name.text), "%s", kiln__input_names[k - b->outputs]);
    else if (b->outputs == 1)
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
    for (uint32_t d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0)
            return FAIL(b, KILN_EINVAL, "tensor %s: extent %" PRId64 " of dimension %u is below 0", name_of(b, k).text,
                        tensor->shape[d], d);
    return KILN_OK;
}

static kiln_status check_data(const building *b, uint32_t k)
{
    const kiln_tensor *tensor = b->tensors[k];
    unsigned bytes = kiln__dtype_bytes((kiln__dtype)tensor->dtype);
    if (tensor->data == NULL)
        return FAIL(b, KILN_EINVAL, "tensor %s: data is NULL", name_of(b, k).text);
    if (((uintptr_t)tensor->data & (bytes - 1)) != 0)
        return FAIL(b, KILN_EALIGN, "tensor %s is not aligned to its elements of %u bytes", name_of(b, k).text, bytes);
    return KILN_OK;
}

static kiln_status take_tensors(building *b, const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins,
                                size_t in_count)
{
    kiln_status status = KILN_OK;
    if (out_count < 1 || out_count > KILN__OUTPUTS_MAX || in_count > KILN__INPUTS_MAX)
        return FAIL(b, KILN_EINVAL, "%zu outputs and %zu inputs: expected 1 to %d outputs and at most %d inputs",
                    out_count, in_count, KILN__OUTPUTS_MAX, KILN__INPUTS_MAX);
    b->outputs = (uint32_t)out_count;
    b->operands = (uint32_t)(out_count + in_count);
    for (uint32_t k = 0; k < b->operands && status == KILN_OK; k++) {
        b->tensors[k] = k < b->outputs ? &outs[k] : &ins[k - b->outputs];
        status = check_tensor(b, k);
    }
    return status;
}

/* ---- Shapes */

/* The extent of dimension d from the last; 1 where a tensor has fewer dimensions. */
static int64_t extent_of(const kiln_tensor *tensor, uint32_t d)
{
    return d < tensor->ndim ? tensor->shape[tensor->ndim - 1 - d] : 1;
}

static kiln_status fail_shape(const building *b, uint32_t k, uint32_t d)
{
    const kiln_tensor *out = b->tensors[0], *tensor = b->tensors[k];
    operand_name name = name_of(b, k), first = name_of(b, 0);
    if (tensor->ndim > out->ndim || (k < b->outputs && tensor->ndim < out->ndim))
        return FAIL(b, KILN_EINVAL, "tensor %s has %u dimension%s, and %s has %u", name.text, tensor->ndim,
                    tensor->ndim == 1 ? "" : "s", first.text, out->ndim);
    return FAIL(b, KILN_EINVAL, "tensor %s: extent %" PRId64 " of dimension %u does not %s the %" PRId64 " of %s",
                name.text, extent_of(tensor, d), tensor->ndim - 1 - d, k < b->outputs ? "equal" : "broadcast to",
                extent_of(out, d), first.text);
}

static kiln_status check_shapes(const building *b)
{
    const kiln_tensor *out = b->tensors[0];
    for (uint32_t k = 1; k < b->operands; k++) {
        const kiln_tensor *tensor = b->tensors[k];
        if (tensor->ndim > out->ndim || (k < b->outputs && tensor->ndim < out->ndim))
            return fail_shape(b, k, 0);
        for (uint32_t d = 0; d < tensor->ndim; d++) {
            int64_t extent = extent_of(tensor, d);
            if (extent != extent_of(out, d) && (extent != 1 || k < b->outputs))
                return fail_shape(b, k, d);
        }
    }
    return KILN_OK;
}

static kiln_status count_elements(building *b)
{
    const kiln_tensor *out = b->tensors[0];
    int64_t count = 1;
    bool is_large = false;
    for (uint32_t d = 0; d < out->ndim; d++) {
        if (out->shape[d] == 0)
            return b->count = 0, KILN_OK;
        is_large = is_large || __builtin_mul_overflow(count, out->shape[d], &count) || count > COUNT_MAX;
    }
    if (is_large)
        return FAIL(b, KILN_EINVAL, "tensor %s is larger than any memory", name_of(b, 0).text);
    b->count = (uint64_t)count;
    return KILN_OK;
}

/* ---- Dimensions */

/* The strides of a tensor along the dimensions of the loop, and the dimensions themselves from those of an output. A
 * tensor without strides is contiguous in its own shape. */
static void add_dims(building *b, uint32_t k)
{
    const kiln_tensor *out = b->tensors[0], *tensor = b->tensors[k];
    int64_t dense = 1;
    uint32_t dims = 0;
    for (uint32_t d = 0; d < out->ndim; d++) {
        int64_t extent = extent_of(tensor, d), of_loop = extent_of(out, d);
        if (of_loop == 1)
            continue;
        b->extent[dims] = of_loop;
        b->stride[k][dims++] = extent == 1               ? 0
                               : tensor->strides != NULL ? tensor->strides[tensor->ndim - 1 - d]
                                                         : dense;
        dense *= extent; /* no more than the count of the loop */
    }
    b->dims = dims;
}

static void swap_dims(building *b, uint32_t i, uint32_t j)
{
    int64_t extent = b->extent[i];
    b->extent[i] = b->extent[j];
    b->extent[j] = extent;
    for (uint32_t k = 0; k < b->operands; k++) {
        int64_t stride = b->stride[k][i];
        b->stride[k][i] = b->stride[k][j];
        b->stride[k][j] = stride;
    }
}

/* By the strides of the first output, so that it is written in order: a permuted contiguous output becomes a contiguous
 * one. Most are sorted already. */
static void sort_dims(building *b)
{
    for (uint32_t i = 1; i < b->dims; i++)
        for (uint32_t j = i; j > 0 && b->stride[0][j] < b->stride[0][j - 1]; j--)
            swap_dims(b, j, j - 1);
}

/* Whether dimension j goes on where i ends, for every operand. */
static bool continues(const building *b, uint32_t i, uint32_t j)
{
    for (uint32_t k = 0; k < b->operands; k++) {
        int64_t reach;
        if (__builtin_mul_overflow(b->stride[k][i], b->extent[i], &reach) || reach != b->stride[k][j])
            return false;
    }
    return true;
}

static void merge_dims(building *b)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < b->dims; i++) {
        if (continues(b, last, i)) {
            b->extent[last] *= b->extent[i];
            continue;
        }
        last++;
        b->extent[last] = b->extent[i];
        for (uint32_t k = 0; k < b->operands && last != i; k++)
            b->stride[k][last] = b->stride[k][i];
    }
    b->dims = b->dims > 0 ? last + 1 : 0;
}

/* ---- Memory */

/* Finds the addresses of an operand. An empty tensor has none. */
static kiln_status find_range(building *b, uint32_t k)
{
    const kiln_tensor *tensor = b->tensors[k];
    int64_t low = 0, high = 0, bytes = (int64_t)kiln__dtype_bytes((kiln__dtype)tensor->dtype), reach = 0;
    bool is_far = false;
    for (uint32_t d = 0; d < b->dims; d++) {
        int64_t *end = b->stride[k][d] < 0 ? &low : &high;
        is_far = is_far || __builtin_mul_overflow(b->stride[k][d], b->extent[d] - 1, &reach) ||
                 __builtin_add_overflow(*end, reach, end);
    }
    uint64_t address = b->placed ? (uintptr_t)tensor->data : 0, span = (uint64_t)high - (uint64_t)low;
    is_far = is_far || low < -COUNT_MAX || high > COUNT_MAX;
    if (!is_far) {
        uint64_t below = (uint64_t)(-low * bytes), above = (uint64_t)(high * bytes) + (uint64_t)bytes;
        is_far = b->placed && (below > address || above > UINT64_MAX - address);
        b->low[k] = address - below;
        b->high[k] = address + above;
    }
    if (is_far)
        return FAIL(b, KILN_EINVAL, "tensor %s: its strides reach beyond any memory", name_of(b, k).text);
    b->span = span > b->span ? span : b->span;
    return KILN_OK;
}

/* Sorted by stride, each dimension must step over all elements of those before it. */
static bool overlaps_itself(const building *b, uint32_t k)
{
    int64_t stride[KILN_TENSOR_DIMS_MAX], extent[KILN_TENSOR_DIMS_MAX], reach = 0;
    for (uint32_t i = 0; i < b->dims; i++) {
        uint32_t j = i;
        for (; j > 0 && stride[j - 1] > b->stride[k][i]; j--) {
            stride[j] = stride[j - 1];
            extent[j] = extent[j - 1];
        }
        stride[j] = b->stride[k][i];
        extent[j] = b->extent[i];
    }
    for (uint32_t i = 0; i < b->dims; i++) {
        if (stride[i] <= reach)
            return true;
        reach += stride[i] * (extent[i] - 1); /* find_range has found no overflow */
    }
    return false;
}

static kiln_status check_output(const building *b, uint32_t k)
{
    for (uint32_t d = 0; d < b->dims; d++)
        if (b->stride[k][d] < 0)
            return FAIL(b, KILN_EINVAL, "tensor %s has a stride of %" PRId64 ": only inputs may have one below 0",
                        name_of(b, k).text, b->stride[k][d]);
    if (overlaps_itself(b, k))
        return FAIL(b, KILN_EOVERLAP, "tensor %s is written, and its strides let elements overlap", name_of(b, k).text);
    return KILN_OK;
}

/* Whether two operands have the same elements at the same indices. */
static bool is_same(const building *b, uint32_t i, uint32_t j)
{
    return b->low[i] == b->low[j] && b->tensors[i]->data == b->tensors[j]->data &&
           kiln__dtype_bytes((kiln__dtype)b->tensors[i]->dtype) ==
               kiln__dtype_bytes((kiln__dtype)b->tensors[j]->dtype) &&
           memcmp(b->stride[i], b->stride[j], b->dims * sizeof(b->stride[i][0])) == 0;
}

static kiln_status check_overlap(const building *b)
{
    for (uint32_t i = 0; i < b->outputs; i++)
        for (uint32_t j = i + 1; j < b->operands; j++) {
            bool apart = b->low[i] >= b->high[j] || b->low[j] >= b->high[i];
            if (apart || (j >= b->outputs && is_same(b, i, j)))
                continue;
            return FAIL(b, KILN_EOVERLAP, "tensors %s and %s overlap: %s", name_of(b, i).text, name_of(b, j).text,
                        j < b->outputs ? "outputs must not share memory"
                                       : "an output may be an input of the same data and strides, or must be apart");
        }
    return KILN_OK;
}

static kiln_status check_memory(building *b)
{
    kiln_status status = KILN_OK;
    for (uint32_t k = 0; k < b->operands && status == KILN_OK; k++)
        status = b->placed ? check_data(b, k) : KILN_OK;
    for (uint32_t k = 0; k < b->operands && status == KILN_OK; k++)
        status = find_range(b, k);
    for (uint32_t k = 0; k < b->outputs && status == KILN_OK; k++)
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
        out->layouts[k] = out->stride[k][0] == 1   ? KILN__LAYOUT_UNIT
                          : out->stride[k][0] == 0 ? KILN__LAYOUT_SAME
                                                   : KILN__LAYOUT_ANY;
}

static kiln_status finish(kiln__loop *out, const building *b)
{
    if (b->dims > KILN__LOOP_DIMS)
        return FAIL(b, KILN_EINVAL,
                    "these tensors have %u dimensions that do not merge, and a kernel has at most %d: make one of them "
                    "contiguous",
                    b->dims, KILN__LOOP_DIMS);
    out->outputs = b->outputs;
    out->operands = b->operands;
    out->dims = b->dims;
    out->count = b->count;
    out->span = b->span;
    memcpy(out->extent, b->extent, b->dims * sizeof(b->extent[0]));
    for (uint32_t k = 0; k < b->operands; k++) {
        memcpy(out->stride[k], b->stride[k], b->dims * sizeof(b->stride[k][0]));
        out->data[k] = b->tensors[k]->data;
    }
    set_kind(out);
    return KILN_OK;
}

kiln_status kiln__loop_make(kiln__loop *out, const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins,
                            size_t in_count, bool placed, kiln_report *report)
{
    building b;
    b.count = b.span = 0;
    b.dims = 0;
    b.placed = placed;
    b.report = report;
    kiln_status status = take_tensors(&b, outs, out_count, ins, in_count);
    if (status == KILN_OK)
        status = check_shapes(&b);
    if (status == KILN_OK)
        status = count_elements(&b);
    if (status == KILN_OK && b.count > 0) {
        for (uint32_t k = 0; k < b.operands; k++)
            add_dims(&b, k);
        sort_dims(&b);
        merge_dims(&b);
        status = check_memory(&b);
    }
    return status == KILN_OK ? finish(out, &b) : status;
}

/* ---- The argument of strides: extents, the numbers that replace a division by them, and the strides of each array */

/* i / extent is ((i * magic >> 32) + i) >> shift for all i below 2^31: 2^32 + magic is 2^(32 + shift) / extent, rounded
 * up, and the error of that stays below 1 / extent. */
static void put_division(uint64_t extent, uint32_t *magic, uint32_t *shift)
{
    *shift = 0;
    while (*shift < 31 && UINT64_C(1) << *shift < extent)
        ++*shift;
    *magic = extent <= INT32_MAX ? (uint32_t)((((UINT64_C(1) << *shift) - extent) << 32) / extent + 1) : 0;
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

void kiln__view_flat(const kiln__plan *plan, uint64_t n, uint64_t out[KILN__VIEW_MAX])
{
    kiln__loop loop = { .dims = plan->dims, .operands = plan->outputs + plan->inputs };
    for (uint32_t d = 0; d < loop.dims; d++) {
        loop.extent[d] = d == 0 ? (int64_t)n : 1;
        for (uint32_t k = 0; k < loop.operands && d == 0; k++)
            loop.stride[k][d] = (plan->same >> k & 1) == 0;
    }
    kiln__loop_view(&loop, out);
}
