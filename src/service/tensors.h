/* The spec of tensors: the text of a host with the types, the layout and the size that its tensors have. */
#ifndef KILN_SERVICE_TENSORS_H
#define KILN_SERVICE_TENSORS_H

#include "service/get.h"
#include "spec/loop.h"

/* KILN_EINVAL where the text has fields that tensors give. */
kiln_status kiln__tensors_check_open(const kiln_spec *spec, kiln_report *report);

/* KILN_EINVAL: the text has no op. */
kiln_status kiln__tensors_fail_without_op(kiln_report *report);

/* The axis and the columns of the op that a text names. */
static inline kiln__along kiln__tensors_along(const kiln_spec *spec)
{
    return (kiln__along){ .axis = spec->fields.axis, .columns = spec->fields.op->columns };
}

/* The size that geometry depends on. Rows without elements are as those of one. */
kiln__size kiln__tensors_size(const kiln__loop *loop);

/* The most elements that an access may have, where rows on a GPU do not begin at a multiple of 16 bytes; else 0. Such
 * rows are kept on chip only by a kernel whose accesses are as narrow. */
uint32_t kiln__tensors_vector(const kiln_device *device, const kiln__loop *loop, const kiln_tensor *outs,
                              const kiln_tensor *ins);

/* Appends " FIELD=(f32,f16)". */
void kiln__tensors_append_types(kiln__text *out, const char *field, const kiln_tensor *tensors, size_t count);

/* Sets the fields of a line, which it frees. */
kiln_status kiln__tensors_set_fields(kiln_spec **spec, kiln__text *line, kiln_report *report);

/* Makes the spec for tensors from that of the text. The caller releases *out, which is NULL on failure. `vector` is
 * that of kiln__tensors_vector. */
kiln_status kiln__tensors_spec(kiln_spec **out, kiln_spec *asked, const kiln__loop *loop, uint32_t vector,
                               const kiln_tensor *outs, const kiln_tensor *ins, kiln_report *report);

#endif
