"""Gradients of ops. The library derives an op, and sums over dimensions along which an input was broadcast are made here."""

import ctypes
import math
from ctypes import byref, c_void_p

from ._blocks import dense_strides, find_outputs_with_axis, make_block
from ._library import define_gradient, lib, mine, must, session

PLANS_MAX = 1024  # of an op


class Gradient:
    """The op that gives the gradients of some inputs, for arrays of some types and shapes."""

    def __init__(self, op, facts, wanted):
        from ._ops import op as op_of  # which imports this module
        self.session, call, count = session(), c_void_p(), len(facts)
        words, self.keep = make_block(facts)

        def derive(service):
            must(lib.kiln_apply_gradient(byref(call), service.service, op.spec, words, count, wanted, mine.pointer))
            try:
                return ctypes.string_at(call.value).decode().removeprefix("op=")
            finally:
                lib.kiln_text_free(call)

        self.op = op_of(define_gradient(derive))
        most = max(len(shape) for _, shape, _, _ in facts)
        self.shapes = [shapes for _, *shapes in find_outputs_with_axis(op.spec, words, count, most)]

    def fit(self, kind, grads):
        """The gradients of the outputs with the axis that the op reduces."""
        if len(grads) != len(self.shapes):
            raise TypeError(f"the op has {len(self.shapes)} outputs, and grad has {len(grads)} arrays")
        for grad, shapes in zip(grads, self.shapes):
            if not hasattr(grad, "shape"):
                raise TypeError(f"grad has an array for each output, got {type(grad).__name__}")
            if tuple(grad.shape) not in shapes:
                raise ValueError(f"grad has the shape {tuple(grad.shape)}, and the output {shapes[0]}")
        return [kind.reshape(grad, shape) for grad, (_, shape) in zip(grads, self.shapes)]


def gradients(op, kind, inputs, grads, numbers, wanted):
    """The gradients of the inputs whose bits are set in `wanted`, in the types and shapes of these."""
    facts = [(code, shape, dense_strides(shape), device) for code, shape, _, device in map(kind.facts, inputs)]
    key = wanted, *((code, shape) for code, shape, _, _ in facts)
    found = op.gradients_by_key.get(key)
    if found is None or found.session is not session():
        if len(op.gradients_by_key) >= PLANS_MAX:  # shapes may go on changing
            op.gradients_by_key.clear()
        found = op.gradients_by_key[key] = Gradient(op, facts, wanted)
    results = found.op(*found.fit(kind, grads), *inputs, **dict(zip(found.op.scalars, numbers)))
    results = results if isinstance(results, tuple) else (results,)
    chosen = [(k, array) for k, array in enumerate(inputs) if wanted >> k & 1]
    return [_fit(kind, op, k, result, array) for result, (k, array) in zip(results, chosen)]


def _fit(kind, op, k, result, array):
    """The gradient of input k in its type and shape. A column may lack the axis, which the gradient has."""
    if op.columns[k] and result.ndim > array.ndim:
        if math.prod(result.shape) != math.prod(array.shape):
            raise TypeError(f"{op}: the gradient of {op.inputs[k]} takes it with the extent 1 along the axis")
        result = kind.reshape(result, array.shape)
    return kind.fit(result, array)
