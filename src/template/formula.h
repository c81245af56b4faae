/* Integer formulas of template declarations: "elems % vector == 0", "sm == 0 ? 1024 : 128", "max(16 / bytes, vector)".
 *
 * C's operators ?: || && == != < <= > >= + - * / % ! unary - and parentheses on 64-bit integers; functions min, max,
 * gcd; names of variables. Pure. */
#ifndef KILN_TEMPLATE_FORMULA_H
#define KILN_TEMPLATE_FORMULA_H

#include "base/report.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a variable. False if there is no such name. */
typedef bool (*kiln__formula_lookup)(const void *data, const char *name, size_t length, int64_t *value);

/* Evaluates a formula. On failure (syntax, unknown name, division by zero, overflow, nesting deeper than 64) false and
 * one line in problem. Names in a branch that is not taken must exist all the same. */
bool kiln__formula_eval(const char *formula, kiln__formula_lookup lookup, const void *data, int64_t *out, char *problem,
                        size_t size);

/* Checks syntax and names without calculating: true if the formula can have a value. */
bool kiln__formula_check(const char *formula, kiln__formula_lookup lookup, const void *data, char *problem,
                         size_t size);

/* Calls fn with each variable's name in the formula; used to see whether a constraint can be checked yet. */
void kiln__formula_names(const char *formula, void (*fn)(void *data, const char *name, size_t length), void *data);

#endif
