/* The resources of compiled kernels, and their occupancy. */
#ifndef KILN_TOOLS_RESOURCES_H
#define KILN_TOOLS_RESOURCES_H

#include "show/machine.h"
#include "text/jsonout.h"

typedef struct chip_use {
    machine_usage *rows;
    size_t count; /* 0: nothing is known */
    bool cpu;
    char *target;
    uint32_t block; /* threads of a block, for the occupancy; 0: not known */
} chip_use;

/* Asks cuobjdump, else the driver where the kernel can be loaded, else the library, which reads the code. `spec` is
 * NULL for a CUDA source, of which only the library is asked: it knows the functions' names. */
void resources_find(chip_use *out, struct session *session, const kiln_program *program, const kiln_spec *spec,
                    uint32_t block);
void resources_print(const chip_use *use);
json_t *resources_json(const chip_use *use);

#endif
