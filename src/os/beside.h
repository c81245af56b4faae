/* Files that are installed with the library, found from where it lies: programs that it starts and modules that it
 * opens. They are as good as its own code, so that others must not be able to change them. */
#ifndef KILN_OS_BESIDE_H
#define KILN_OS_BESIDE_H

#include "base/text.h"
#include <limits.h>

typedef enum kiln__beside_result {
    KILN__BESIDE_FOUND,
    KILN__BESIDE_ABSENT, /* `looked` says where it was looked for */
    KILN__BESIDE_REFUSED /* others may change the file at `path`: `why` */
} kiln__beside_result;

/* End it with kiln__text_fini(&looked). */
typedef struct kiln__beside {
    char path[PATH_MAX]; /* absolute; of a file that was found, links resolved */
    char why[128];
    kiln__text looked; /* paths, with ", " between; failed: out of memory */
} kiln__beside;

/* Looks for a file at the places that the build gives, seen from the directory of the shared library, or of the program
 * that the library is linked into. `mode` is of access(2): X_OK for a program, R_OK for a module. */
kiln__beside_result kiln__beside_find(const char *name, int mode, kiln__beside *out);

/* The same for a file that the host names by an absolute path. */
kiln__beside_result kiln__beside_check(const char *path, int mode, kiln__beside *out);

#endif
