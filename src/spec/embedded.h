/* The kernel templates, and the standard headers for sources, embedded in the library when it is built. */
#ifndef KILN_SPEC_EMBEDDED_H
#define KILN_SPEC_EMBEDDED_H

#include <stddef.h>

/* One file, byte for byte. */
typedef struct kiln__embedded_file {
    const char *name; /* in its directory: "elementwise.cu" */
    const char *text; /* followed by a NUL that length does not count */
    size_t length;
} kiln__embedded_file;

/* kernel_templates/ */
extern const kiln__embedded_file kiln__embedded_files[];
extern const size_t kiln__embedded_count;

/* kernel_templates/std/ */
extern const kiln__embedded_file kiln__standard_files[];
extern const size_t kiln__standard_count;

#endif
