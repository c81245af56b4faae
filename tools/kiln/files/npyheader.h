#ifndef KILN_TOOLS_NPYHEADER_H
#define KILN_TOOLS_NPYHEADER_H

#include "files/npy.h"

/* Reads the header's dictionary text, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", into the
 * element type and the shape of *out, whose path is set and used in messages. Returns STATUS_DONE, or STATUS_USAGE
 * after a message. */
int npyheader_parse(npy_array *out, const char *text, size_t length);

#endif
