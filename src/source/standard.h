/* Headers of the C and C++ libraries for sources: NVRTC has none, and programs include them. They are those in
 * kernel_templates/std/, embedded in the library; what they promise is in docs/source.md. Pure. */
#ifndef KILN_SOURCE_STANDARD_H
#define KILN_SOURCE_STANDARD_H

#include "source/source.h"

/* Appends name, text, name, text, ... of all headers that a compiler is to have in memory: the source's own, then
 * those of the library whose names the source has not taken. But for CUDA's, a file in one of the user's directories
 * comes before a header of ours with its name. As a list is: out->bytes.failed tells. */
void kiln__standard_headers(const kiln__unit *source, kiln__list *out);

/* A digest of them all, in hexadecimal: the same for equal headers of the same names. Made once in a process. A
 * static string. */
const char *kiln__standard_id(void);

#endif
