/* memcpy and memset are the compiler's own. */
#ifndef KILN_STD_STRING_H
#define KILN_STD_STRING_H

#include <stddef.h>

#endif
