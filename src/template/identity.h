/* A spec as bytes to look it up by: much cheaper to make than its canonical text. */
#ifndef KILN_TEMPLATE_IDENTITY_H
#define KILN_TEMPLATE_IDENTITY_H

#include "template/spec.h"
#include <stdint.h>

enum { KILN__IDENTITY_MAX = 8192 };

/* As much room as the spec's identity may need, at most KILN__IDENTITY_MAX. */
static inline size_t kiln__spec_identity_room(const kiln_spec *spec)
{
    enum { REST = 256 };
    return REST + sizeof(spec->params) + spec->op.count * sizeof(spec->op.nodes[0]);
}

/* Writes bytes that are equal for two specs of one catalogue exactly when their canonical texts are, hints apart, and
 * returns how many. Good within this process only. Any thread. */
size_t kiln__spec_identity(const kiln_spec *spec, uint8_t *out);

#endif
