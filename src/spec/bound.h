/* How far apart the results of an op may be on a GPU and on the cpu, by the functions that it calls and, where it
 * reduces an axis, by the order of its sums. Pure. */
#ifndef KILN_SPEC_BOUND_H
#define KILN_SPEC_BOUND_H

#include "spec/rows.h"

/* A value on the cpu, and the bound on the distance of the other device's value from it. Error 0: equal bits. */
typedef struct kiln__estimate {
    double value, error;
} kiln__estimate;

/* The state of a fold over the elements of a row. */
typedef struct kiln__fold {
    double sum, size; /* of the terms, and of the finite ones' magnitudes; of a product the largest partial one */
    double least;     /* of a product: the smallest partial one */
    double error;     /* of the sum, by those of its terms */
    double first;     /* the index of the greatest or the least */
    double uncertain; /* how far the greatest may be off */
    bool begun;
    bool infinite; /* a term is, with no error, and so the sum in any order */
} kiln__fold;

/* The values of a row; those of scans at the element that was added last, and before it. */
typedef struct kiln__row_bound {
    kiln__rows rows;
    kiln__estimate values[KILN__ROW_VALUES_MAX], before[KILN__ROW_VALUES_MAX];
    kiln__fold folds[KILN__ROW_VALUES_MAX];
    uint64_t scanned; /* elements that have been added to the scans */
} kiln__row_bound;

/* The types of the op of a spec, found once for all elements. */
typedef struct kiln__bound_types {
    kiln__typing typing;
    kiln__dtype results[KILN__OUTPUTS_MAX];
} kiln__bound_types;

void kiln__bound_types_find(kiln__bound_types *out, const kiln__fields *spec);

/* The operands of a launch, in host memory. */
typedef struct kiln__elements {
    const void *const *ins;
    const double *scalars;
    uint64_t columns;
    uint64_t inner; /* rows beside each other in memory */
} kiln__elements;

/* The number of the element of a row at a column. */
static inline uint64_t kiln__elements_at(const kiln__elements *elements, uint64_t line, uint64_t column)
{
    return (line / elements->inner * elements->columns + column) * elements->inner + line % elements->inner;
}

/* Calculates the values of a row of inputs, in double. */
void kiln__bound_row(kiln__row_bound *out, const kiln__fields *spec, const kiln__bound_types *types,
                     const kiln__elements *elements, uint64_t line);

/* The column of element number i, in the order of the scans. */
static inline uint64_t kiln__elements_in_order(const kiln__elements *elements, const kiln__real *op, uint64_t i)
{
    return op->reverse ? elements->columns - 1 - i : i;
}

/* Brings the scans of a row whose values are calculated to element number i, in their order. From an earlier element on
 * it goes forward, and else from the first. */
void kiln__bound_scan(kiln__row_bound *row, const kiln__fields *spec, const kiln__bound_types *types,
                      const kiln__elements *elements, uint64_t line, uint64_t i);

/* An output at one element. `row` may be NULL where the op reduces nothing. Inputs are values of the dtype, and there
 * are no params. */
kiln__estimate kiln__bound_estimate(const kiln__fields *spec, const kiln__bound_types *types,
                                    const kiln__real_numbers *numbers, const kiln__row_bound *row, uint32_t output);

/* Whether results at one element are so close that kiln__bound_agrees says so for any inputs, at less cost. */
bool kiln__bound_is_near(const kiln__bound_types *types, uint32_t output, double got, double want);

/* Whether results at one element, of a GPU and of the cpu, are as close as this says. The spec has a dtype, and is not
 * exact (kiln__spec_is_exact). */
bool kiln__bound_agrees(const kiln__fields *spec, const kiln__bound_types *types, const kiln__real_numbers *numbers,
                        const kiln__row_bound *row, uint32_t output, double got, double want);

#endif
