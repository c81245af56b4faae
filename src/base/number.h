/* Numbers in text, independent of the locale and of the host's floating-point modes. Any thread. */
#ifndef KILN_BASE_NUMBER_H
#define KILN_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KILN__NUMBER_SIZE = 40 }; /* room for any number that the functions below write, with its NUL */

/* Reads a whole decimal number, digits only, from exactly `length` characters. False if it is not one or too large. */
bool kiln__number_parse_uint(const char *text, size_t length, uint64_t *out);

/* Reads a decimal or hexadecimal floating-point number, "inf" or "-inf" (a '+' may stand for the '-'), from exactly
 * `length` characters, rounded to nearest; values too small become subnormal or zero. False for anything else: NaN,
 * values too large ("1e999"), white space and text of 2048 characters or more included. */
bool kiln__number_parse(const char *text, size_t length, double *out);

/* Whether a value is a whole number within 64 bits, and whether it needs more than 32. By its bits, so that no flag of
 * the host's is raised. */
bool kiln__number_is_whole(double value);
bool kiln__number_is_wide(double value);

/* The logarithm of a number to base 2, rounded to the nearest whole number; 0 for 0. */
unsigned kiln__number_octave(uint64_t n);

/* A number above 64 rounded up to about three significant bits, so that few stand for all. Its powers of two up to 16
 * stay: 4112 becomes 5120, and 4099 becomes 5121. */
uint64_t kiln__number_step(uint64_t n);

/* The decimal text with the fewest digits that reads back as the same double: "0.2", "-1", "100", "1e-30", "inf".
 * Plain from 1e-4 to below 1e16, else with an exponent. -0 is "-0"; NaN is "nan". */
void kiln__number_format(char out[KILN__NUMBER_SIZE], double value);

/* The value as a C and CUDA hexadecimal literal: "0x1.999999999999ap-3". Finite values only. */
void kiln__number_format_hex(char out[KILN__NUMBER_SIZE], double value);

#endif
