/* The derivative of an op, as the definition of another one: reverse accumulation over its expression. Pure. */
#ifndef KILN_LANG_DERIVE_H
#define KILN_LANG_DERIVE_H

#include "base/text.h"
#include "lang/real.h"

/* An op and its inputs. An output or an input has one value for all elements of an axis that the op reduces, or it
 * varies along the axis. */
typedef struct kiln__derivation {
    const kiln__real *real; /* the expression of a spec */
    const kiln__op_table *ops;
    bool inputs[KILN__INPUTS_MAX], outputs[KILN__OUTPUTS_MAX]; /* whether it varies */
    uint64_t wanted;                                           /* the inputs, as bits */
    bool wide;                                                 /* some input is float64 */
} kiln__derivation;

/* Appends "(d1, ..., i1, ...; s1=0, ...) = (...) where ...", which defines an op behind a name. For each wanted input
 * the op gives the sum over the outputs of the gradient dK times the derivative of output K. i1, ... are the inputs,
 * and s1, ... the scalars. Where a result has one value for an axis along which its input varies, this is that of each
 * element; where the input has one value, the result is the sum over the axis.
 *
 * An op NAME of one input with an op NAME_backward(grad, x) or (grad, y) is derived by that: x is the input, y the
 * result. Other ops are derived as their definitions. Ties of min and max share a gradient, as do those of reductions.
 * Errors: KILN_EOP (a function without a derivative, an expression that is too large), KILN_ENOMEM. */
kiln_status kiln__derive(const kiln__derivation *d, kiln__text *out, kiln_report *report);

#endif
