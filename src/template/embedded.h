/* The kernel templates, and the standard headers for sources, embedded in the library when it is built. */
#ifndef KILN_TEMPLATE_EMBEDDED_H
#define KILN_TEMPLATE_EMBEDDED_H

#include <stddef.h>

/* One file, byte for byte. */
typedef struct kiln__embedded_file {
    const char *name; /* in its directory: "elementwise.cu" */
    const char *text; /* followed by a NUL that length does not count */
    size_t length;
    const char *sha256; /* in hexadecimal, of what of it goes into units: all but the declarations at its beginning */
} kiln__embedded_file;

/* kernel_templates/ */
extern const kiln__embedded_file kiln__embedded_files[];
extern const size_t kiln__embedded_count;
extern const char kiln__embedded_id[]; /* a digest of them all */

/* kernel_templates/std/ */
extern const kiln__embedded_file kiln__standard_files[];
extern const size_t kiln__standard_count;
extern const char kiln__standard_id[];

#endif
