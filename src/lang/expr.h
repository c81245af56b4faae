/* The expressions of specs: "hardsigmoid", "hardtanh(-2,2)", "gelu(x + bias) * gate".
 *
 * They are those of lang/real.h and name their inputs themselves: up to KILN__INPUTS_MAX arrays, in the order in which
 * they are named first, and x, y, z in that order where there is no other. An op at the outermost call may leave out
 * all its inputs; they are x, y, z then. Parameters of ops are numbers or scalars, by their place or by name (hi=2). */
#ifndef KILN_LANG_EXPR_H
#define KILN_LANG_EXPR_H

#include "lang/real.h"

/* Reads an expression. Errors: KILN_EOP with the place and the closest names, KILN_ENOMEM; *out has no nodes then. */
kiln_status kiln__expr_parse(kiln__real *out, const kiln__op_table *table, const char *text, size_t length,
                             kiln_report *report);

/* Canonical text: every parameter spelt out, no blanks, no parentheses that C's precedence makes needless; x is left
 * out where an outermost op of one input takes it. `named`: with the names of the inputs, else they are x, y, z.
 * Nothing where there are no nodes. */
void kiln__expr_format(const kiln__real *expr, const kiln__op_table *table, bool named, kiln__text *out);

/* The same text with a call around each output: "mean(x*y)". No op of several outputs stands outermost. */
void kiln__expr_format_calls(const kiln__real *expr, const kiln__op_table *table, const char *function,
                             kiln__text *out);

/* Appends a call of another op with those arguments of the outermost op that have the same names: "OTHER(t,-100.0)".
 * False, and nothing, where the outermost is no single op, or has no argument of one of those names. */
bool kiln__expr_format_other(const kiln__real *expr, const kiln__op_table *table, const kiln__op *other,
                             kiln__text *out);

/* The first op or function that math=portable cannot build; NULL: it can build all. */
const char *kiln__expr_unportable(const kiln__real *expr, const kiln__op_table *table);

#endif
