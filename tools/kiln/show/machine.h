/* Machine code of a program, through the disassemblers that are installed. */
#ifndef KILN_TOOLS_MACHINE_H
#define KILN_TOOLS_MACHINE_H

#include "cli/common.h"

/* The disassembly of a cubin or of a cpu object. Returns STATUS_DONE, or STATUS_FAILED
 * after a message that names the package to install. */
int machine_disassemble(char **out, size_t *length, const kiln_program *program);

#endif
