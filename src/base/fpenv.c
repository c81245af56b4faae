/* Entering and leaving the default floating-point environment. */
#include "base/fpenv.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* FE_DFL_ENV also ends flush to zero and denormals-are-zero, which the C standard does not know. */
void kiln__fpenv_enter(kiln__fpenv *host)
{
    fegetenv(&host->all);
    fesetenv(FE_DFL_ENV);
}

void kiln__fpenv_leave(const kiln__fpenv *host)
{
    fesetenv(&host->all);
}

void kiln__fpenv_reset(void)
{
    fesetenv(FE_DFL_ENV);
}

#if defined(__x86_64__)
enum { SIMD_DEFAULT = 0x1f80 }; /* round to nearest, all exceptions masked, no flags */

void kiln__fpenv_enter_simd(kiln__fpenv *host)
{
    host->simd = _mm_getcsr();
    _mm_setcsr(SIMD_DEFAULT);
}

void kiln__fpenv_leave_simd(const kiln__fpenv *host)
{
    _mm_setcsr(host->simd);
}
#else
void kiln__fpenv_enter_simd(kiln__fpenv *host)
{
    kiln__fpenv_enter(host);
}

void kiln__fpenv_leave_simd(const kiln__fpenv *host)
{
    kiln__fpenv_leave(host);
}
#endif
