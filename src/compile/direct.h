/* From a source to the key of what it compiles to, where that depends on files: a list of what earlier compiles of it have read is
 * kept beside the kernels, as an entry whose key is all that is known before any file is looked at. A list whose files are
 * as they were tells which contents went into the kernel, and with them the kernel's key. No path of a directory is in either,
 * nor any time. */
#ifndef KILN_COMPILE_DIRECT_H
#define KILN_COMPILE_DIRECT_H

#include "backend/image.h"
#include "compile/filesum.h"
#include "source/source.h"
#include "store/tiers.h"

/* Whether what a unit compiles to depends on files. */
bool kiln__direct_applies(const kiln__unit *unit);

/* The key of the list of a source, from the key text of a kernel that has read nothing. `text` is empty before. KILN_ENOMEM. */
kiln_status kiln__direct_list_key(kiln__key *out, kiln__text *text, const kiln__text *base);

/* Finds the key of the kernel that the source compiles to as files are now, which has their contents in it. list->toolchain may be
 * empty: any. False if nothing is known; why (may be NULL) is raised as by a store. */
bool kiln__direct_find(kiln__tiers *tiers, kiln__filesums *sums, const kiln__unit *unit, const kiln__key *list,
                       const kiln__text *base, kiln__key *out, kiln__text *text, kiln__miss *why);

/* The same key from what a compile has just read. KILN_ENOMEM. */
kiln_status kiln__direct_key(const kiln__text *base, const char *reads, kiln__key *out, kiln__text *text);

/* Adds what a compile has read to the list, in front: it is what the files are now. list->toolchain is set. */
void kiln__direct_remember(kiln__tiers *tiers, const kiln__unit *unit, const kiln__key *list,
                           const kiln__text *list_text, const char *reads);

/* Appends the two include directories of CUDA's toolkit, "cuda" and "cccl", to `places`, with a path that leads to nothing for one
 * that is not there: found beside the NVRTC at `nvrtc` (may be ""), as toolkits and wheels have them, else under CUDA_PATH, CUDA_HOME
 * or /usr/local/cuda. */
void kiln__direct_find_cuda(const char *nvrtc, kiln__list *places);

#endif
