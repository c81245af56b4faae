/* What compiled kernels need of the chip, and how much of it they can fill. */
#ifndef KILN_TOOLS_SHOWRESOURCES_H
#define KILN_TOOLS_SHOWRESOURCES_H

#include "show/machine.h"
#include "text/jsonout.h"

typedef struct chip_use {
    machine_usage *rows;
    size_t count; /* 0: nothing is known */
    bool cpu;
    char *target;
    uint32_t block; /* threads of a block, for the occupancy; 0: not known */
} chip_use;

/* Asks cuobjdump, else the driver where the kernel can be loaded, else what the library reads in the code. `spec` is
 * NULL for a source of the user's own, which is asked about as the library does, by the functions' names.
 * resources_free frees. */
void resources_find(chip_use *out, struct session *session, const kiln_program *program, const kiln_spec *spec,
                    uint32_t block);
void resources_print(const chip_use *use);
json_t *resources_json(const chip_use *use);
void resources_free(chip_use *use);

#endif
