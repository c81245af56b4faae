"""Ops by text: kiln.op("gelu(x + b) * gate") is a function of arrays."""

import functools
import re
import struct
from ctypes import addressof
from threading import get_ident
from typing import Any, Optional, Sequence

from . import _arrays
from ._arrays import find_torch, kind_of
from ._blocks import TENSOR, WORDS, dense_strides, find_outputs, make_block
from ._gradients import PLANS_MAX, gradients
from ._library import (EALIGN, EINVAL, EOP, ROLE_IN, ROLE_SCALAR, Error, as_text, calls_of, define, lib, mine, must,
                       parts_of, session, spec_params, text_bytes)


class Plan:
    """How a call of an op runs on arrays of some types, shapes, strides and device.

    The library reads a block of tensors, of which a call sets the addresses of the elements. Each thread has its own."""

    def __init__(self, op, kind, inputs, outs):
        self.op, self.kind, self.copies, self.blocks = op, kind, False, {}
        self.session = session()
        facts = [kind.facts(array) for array in inputs]
        self.device = facts[0][3] if facts else kind.facts(outs[0])[3]
        self.in_count = len(inputs)
        if outs is None:
            words, _keep = make_block(facts)
            self.facts = [(code, shape, dense_strides(shape), self.device)
                          for code, shape in find_outputs(op.spec, words, len(facts))]
            self.make = tuple(kind.maker(code, shape, inputs) for code, shape, _, _ in self.facts)
        else:
            self.facts, self.make = [kind.facts(array) for array in outs], None
        self.out_count = len(self.facts)
        self.facts += facts
        self.guard = kind.guard(self.device)

    def _new_block(self):
        words, keep = make_block(self.facts)
        ins = addressof(words) + self.out_count * TENSOR.size
        block = self.blocks[get_ident()] = words, addressof(words), ins, keep
        return block

    def run(self, inputs, outs, numbers):
        """The results of a call; `outs` where these are given."""
        if self.guard:
            with self.guard():
                return self._run(inputs, outs, numbers)
        return self._run(inputs, outs, numbers)

    def _run(self, inputs, outs, numbers):
        op, kind = self.op, self.kind
        numbers = op.pack(*numbers) if numbers else None
        if self.copies:
            inputs = list(map(kind.contiguous, inputs))
        results = outs or [make(*of) if isinstance(of, tuple) else make(inputs[of]) for make, of in self.make]
        words, outs_at, ins_at, _ = self.blocks.get(get_ident()) or self._new_block()
        i = 0
        for array in results:
            words[i] = kind.pointer(array)
            i += WORDS
        for array in inputs:
            words[i] = kind.pointer(array)
            i += WORDS
        status = _apply(self.session.service, op.spec, outs_at, self.out_count, ins_at, self.in_count, numbers,
                        op.scalar_count, kind.stream(self.device), mine.pointer)
        if status != 0:
            must(status)
        if kind.finish:
            kind.finish(self.device)
        return results

    def keep_in(self, calls, inputs):
        """Keeps the plan for calls in C."""
        current = self.kind.current_device if self.guard else None
        calls.keep(tuple(inputs), self.session.device(self.device), current, self.make,
                   tuple(code for code, _, _, _ in self.facts))


_apply = lib.kiln_apply


