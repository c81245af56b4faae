/* Checks on a cubin before the driver sees it: the driver's load call takes no length, so an image that ends early
 * would be read beyond its end. */
#ifndef KILN_BACKEND_CUDA_CUBIN_H
#define KILN_BACKEND_CUDA_CUBIN_H

#include <stdbool.h>
#include <stddef.h>

enum { KILN__CUBIN_REASON_SIZE = 128 };

/* True if the bytes are a 64-bit little-endian CUDA ELF whose headers, sections and segments all lie within `length`;
 * else `reason` says what is wrong. Bytes need no alignment. Says nothing of what the sections hold. */
bool kiln__cubin_check(const void *bytes, size_t length, char reason[KILN__CUBIN_REASON_SIZE]);

/* Whether a checked cubin has code for the entry point `name`. */
bool kiln__cubin_has_entry(const void *bytes, const char *name);

#endif
