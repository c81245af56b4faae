"""Gradients of ops. The library derives an op, and sums over dimensions along which an input was broadcast are made here."""

import ctypes
from ctypes import byref, c_void_p

from ._blocks import dense_strides, find_outputs, make_block
from ._library import define, lib, mine, must, session


class Gradient:
    """The op that gives the gradients of some inputs, for arrays of some types and shapes."""

    def __init__(self, op, facts, wanted):
        self.session, call, count = session(), c_void_p(), len(facts)
        words, self.keep = make_block(facts)

        def derive(service):
            must(lib.kiln_apply_gradient(byref(call), service.service, op.spec, words, count, wanted, mine.pointer))
            try:
                return ctypes.string_at(call.value).decode().removeprefix("op=")
            finally:
                lib.kiln_text_free(call)

        self.op = type(op)(define(derive))  # in a child of fork, too
        # The shapes of the outputs with the axis that the op reduces.
        most = max(len(shape) for _, shape, _, _ in facts)
        outputs = find_outputs(op.spec, words, count)
        if any(len(shape) < most for _, shape in outputs):
            outputs = find_outputs(op.spec + b" keep=1", words, count)
        self.shapes = [shape for _, shape in outputs]


def gradients(op, kind, inputs, grads, numbers, wanted):
    """The gradients of the inputs whose bits are set in `wanted`, in the types and shapes of these."""
    facts = [(code, shape, dense_strides(shape), device) for code, shape, _, device in map(kind.facts, inputs)]
    key = wanted, *((code, shape) for code, shape, _, _ in facts)
    found = op.gradients_by_key.get(key)
    if found is None or found.session is not session():
        found = op.gradients_by_key[key] = Gradient(op, facts, wanted)
    grads = [kind.reshape(grad, shape) for grad, shape in zip(grads, found.shapes)]
    results = found.op(*grads, *inputs, **dict(zip(found.op.scalars, numbers)))
    results = results if isinstance(results, tuple) else (results,)
    chosen = [array for k, array in enumerate(inputs) if wanted >> k & 1]
    return [kind.fit(result, array) for result, array in zip(results, chosen)]
