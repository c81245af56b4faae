/* The C compiler's output. The compiler itself is opened with kiln__cpu_compiler_open. */
#ifndef KILN_CPU_CC_H
#define KILN_CPU_CC_H

#include "base/elf.h"

/* kiln__elf_check for a shared object of this machine. */
bool kiln__cc_check_object(const void *bytes, size_t length, char reason[KILN__ELF_REASON_SIZE]);

#endif
