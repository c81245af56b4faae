/* The oracle of loops (spec/loop.h): it visits every index of tensors as their shapes and strides say. */
#ifndef KILN_TESTS_SUPPORT_LOOPS_H
#define KILN_TESTS_SUPPORT_LOOPS_H

#include "spec/loop.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { LOOPS_COUNT_MAX = 4096 };

/* Random numbers below a bound, the same in each run (xorshift). */
static uint64_t loops_state = 88172645463325252u;

static inline uint64_t loops_draw(uint64_t below)
{
    loops_state ^= loops_state << 13;
    loops_state ^= loops_state >> 7;
    loops_state ^= loops_state << 17;
    return (loops_state >> 11) % below;
}

/* The offsets of all operands for one index, in elements. */
typedef struct loops_place {
    int64_t at[KILN__OPERANDS_MAX];
} loops_place;

static inline int loops_compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(loops_place));
}

/* The offset of an element of a tensor, for an index of a shape of `ndim` dimensions to which it broadcasts. */
static inline int64_t loops_offset(const kiln_tensor *tensor, uint32_t ndim, const int64_t *index)
{
    int64_t offset = 0, dense = 1;
    for (uint32_t d = tensor->ndim; d-- > 0;) {
        int64_t at = tensor->shape[d] == 1 ? 0 : index[ndim - tensor->ndim + d];
        offset += at * (tensor->strides != NULL ? tensor->strides[d] : dense);
        dense *= tensor->shape[d];
    }
    return offset;
}

/* The places of all indices, sorted. At most LOOPS_COUNT_MAX. Returns their number. */
static inline size_t loops_of_tensors(loops_place *out, const kiln_tensor *outs, size_t out_count,
                                      const kiln_tensor *ins, size_t in_count)
{
    int64_t index[KILN_TENSOR_DIMS_MAX] = { 0 };
    const kiln_tensor *first = &outs[0];
    size_t count = 0;
    for (uint32_t d = 0; d < first->ndim; d++)
        if (first->shape[d] == 0)
            return 0;
    for (bool more = true; more;) {
        memset(&out[count], 0, sizeof(out[count]));
        for (size_t k = 0; k < out_count + in_count; k++)
            out[count].at[k] = loops_offset(k < out_count ? &outs[k] : &ins[k - out_count], first->ndim, index);
        count++;
        more = false;
        for (uint32_t d = first->ndim; d-- > 0 && !more;) {
            more = ++index[d] < first->shape[d];
            index[d] = more ? index[d] : 0;
        }
    }
    qsort(out, count, sizeof(out[0]), loops_compare);
    return count;
}

/* The place of element i of a loop, the innermost dimension fastest. */
static inline loops_place loops_at(const kiln__loop *loop, uint64_t i)
{
    loops_place place;
    memset(&place, 0, sizeof(place));
    for (uint32_t d = 0; d < loop->dims; d++) {
        int64_t at = (int64_t)(i % (uint64_t)loop->extent[d]);
        for (uint32_t k = 0; k < loop->operands; k++)
            place.at[k] += at * loop->stride[k][d];
        i /= (uint64_t)loop->extent[d];
    }
    return place;
}

/* The places of a loop, sorted. */
static inline size_t loops_of_loop(loops_place *out, const kiln__loop *loop)
{
    for (uint64_t i = 0; i < loop->count; i++)
        out[i] = loops_at(loop, i);
    qsort(out, loop->count, sizeof(out[0]), loops_compare);
    return loop->count;
}

/* Whether two neighbouring dimensions could still be one. */
static inline bool loops_merge(const kiln__loop *loop)
{
    for (uint32_t d = 1; d < loop->dims; d++) {
        bool all = true;
        for (uint32_t k = 0; k < loop->operands; k++)
            all = all && loop->stride[k][d] == loop->stride[k][d - 1] * loop->extent[d - 1];
        if (all)
            return true;
    }
    return false;
}

/* Where a flat kernel, or one of rows and columns, looks for element i of an operand. */
static inline int64_t loops_expected(const kiln__loop *loop, uint32_t k, uint64_t i)
{
    uint64_t cols = loop->dims > 0 ? (uint64_t)loop->extent[0] : 1;
    switch (loop->layouts[k]) {
    case KILN__LAYOUT_FULL:
        return (int64_t)i;
    case KILN__LAYOUT_ROW:
        return (int64_t)(i % cols);
    case KILN__LAYOUT_COLUMN:
        return (int64_t)(i / cols);
    default:
        return 0;
    }
}

/* Whether the kernel that the loop's kind names computes each element where the loop has it. */
static inline bool loops_kind_holds(const kiln__loop *loop)
{
    for (uint64_t i = 0; i < loop->count && loop->kind < KILN__LOOP_STRIDED; i++) {
        loops_place place = loops_at(loop, i);
        for (uint32_t k = 0; k < loop->operands; k++)
            if (place.at[k] != loops_expected(loop, k, i) ||
                (loop->kind == KILN__LOOP_FLAT && loop->layouts[k] != KILN__LAYOUT_FULL))
                return false;
    }
    return true;
}

#endif
