/* The floating-point environment of the calling thread: rounding, flush to zero, trapped exceptions and pending flags.
 * A host may have set any of it, and results, texts and keys must not depend on it. So all code that calculates does so
 * between enter and leave. Any thread. */
#ifndef KILN_BASE_FPENV_H
#define KILN_BASE_FPENV_H

#include <fenv.h>

typedef struct kiln__fpenv {
    fenv_t all;
    unsigned simd; /* x86-64: MXCSR */
} kiln__fpenv;

/* Enter keeps the host's environment in *host and sets the default one; leave sets the host's again, its flags as
 * they were. The two cost 0.2 us on x86-64. A calculation between them must read or write memory, or the compiler
 * may move it out. */
void kiln__fpenv_enter(kiln__fpenv *host);
void kiln__fpenv_leave(const kiln__fpenv *host);

/* The same for code that calculates in float and double alone, as kernels do. They cost 10 ns on x86-64, where the unit
 * for long double keeps the host's environment. */
void kiln__fpenv_enter_simd(kiln__fpenv *host);
void kiln__fpenv_leave_simd(const kiln__fpenv *host);

/* Sets the default environment for good, in a thread of Kiln's, which starts with the environment of its creator. */
void kiln__fpenv_reset(void);

#endif
