/* Signatures for the public API. */
#ifndef KILN_SPEC_SIGNATURE_H
#define KILN_SPEC_SIGNATURE_H

#include "spec/arguments.h"
#include <kiln/kernel.h>

/* The signature of a template's declarations: formulas as they are declared. Borrows the strings of both. The caller
 * frees it with kiln__free. NULL: out of memory. */
kiln_signature *kiln__signature_declared(const kiln__arguments *arguments, const kiln__operands *operands);

/* The signature of a plan: formulas of the sizes alone. Borrows the strings of the plan. The caller frees it with
 * kiln__free. NULL: out of memory. */
kiln_signature *kiln__signature_planned(const kiln__plan *plan);

/* The signature of a function with parameters of so many bytes each; count -1: nothing is known, params is NULL. The
 * caller frees it with kiln__free. NULL: out of memory. */
kiln_signature *kiln__signature_of_bytes(const size_t *bytes, int count);

/* The contract is that of kiln_signature_shape. */
kiln_status kiln__signature_shape(uint64_t out[KILN_DIMS_MAX], const kiln_signature *signature, uint32_t index,
                                  const uint64_t *sizes, size_t size_count, kiln_report *report);

#endif
