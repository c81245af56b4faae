/* From a source to what it compiles to, where that depends on files: a list of what earlier compiles of it have read
 * is kept beside the kernels, as an entry whose key is all that is known before any file is looked at. A list whose
 * files are as they were tells which contents went into the kernel, and with them the kernel's key. No path of a
 * directory is in either, nor any time.
 *
 * Of one source each store may have another list: a pack knows of other states than a cache does. So all of them are
 * asked, and what is written is what all of them know. */
#ifndef KILN_JIT_DIRECT_H
#define KILN_JIT_DIRECT_H

#include "backend/image.h"
#include "jit/filesum.h"
#include "source/source.h"
#include "store/tiers.h"

/* Whether what a unit compiles to depends on files. */
bool kiln__direct_applies(const kiln__unit *unit);

/* A source, while it is looked up and compiled. Zero-initialised but for the first three, which are borrowed. */
typedef struct kiln__direct {
    kiln__tiers *tiers;
    kiln__filesums *sums;
    const kiln__unit *unit;
    kiln__text base;      /* the key text of a kernel that has read nothing: the caller's to fill */
    kiln__text list_text; /* that of the lists */
    kiln__key list;       /* their key; its toolchain is the caller's to set; empty: any */
} kiln__direct;

/* Makes the key of the lists. KILN_ENOMEM. */
kiln_status kiln__direct_list_key(kiln__direct *self);
void kiln__direct_fini(kiln__direct *self);

/* Finds the kernel of the source in the stores, as files are now. Retained, or NULL. `key` and `text` (empty
 * before) are the kernel's, which has the contents of files in it; *tier as kiln__tiers_get gives it. `why` is
 * raised as by a store. */
kiln__blob *kiln__direct_fetch(const kiln__direct *self, kiln__key *key, kiln__text *text, size_t *tier,
                               kiln__miss *why);

/* The same key from what a compile has just read; its toolchain stays as it is. KILN_ENOMEM. */
kiln_status kiln__direct_key(const kiln__direct *self, const char *reads, kiln__key *out, kiln__text *text);

/* Adds what a compile has read to what all stores know, in front: it is what the files are now. A reader meanwhile
 * finds the list from before or the new one. self->list.toolchain is set. */
void kiln__direct_remember(const kiln__direct *self, const char *reads);

/* What two lists of one key know together, as far as there is room, those of the first in front. NULL with KILN_OK:
 * no more than the first knows. KILN_ENOMEM. */
kiln_status kiln__direct_merge(kiln__blob **out, kiln__blob *first, kiln__blob *second);

#endif
