/* The records that are shipped in the library: kernel_templates/wisdom, made into constants when it is built. */
#ifndef KILN_WISDOM_SHIPPED_H
#define KILN_WISDOM_SHIPPED_H

#include "wisdom/record.h"

extern const kiln__wisdom_entry kiln__wisdom_shipped[]; /* about different things, sorted */
extern const size_t kiln__wisdom_shipped_count;

#endif