class Op:
    """f(x, ..., out=None, **scalars): computes an op on arrays. See op."""

    text: str
    inputs: "tuple[str, ...]"   # the names of its arrays
    columns: "tuple[bool, ...]"  # which of these it takes as columns, of one element for each row
    scalars: "tuple[str, ...]"  # the names of the numbers that each call gives

    def __init__(self, text: str) -> None:
        self.text = text
        if not text.strip():
            raise ValueError("the text has no op")
        self.spec = b"op=" + text_bytes(text)
        params, self.counts = spec_params(self.spec)
        self.inputs = tuple(name for name, role, _ in params if role == ROLE_IN)
        self.columns = tuple(column for _, role, column in params if role == ROLE_IN)
        self.scalars = tuple(name for name, role, _ in params if role == ROLE_SCALAR)
        self.input_count, self.scalar_count = len(self.inputs), len(self.scalars)
        self._plain_count = -1 if self.scalar_count > 0 else self.input_count  # of arguments that need no names
        self.pack = struct.Struct(f"@{self.scalar_count}d").pack
        self._plans, self.gradients_by_key = {}, {}
        self._calls = calls_of(self.spec, self.input_count, self.scalar_count)
        self._run = self._calls.run if self._calls else lambda inputs, numbers: None
        # The two ops that compute one with reduce=, one after the other, and that have gradients.
        parts = parts_of(self.spec) if re.search(r"\sreduce\s*=", text) else ()
        self.parts = [op(part.removeprefix("op=")) for part in parts]
        find_torch()

    def __repr__(self):
        return f"kiln.op({self.text!r})"

    def __reduce__(self):  # a copy is the same op, and another process makes its own
        return op, (self.text,)

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        numbers = ()
        if named or len(inputs) != self._plain_count:
            inputs, numbers = self._bind(inputs, named)
        if out is None and not _arrays.is_compiled():
            results = self._run(inputs, numbers)
            if results is not None:
                return results
        outs = out if out is None or isinstance(out, (tuple, list)) else (out,)
        if outs is not None and len(outs) == 0:
            raise TypeError("out has no arrays")
        if not inputs and outs is None:
            raise TypeError(f"{self} takes no arrays: give out")
        kind = kind_of(inputs[0] if inputs else outs[0])
        traces = kind.traces()
        records = not traces and kind.records(inputs)
        if self.parts and outs is None and (traces or records):
            return self._call_parts(inputs, numbers)
        if traces:
            return kind.trace(self, inputs, numbers, outs)
        if records:
            return kind.record(self, inputs, numbers, outs)
        return self.compute(kind, inputs, numbers, outs, out)

    def _call_parts(self, inputs, numbers):
        """The result by the calls of the parts, each of which is recorded or traced."""
        first, second = self.parts
        results = first(*inputs, **dict(zip(first.scalars, numbers)))
        return second(*(results if isinstance(results, tuple) else (results,)))

    def compute(self, kind, inputs, numbers, outs=None, out=None):
        """The results, which nothing records; `out` where outs are given."""
        if outs is None:
            results = self._run(tuple(inputs), numbers)
            if results is not None:
                return results
        key = kind.key(inputs)
        if outs is not None:
            of_outs = kind.key(outs)
            key = (key, of_outs) if key is not None and of_outs is not None else None
            if of_outs is not None:
                for array in outs:
                    kind.check_out(array)
        results, plan = None, self._plans.get(key)
        if plan is not None and plan.session is session():
            try:
                results = plan.run(inputs, outs, numbers)
                self._keep_in_c(plan, inputs)
            except Error as error:
                if error.status != EALIGN or plan.copies:  # no key of tensors says how they are aligned
                    raise
        if results is None:
            results = self._first(kind, key, inputs, outs, numbers)
        if outs is not None:
            for array in outs:
                kind.written(array)
            return out
        return results[0] if len(results) == 1 else tuple(results)

    def _bind(self, inputs, named):
        """Arrays and scalars in order, from those given by place and by name."""
        arrays = dict(zip(self.inputs, inputs))
        for name, value in named.items():
            if name in arrays or name not in (*self.inputs, *self.scalars):
                raise TypeError(f"{self} got {name!r} twice" if name in arrays else
                                f"{self} has no argument {name!r}: it takes {', '.join((*self.inputs, *self.scalars))}")
            arrays[name] = value
        missing = [name for name in (*self.inputs, *self.scalars) if name not in arrays]
        if len(inputs) > self.input_count or (missing and not named and self.scalar_count == 0):
            raise TypeError(f"{self} takes {self.input_count} arrays, got {len(inputs)}")
        if missing:
            raise TypeError(f"{self} misses {', '.join(missing)}")
        return tuple(arrays[name] for name in self.inputs), tuple(
            self._number(name, arrays[name]) for name in self.scalars)

    def _number(self, name, value):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise TypeError(f"{self}: {name} is no number: {error}") from None

    def gradients(self, /, *inputs: Any, grad: Any = None, wanted: "Optional[Sequence[str]]" = None,
                  **named: Any) -> "tuple[Any, ...]":
        """The gradients of inputs: the sum over the outputs of their gradients times their derivatives.

        grad: those of the outputs, an array or a tuple; None: ones. wanted: names of inputs; None: all of real numbers.
        Returns a tuple of arrays of the types and shapes of the wanted inputs. One kernel computes them, but for sums
        over dimensions along which an input was repeated."""
        inputs, numbers = self._bind(inputs, named)
        kind = self._one_kind(inputs)
        with kind.on(inputs[0]):
            return self._gradients(kind, list(map(kind.prepare, inputs)), numbers, grad, wanted)

    def _gradients(self, kind, inputs, numbers, grad, wanted):
        names = [name for name, array in zip(self.inputs, inputs) if kind.is_real(array)] if wanted is None else wanted
        if not names:
            raise TypeError(f"{self}: no input of real numbers is wanted")
        for name in names:
            if name not in self.inputs or not kind.is_real(inputs[self.inputs.index(name)]):
                raise TypeError(f"{self} has no input {name!r} of real numbers: it takes {', '.join(self.inputs)}")
        if grad is None:
            results = self.compute(kind, inputs, numbers)
            grad = tuple(map(kind.ones_like, results if isinstance(results, tuple) else (results,)))
        if self.parts:
            return self._gradients_of_parts(kind, inputs, grad, numbers, names)
        bits = sum(1 << self.inputs.index(name) for name in set(names))
        found = gradients(self, kind, inputs, grad if isinstance(grad, (tuple, list)) else (grad,), numbers, bits)
        by_name = dict(zip([name for name in self.inputs if name in names], found))
        return tuple(by_name[name] for name in names)

    def _gradients_of_parts(self, kind, inputs, grad, numbers, names):
        first, second = self.parts
        rows = first.compute(kind, inputs, numbers)
        rows = rows if isinstance(rows, tuple) else (rows,)
        found = iter(second.gradients(*rows, grad=grad) if any(map(kind.is_real, rows)) else ())
        grad = tuple(next(found) if kind.is_real(row) else kind.ones_like(row) for row in rows)  # a whole one has none
        return first.gradients(*inputs, grad=grad, wanted=names, **dict(zip(first.scalars, numbers)))

    def _first(self, kind, key, inputs, outs, numbers):
        """The first call for a key: on copies without gaps, where the library refuses the arrays as they lie."""
        self._one_kind((*inputs, *(outs or ())))
        for array in outs or ():
            kind.check_out(array)
            if not kind.is_strided(array):
                raise ValueError("elements of out lie between multiples of their size")
        with kind.on(inputs[0] if inputs else outs[0]):
            return self._plan(kind, key, list(map(kind.prepare, inputs)), outs, numbers)

    def _one_kind(self, arrays):
        """How to handle arrays that are all of one library."""
        kind = kind_of(arrays[0])
        for array in arrays:
            if kind_of(array) is not kind:
                raise TypeError(f"{self} takes arrays of one library, got {type(array).__name__} and "
                                f"{type(arrays[0]).__name__}")
        return kind

    def _plan(self, kind, key, inputs, outs, numbers):
        try:
            if all(map(kind.is_strided, inputs)):
                plan = Plan(self, kind, inputs, outs)
                results = plan.run(inputs, outs, numbers)
                self._keep_in_c(plan, inputs)
                return self._keep(key, plan, results)
        except Error as error:
            if error.status not in (EINVAL, EOP, EALIGN) or all(map(kind.is_contiguous, inputs)):
                raise
        inputs = list(map(kind.contiguous, inputs))
        plan = Plan(self, kind, inputs, outs)
        plan.copies = True
        return self._keep(key, plan, plan.run(inputs, outs, numbers))

    def _keep_in_c(self, plan, inputs):
        if self._calls is not None and plan.make and not plan.copies and plan.kind.in_c:
            plan.keep_in(self._calls, inputs)

    def _keep(self, key, plan, results):
        if len(self._plans) >= PLANS_MAX:  # shapes may go on changing
            self._plans.clear()
        if key is not None:
            self._plans[key] = plan
        return results


