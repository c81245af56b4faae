/* Loops: from the shapes and strides of tensors to the fewest dimensions over which a kernel runs. Pure. */
#ifndef KILN_SPEC_LOOP_H
#define KILN_SPEC_LOOP_H

#include "lang/reduction.h"
#include "spec/arguments.h"
#include <kiln/tensor.h>

/* The kind of kernel that a loop needs. */
typedef enum kiln__loop_kind {
    KILN__LOOP_FLAT,    /* all tensors are one sequence: the template elementwise */
    KILN__LOOP_ROWS,    /* rows and columns, of which inputs may repeat one: the template broadcast */
    KILN__LOOP_STRIDED, /* any strides: the template strided */
    KILN__LOOP_CROSSED, /* an input is contiguous along the second dimension instead: the template crossed */
    KILN__LOOP_REDUCED  /* rows and columns, of which the op reduces the columns: the template rows; with a third
                           dimension, rows that lie beside each other, the template columns */
} kiln__loop_kind;

/* The loop of a launch over `count` elements. Operands are the outputs, then the inputs. Dimensions stand from the
 * innermost, along which the first output has its smallest stride, to the outermost; of KILN__LOOP_CROSSED the second
 * is the one along which inputs are contiguous. None has the extent 1. */
typedef struct kiln__loop {
    kiln__loop_kind kind;
    uint32_t outputs, operands;
    uint32_t dims;    /* 0: one element, or none */
    uint32_t batches; /* further dimensions behind those, at each index of which the kernel is launched */
    bool
        ordered; /* the elements lie in the outputs as they are counted: the last dimension of the shape is innermost */
    uint64_t count;
    uint64_t span;                        /* the largest distance of two elements of an operand, in elements */
    int64_t extent[KILN_TENSOR_DIMS_MAX]; /* of which the first KILN__LOOP_DIMS are used */
    int64_t stride[KILN__OPERANDS_MAX][KILN_TENSOR_DIMS_MAX]; /* in elements; 0: the dimension repeats the operand */
    void *data[KILN__OPERANDS_MAX];                           /* the element whose indices are all 0 */
    kiln__layout layouts[KILN__OPERANDS_MAX];                 /* of KILN__LOOP_ROWS and _REDUCED those of rows and
                                                            columns, of others words of KILN__LOOP_STRIDED, or none */
} kiln__loop;

/* Makes the loop of tensors. The shape of all outputs is the loop's. Inputs broadcast to it as in PyTorch: aligned at
 * the last dimension, an extent of 1 stands for any. An output may be an input with the same data, strides and bytes of
 * an element. All other overlaps are found by ranges of addresses: an output that lies between the elements of another
 * tensor is refused too. An output overlaps itself unless its strides, sorted, each exceed the reach of those before.
 * Without `placed` the data of tensors is not looked at. No lock, no allocation.
 * Errors: KILN_EINVAL (counts, types, shapes, strides of an output below 0, more than KILN__LOOP_DIMS dimensions, no
 * data, more elements than any memory has), KILN_EALIGN, KILN_EOVERLAP. The report names the operand, `out` or `x`. */
kiln_status kiln__loop_make(kiln__loop *out, const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins,
                            size_t in_count, bool placed, kiln_report *report);

/* The axis that an op reduces, and the inputs that are columns, as bits. */
typedef struct kiln__along {
    kiln__axis axis;
    uint32_t columns;
} kiln__along;

/* Makes the loop of tensors for an op that reduces an axis: rows, with the axis as columns, and the elements behind it
 * as a third dimension where there are several. The inputs broadcast to one shape. An output has this shape, or the
 * same without the axis, or with the extent 1 there; its layout is KILN__LAYOUT_FULL or KILN__LAYOUT_COLUMN. A column
 * may have the shape of another input without the axis. Where the axis has one element its layout is still
 * KILN__LAYOUT_COLUMN or _ONE. Outputs are contiguous, and inputs along the axis and behind it. Where an input has a
 * part of the dimensions before the axis, or gaps there, the outer ones of these become batches. Of memory and `placed`
 * the same holds. The count is not 0 where only the axis has no elements.
 * Errors: those of kiln__loop_make; KILN_EINVAL also where tensors do not lie so. */
kiln_status kiln__loop_make_rows(kiln__loop *out, const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins,
                                 size_t in_count, const kiln__along *along, bool placed, kiln_report *report);

/* Inputs without outputs: the shape to which they broadcast, and for an op that reduces an axis its first and last
 * dimension and the layout of each input, as kiln__loop_make_rows has them. */
typedef struct kiln__inputs {
    int64_t shape[KILN_TENSOR_DIMS_MAX];
    uint32_t ndim, axis[2];
    kiln__layout layouts[KILN__OPERANDS_MAX];
} kiln__inputs;

/* `along` is NULL where the op reduces no axis. The data of tensors is not looked at.
 * Errors: KILN_EINVAL (counts, types, shapes, and with an axis how the inputs lie). */
kiln_status kiln__loop_inputs(kiln__inputs *out, const kiln_tensor *ins, size_t in_count, const kiln__along *along,
                              kiln_report *report);

/* How operand k lies along the innermost dimension: KILN__LAYOUT_UNIT, _SAME or _ANY. */
kiln__layout kiln__loop_layout(const kiln__loop *loop, uint32_t k);

/* Writes the argument of strides that a strided kernel of as many dimensions takes: kiln_view of real.h. */
void kiln__loop_view(const kiln__loop *loop, uint64_t out[KILN__VIEW_MAX]);

/* The loop of a launch without tensors: n elements in the shape of kiln__plan_extents, in arrays without gaps. `unit`
 * is in the order of the loop, `any` in the opposite order, `cross` in that of the loop but for its second dimension,
 * which comes first, and `same` is one element. So a kernel is measured on what its layout says. */
void kiln__loop_of_plan(kiln__loop *out, const kiln__plan *plan, uint64_t n);

/* The offset in operand `to` of the element that operand `from`, which is without gaps, has at offset `at`. */
uint64_t kiln__loop_offset(const kiln__loop *loop, uint32_t from, uint32_t to, uint64_t at);

#endif
