/* How much of a multiprocessor a kernel can fill, calculated without one. */
#ifndef KILN_TOOLS_OCCUPANCY_H
#define KILN_TOOLS_OCCUPANCY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct occupancy {
    uint32_t blocks;   /* that a multiprocessor holds at once; 0: not even one can be launched */
    uint32_t threads;  /* of these */
    uint32_t most;     /* threads that it could hold */
    const char *limit; /* what does not allow more: "threads", "blocks", "registers" or "shared memory" */
} occupancy;

/* For blocks of so many threads with so many registers each and so much static shared memory. False where the
 * target's limits are not known here. */
bool occupancy_find(occupancy *out, const char *target, uint32_t block, int registers, int shared_bytes);

#endif
