/* The types; there are no formats for printf here. */
#ifndef KILN_STD_INTTYPES_H
#define KILN_STD_INTTYPES_H

#include <stdint.h>

#endif
