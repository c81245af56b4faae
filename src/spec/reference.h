/* What results of an op that a user defined are compared with. Pure. */
#ifndef KILN_SPEC_REFERENCE_H
#define KILN_SPEC_REFERENCE_H

#include "spec/fields.h"

typedef struct kiln__worst_error {
    double worst; /* in units of the last place; infinity where one is NaN and the other is not */
    double got, want;
    uint64_t where;
} kiln__worst_error;

/* Element number i of an array of a dtype. */
double kiln__reference_value(const void *array, uint64_t i, kiln__dtype dtype);

/* In units of the last place of what is wanted; 0 where both are NaN, infinity where one is. Beyond the largest
 * number there is only infinity. */
double kiln__reference_distance(double got, double want, kiln__dtype dtype);

/* The op of a spec, if it is one with a reference that is called with its inputs in order, else NULL. */
const kiln__op *kiln__reference_op(const kiln__fields *spec);

/* Compares n elements of the spec's dtype, which is set. */
void kiln__reference_compare(const kiln__fields *spec, uint64_t n, const void *results, const void *const *in,
                             kiln__worst_error *out);

#endif
