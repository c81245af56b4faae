/* The ops: each op's arithmetic stands here and nowhere else. The GPU kernels, the cpu kernels, the list of ops and
 * their documentation all come from this text.
 *
 * An op is a line "//! op NAME(inputs; params=defaults)", lines of documentation that begin with "//!", and the C
 * function kiln_op_NAME of the inputs and then the params. It is built from the primitives of real.h and from no other
 * op, and is both C17 and CUDA C++17. A unit takes only the ops that it uses. */
#ifndef KILN_OPS_H
#define KILN_OPS_H

#include "real.h"

//! op copy(x)
//! The identity: x as it is.
//! Definition: out = x; NaN is kept.
KILN_FN kiln_real kiln_op_copy(kiln_real x)
{
    return x;
}

//! op differs(x, y)
//! 1 where x and y are not the same value, else 0: any NaN is the same as any NaN, -0 is not +0.
//! Definition: the bits of x and y are equal, or both are NaN.
KILN_FN kiln_real kiln_op_differs(kiln_real x, kiln_real y)
{
    return kiln_bits(x) == kiln_bits(y) || (x != x && y != y) ? 0 : 1;
}

//! op add(x, y)
//! The sum of x and y.
//! Definition: PyTorch add with alpha=1: x + y, rounded once.
KILN_FN kiln_real kiln_op_add(kiln_real x, kiln_real y)
{
    return kiln_add(x, y);
}

//! op mul(x, y)
//! The product of x and y.
//! Definition: PyTorch mul: x * y, rounded once.
KILN_FN kiln_real kiln_op_mul(kiln_real x, kiln_real y)
{
    return kiln_mul(x, y);
}

//! op relu6(x)
//! Clamps x to [0, 6]; NaN is kept, -0 becomes +0.
//! Definition: PyTorch aten clamp: fminf(fmaxf(x, 0), 6).
KILN_FN kiln_real kiln_op_relu6(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}

//! op hardtanh(x; lo=-1, hi=1)
//! Clamps x to [lo, hi]; NaN is kept, -0 is below +0, and lo > hi gives hi.
//! Definition: PyTorch aten clamp: fminf(fmaxf(x, lo), hi).
KILN_FN kiln_real kiln_op_hardtanh(kiln_real x, kiln_real lo, kiln_real hi)
{
    return kiln_min(kiln_max(x, lo), hi);
}

//! op hardsigmoid(x)
//! relu6(x + 3) / 6, as PyTorch computes it; NaN is kept.
//! Definition: PyTorch: min(max(x + 3, 0), 6) * s, where s is 1/6 rounded to float32 in every dtype, f64 included.
KILN_FN kiln_real kiln_op_hardsigmoid(kiln_real x)
{
    kiln_real shifted = kiln_add(x, (kiln_real)3);
    kiln_real clamped = kiln_min(kiln_max(shifted, (kiln_real)0), (kiln_real)6);
    return kiln_mul(clamped, (kiln_real)0x1.555556p-3);
}

//! op hardsigmoid_linear(x; alpha=0.2, beta=0.5)
//! Clamps alpha * x + beta to [0, 1]; NaN is kept, -0 becomes +0.
//! Definition: Keras 2 and ONNX HardSigmoid: min(max(alpha * x + beta, 0), 1), the product rounded before the sum.
KILN_FN kiln_real kiln_op_hardsigmoid_linear(kiln_real x, kiln_real alpha, kiln_real beta)
{
    kiln_real line = kiln_add(kiln_mul(alpha, x), beta);
    return kiln_min(kiln_max(line, (kiln_real)0), (kiln_real)1);
}

//! end

#endif
