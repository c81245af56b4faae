/* Arrays on a device with values that look like data. */
#ifndef KILN_TOOLS_FILL_H
#define KILN_TOOLS_FILL_H

#include "common.h"
#include "dtype.h"

/* A block of normal random values (mean 0, standard deviation 3: both sides of every threshold of the ops), the same
 * on every machine with the same libm. Freed with free(). */
typedef struct fill_block {
    void *data;
    uint64_t elements;
    uint32_t element_size;
} fill_block;

void fill_block_make(fill_block *out, const dtype *type, uint64_t elements);

/* Fills n elements at `to` on the device with the block over and over, beginning at its element `shift`: copied once,
 * then doubled on the device. Returns when done. */
kiln_status fill_values(kiln_device *device, void *to, uint64_t n, const fill_block *block, uint64_t shift,
                        kiln_report *report);

/* Fills bytes with 0xa5, which no kernel writes by chance. Returns when done. */
kiln_status fill_poison(kiln_device *device, void *to, uint64_t bytes, kiln_report *report);

#endif
