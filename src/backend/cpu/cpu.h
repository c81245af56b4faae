/* The cpu backend: the system C compiler makes a shared object, dlopen loads it, all cores run it. */
#ifndef KILN_BACKEND_CPU_CPU_H
#define KILN_BACKEND_CPU_CPU_H

#include "backend/backend.h"

/* Starts no thread yet. NULL when out of memory. `log` is borrowed until close. */
kiln__backend *kiln__cpu_open(const kiln__log *log);

/* The C compiler as a compiler of units. Looks for nothing yet. `cc` is a program name or path, NULL for "cc"; copied. */
kiln__compiler *kiln__cc_open(const char *cc, const kiln__log *log);

#endif
