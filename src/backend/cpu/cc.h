/* What the C compiler makes. The compiler itself is opened with kiln__cc_open (backend/cpu/cpu.h). */
#ifndef KILN_BACKEND_CPU_CC_H
#define KILN_BACKEND_CPU_CC_H

#include <stddef.h>

/* NULL when the bytes are a whole ELF shared object for this machine, else the reason in words. Looks at nothing but
 * headers: it keeps a truncated file and one of another machine from the loader, and is no guard against damage or
 * malice. `bytes` need not be aligned. */
const char *kiln__cc_refuse_object(const void *bytes, size_t length);

#endif
