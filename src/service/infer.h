/* Outputs and gradients of an op for some inputs, which need no tensors for the outputs. */
#ifndef KILN_SERVICE_INFER_H
#define KILN_SERVICE_INFER_H

#include <kiln/tensor.h>

/* The contract is kiln_apply_outputs'. */
kiln_status kiln__infer_outputs(kiln_output *outs, size_t room, size_t *count, kiln_service *service, const char *text,
                                const kiln_tensor *ins, size_t in_count, kiln_report *report);

/* The contract is kiln_apply_parts'. */
kiln_status kiln__infer_parts(char **first, char **second, kiln_service *service, const char *text,
                              kiln_report *report);

/* The contract is kiln_apply_gradient's. */
kiln_status kiln__infer_gradient(char **out, kiln_service *service, const char *text, const kiln_tensor *ins,
                                 size_t in_count, uint64_t wanted, kiln_report *report);

#endif
