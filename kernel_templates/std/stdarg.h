/* va_list, va_start and the like are the compiler's own. */
#ifndef KILN_STD_STDARG_H
#define KILN_STD_STDARG_H

#endif