_op = functools.lru_cache(maxsize=None)(Op)


def op(text: str) -> Op:
    """Returns a function of arrays that computes an op.

    text: an op of docs/ops.md, "hardtanh(-1,1)", or an expression, "gelu(x + b) * gate". Fields of a spec may follow,
    such as "softmax axis=0"; "op=softmax" of C and the command is the same op. `?name` is a number that each call gives by name.

    The function takes arrays of NumPy, PyTorch, CuPy or JAX, by place in the order of the op, or by name. They broadcast, and
    types are promoted, as in PyTorch. It returns a new array, a tuple where the op has several outputs, or `out`. On a
    GPU it runs on PyTorch's current stream of the tensors' device. The first call for types, a kind of layout and a
    device finds the kernel in Kiln's cache or compiles it.

    Raises kiln.Error with Kiln's message and the compiler's log; TypeError for other arguments, and ValueError where they
    are of the right type."""
    return _op(as_text(text).removeprefix("op="))


def define_op(definition: str) -> None:
    """Defines an op for the process: "twice(x) = x + x", "scaled(x; by=2) = x * by". docs/ops.md has the language."""
    text = text_bytes(definition)
    define(lambda service: must(lib.kiln_op_define(service.service, text, mine.pointer)))


def define_template(text: str, cpu_text: "Optional[str]" = None) -> None:
    """Defines a template for the process from a .cu text and that of its cpu twin; op("relu6 template=NAME") takes it.

    The kernel runs with the rights of the process: define only trusted text. docs/templates.md has the declarations."""
    texts = text_bytes(text), None if cpu_text is None else text_bytes(cpu_text)
    define(lambda service: must(lib.kiln_template_define(service.service, *texts, None, mine.pointer)))
