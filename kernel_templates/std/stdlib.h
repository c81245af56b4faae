/* malloc, free and abs are the compiler's own. */
#ifndef KILN_STD_STDLIB_H
#define KILN_STD_STDLIB_H

#include <stddef.h>

#endif
