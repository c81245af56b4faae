/* Integer formulas of template declarations: "elems % vector == 0", "sm == 0 ? 1024 : 128", "(n + tile - 1) / tile".
 *
 * C's operators on 64-bit integers (lang/syntax.h), the functions min, max and gcd, and names of variables. Overflow and
 * division by zero have no value; a branch that is not taken needs none. Pure. */
#ifndef KILN_LANG_FORMULA_H
#define KILN_LANG_FORMULA_H

#include "base/report.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a variable. False if there is no such name. */
typedef bool (*kiln__formula_lookup)(const void *data, const char *name, size_t length, int64_t *value);

/* Calculates a formula. KILN_ESPEC with one line in `problem`: syntax, unknown name, division by zero, overflow, nesting deeper
 * than 64. Names in a branch that is not taken must exist all the same. KILN_ENOMEM. */
kiln_status kiln__formula_eval(const char *formula, kiln__formula_lookup lookup, const void *data, int64_t *out,
                               char *problem, size_t size);

/* Checks syntax and names without calculating. KILN_ESPEC, KILN_ENOMEM. */
kiln_status kiln__formula_check(const char *formula, kiln__formula_lookup lookup, const void *data, char *problem,
                                size_t size);

/* Calls fn with each variable's name in the formula; used to see whether a constraint can be checked yet. */
void kiln__formula_names(const char *formula, void (*fn)(void *data, const char *name, size_t length), void *data);

/* ---- Compiled formulas: of numbers that are known later ---------------------------------------------------------- */

enum { KILN__SLOTS_MAX = 192, KILN__FORMULAS_MAX = 64, KILN__VARIABLES_MAX = 16 };

/* One step of a calculation: an action and the slots of its operands. Step number i writes slot `variables` + i. */
typedef struct kiln__step {
    uint8_t action, a, b, c;
} kiln__step;

/* Formulas compiled together. The first slots are the variables, then come the results of the steps; constants stand at the
 * end, the first in the last slot. There is no jump: a step whose operand has no value has none either, and a choice passes on
 * what it chooses. Plain data. */
typedef struct kiln__formulas {
    uint8_t variables, steps, constants, count;
    uint8_t result[KILN__FORMULAS_MAX]; /* the slot of each formula */
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

/* Begins as zeros. Adds a formula; *index is its number. `lookup` knows the names that have a value now, `names` are the
 * variables, the same for each formula, at most KILN__VARIABLES_MAX. KILN_ESPEC with one line in `problem`, also where the
 * formulas have too many steps; KILN_ENOMEM. */
kiln_status kiln__formulas_add(kiln__formulas *out, const char *formula, kiln__formula_lookup lookup, const void *data,
                               const char *const *names, uint32_t name_count, uint32_t *index, char *problem,
                               size_t size);

/* Calculates them all: some nanoseconds a step, no memory, no lock. */
void kiln__formulas_calculate(const kiln__formulas *formulas, const int64_t *variables, kiln__formula_values *out);

/* The value of a formula. */
static inline kiln__number_or kiln__formulas_value(const kiln__formulas *formulas, const kiln__formula_values *values,
                                                   uint32_t index)
{
    return values->slot[formulas->result[index]];
}

#endif
