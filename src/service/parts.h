/* Calls with reduce=: an op on tensors in one launch, and the mean or the sum of its results in a second one, or both
 * in one. */
#ifndef KILN_SERVICE_PARTS_H
#define KILN_SERVICE_PARTS_H

#include "base/text.h"
#include "spec/spec.h"
#include <kiln/tensor.h>

/* The texts of the calls that compute a call with reduce=. Zero is empty. */
typedef struct kiln__parts {
    kiln__text first, second; /* second: on the results of the first */
    kiln__text whole;         /* one that gives the total of inputs which all dimensions can be reduced of, or empty */
    bool weighted;            /* the first has one more result, the weights of a mean */
} kiln__parts;

/* Writes the parts of a spec with reduce=. The caller frees them with kiln__parts_fini, whatever
 * is returned. Errors: KILN_ESPEC (no op), KILN_EOP, KILN_ENOMEM. */
kiln_status kiln__parts_make(kiln__parts *out, const kiln_spec *spec, kiln_report *report);
void kiln__parts_fini(kiln__parts *parts);

/* Computes a call by its parts. The contract is kiln_apply's. */
kiln_status kiln__parts_apply(kiln_service *service, const kiln_spec *spec, const kiln__parts *parts,
                              const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                              const double *scalars, size_t scalar_count, void *stream, kiln_report *report);

#endif
