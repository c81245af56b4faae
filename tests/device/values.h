/* Inputs for the device tests: every special value of a dtype, then random bit patterns and ordinary numbers. */
#ifndef KILN_TESTS_DEVICE_VALUES_H
#define KILN_TESTS_DEVICE_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of an element of a dtype, "f32". */
size_t values_size(const char *dtype);

/* Fills n elements. `stream` selects another order of the special values, so that two inputs meet in all pairs. The
 * first 65,536 elements of a 16-bit dtype and stream 0 are all its bit patterns; of an 8-bit one those of streams 0
 * and 1 are all pairs. Deterministic. */
void values_fill(void *out, size_t n, const char *dtype, unsigned stream);

/* Stores a number as element i, in a real dtype. Some bits of a 16-bit dtype may be cut off. */
void values_store(void *out, size_t i, const char *dtype, double value);

/* Index of the first element that differs, or n. Any NaN equals any NaN, else bits decide. */
size_t values_compare(const void *a, const void *b, size_t n, const char *dtype);

#endif
