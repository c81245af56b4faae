/* Integer formulas of template declarations: "elems % vector == 0", "sm == 0 ? 1024 : 128", "(n + tile - 1) / tile".
 *
 * C's operators on 64-bit integers (lang/syntax.h), the functions min, max, gcd and pow2, and names of variables.
 * Overflow and division by zero have no value; a branch that is not taken needs none. Pure. */
#ifndef KILN_LANG_FORMULA_H
#define KILN_LANG_FORMULA_H

#include "lang/word.h"
#include <kiln/kiln.h>
#include <stdint.h>

/* The value of a variable. False if there is no such name. */
typedef bool (*kiln__formula_lookup)(const void *data, const char *name, size_t length, int64_t *value);

/* Calculates a formula. On failure `problem` gets one line. KILN_ESPEC: syntax, unknown name, division by zero,
 * overflow, nesting deeper than 64. Names in a branch that is not taken must exist all the same. KILN_ENOMEM. */
kiln_status kiln__formula_eval(const char *formula, kiln__formula_lookup lookup, const void *data, int64_t *out,
                               char *problem, size_t size);

/* Checks syntax and names without calculating. KILN_ESPEC, KILN_ENOMEM. */
kiln_status kiln__formula_check(const char *formula, kiln__formula_lookup lookup, const void *data, char *problem,
                                size_t size);

/* Finds the next name of a variable in the text at *at, and moves *at behind it. False: there is none. */
bool kiln__formula_next_name(const char **at, kiln__word *name);

/* ---- Compiled formulas, for numbers that are known later --------------------------------------------------------- */

enum { KILN__SLOTS_MAX = 192, KILN__FORMULAS_MAX = 64, KILN__VARIABLES_MAX = 16 };

/* One step of a calculation: an action and the slots of its operands. Step number i writes slot `variables` + i. */
typedef struct kiln__step {
    uint8_t action, a, b, c;
} kiln__step;

/* An affine formula: (variable + add) / divide, or add / divide alone. Most formulas of launches are, and take no
 * step. */
typedef struct kiln__line {
    uint32_t variable;   /* KILN__VARIABLES_MAX: none */
    int32_t add, divide; /* not below 0; divide is 0 for any other formula */
    int32_t most_added;  /* on the way to the sum: 128 in (n + 128 - 1) / 128 */
} kiln__line;

/* Formulas compiled together. The first slots are the variables, then come the results of the steps; constants stand
 * at the end, the first in the last slot. There is no jump: a step without a value for an operand has no value either,
 * and a choice passes on the operand that it chooses. Plain data. */
typedef struct kiln__formulas {
    uint8_t variables, steps, constants, count;
    kiln__line line[KILN__FORMULAS_MAX];
    uint8_t result[KILN__FORMULAS_MAX]; /* the slot of each formula that is no line */
    kiln__step step[KILN__SLOTS_MAX];
    int64_t constant[KILN__SLOTS_MAX];
} kiln__formulas;

/* A number, or the reason why there is none. */
typedef struct kiln__number_or {
    int64_t value;
    const char *missing; /* NULL: there is one; else "overflow" or "division by zero" */
} kiln__number_or;

/* The values of formulas for some values of their variables. */
typedef struct kiln__formula_values {
    kiln__number_or slot[KILN__SLOTS_MAX];
} kiln__formula_values;

/* Adds a formula to formulas that begin as zeros; *index is its number. `lookup` knows the names that have a value now,
 * `names` are the variables, the same for each formula, at most KILN__VARIABLES_MAX. On failure `problem` gets one
 * line. Errors: KILN_ESPEC, also for too many steps in all, and KILN_ENOMEM. */
kiln_status kiln__formulas_add(kiln__formulas *out, const char *formula, kiln__formula_lookup lookup, const void *data,
                               const char *const *names, uint32_t name_count, uint32_t *index, char *problem,
                               size_t size);

static inline void kiln__formulas_set(kiln__formula_values *values, uint32_t variable, int64_t value)
{
    values->slot[variable] = (kiln__number_or){ value, NULL };
}

/* Calculates the steps, once all variables are set: some nanoseconds each, no memory, no lock. */
void kiln__formulas_calculate(const kiln__formulas *formulas, kiln__formula_values *values);

/* The value of a line for any value of its variable. */
kiln__number_or kiln__line_value(const kiln__line *line, int64_t variable);

/* The value of a formula. */
static inline kiln__number_or kiln__formulas_value(const kiln__formulas *formulas, const kiln__formula_values *values,
                                                   uint32_t index)
{
    const kiln__line *line = &formulas->line[index];
    if (line->divide == 0)
        return values->slot[formulas->result[index]];
    int64_t variable = line->variable < KILN__VARIABLES_MAX ? values->slot[line->variable].value : 0;
    if ((uint64_t)variable > INT32_MAX) /* else 32 bits suffice, whose division is faster */
        return kiln__line_value(line, variable);
    return (kiln__number_or){ ((uint32_t)variable + (uint32_t)line->add) / (uint32_t)line->divide, NULL };
}

#endif
