/* Machine code of a program, through the disassemblers that are installed. */
#ifndef KILN_TOOLS_MACHINE_H
#define KILN_TOOLS_MACHINE_H

#include "cli/common.h"

/* The resources of one kernel function; -1 is unknown. */
typedef struct machine_usage {
    const char *name;
    int registers, stack, shared, local;
} machine_usage;

/* The disassembly of a cubin or of a cpu object. Returns STATUS_DONE, or STATUS_FAILED
 * after a message that names the package to install. */
int machine_disassemble(char **out, size_t *length, const kiln_program *program);

/* Asks cuobjdump for the resources of a cubin's functions. Returns false, quietly, if
 * there is no cuobjdump or no cubin. */
bool machine_resources(machine_usage **out, size_t *count, const kiln_program *program);

#endif
