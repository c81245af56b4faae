/* What a compiler made. */
#ifndef KILN_BACKEND_IMAGE_H
#define KILN_BACKEND_IMAGE_H

#include "spec/unit.h"
#include "store/entry.h"

/* Zero-initialised is empty; owned by whoever holds it. */
typedef struct kiln__image {
    void *binary; /* a cubin, or a shared object on the cpu */
    size_t binary_length;
    char *ptx; /* NULL on the cpu */
    size_t ptx_length;
    char *log;                                  /* the compiler's log, "" or NULL if it said nothing */
    char toolchain[KILN__ENTRY_TOOLCHAIN_SIZE]; /* the compiler that made it */
    /* Of a user's own source alone, NULL for others. */
    char *functions; /* as asked for, one a line */
    char *names;     /* what these are called in the code, one a line */
    char *reads;     /* what the compile has read (source/reads.h), NULL if it was not watched */
    bool unsettled;  /* files changed while it went on: what was read cannot be told for sure */
} kiln__image;

void kiln__image_fini(kiln__image *image);

/* Points an entry for `unit` into the image: sections "spec", "cubin" and "ptx" or "object", "names" (entry points,
 * one a line), "functions" for a user's own source, and "log" if there is one. `names` receives the text of that
 * section and must live as long as the entry. The key is left to the caller. KILN_ENOMEM. */
kiln_status kiln__image_describe(kiln__entry *out, const kiln__image *image, const kiln__unit *unit, kiln__text *names);

#endif
