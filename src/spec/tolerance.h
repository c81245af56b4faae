/* Tolerances: how far results may be apart and still agree. A template declares one, or a host gives one. Pure. */
#ifndef KILN_SPEC_TOLERANCE_H
#define KILN_SPEC_TOLERANCE_H

#include "base/number.h"
#include "lang/dtype.h"
#include "lang/word.h"
#include <kiln/kernel.h>

enum { KILN__TOLERANCE_SIZE = 3 * (KILN__NUMBER_SIZE + 10) }; /* room for the text of any tolerance, with its NUL */

/* All bounds are 0: only equal bits agree. Also of a tolerance that is not declared, which is all zero. */
bool kiln__tolerance_is_exact(const kiln_tolerance *tolerance);

/* Reads pairs NAME NUMBER in any order, "ulp 2 absolute 1e-6", each once. False with the reason in `problem`. */
bool kiln__tolerance_parse(kiln_tolerance *out, kiln__word text, char *problem, size_t size);

/* Whether all bounds are finite and 0 or more. */
bool kiln__tolerance_is_valid(const kiln_tolerance *tolerance);

/* Writes the bounds that are not 0, "ulp 2 absolute 1e-6", as kiln__tolerance_parse reads them; "" where all are 0. */
void kiln__tolerance_format(char out[KILN__TOLERANCE_SIZE], const kiln_tolerance *tolerance);

/* Whether two elements of a dtype agree. kernel_templates/compare.cu and its twin have the same rule. Two NaN agree, an
 * infinity agrees with itself alone, and -0 agrees with +0 unless the tolerance is exact. */
bool kiln__tolerance_agrees(const kiln_tolerance *tolerance, double got, double want, kiln__dtype dtype);

#endif
