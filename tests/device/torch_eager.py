"""Random expressions against PyTorch's eager kernels: the types, the bits of round=eager, the error of round=fused.

    KILN_LIBRARY=libkiln.so python3 tests/device/torch_eager.py [--count 1000] [--seed 1] [--device cuda|cpu]
                                                                [--threads 8]

An expression has 2 to 6 operators and calls of 1 to 4 tensors, whose types are any of ten, and whose shapes are (rows,
cols) or broadcast to it; some are transposed, or have gaps. torch calculates it step by step, and Kiln by kiln_apply.
With round=eager Kiln's result has the type and the bits of torch's; any NaN equals any NaN. With round=fused its error
against float64 is compared with that of eager. On the cpu that is left out which torch calculates otherwise there:
roots, quotients by a number, remainders, numbers that f16 does not hold, the sign of a zero or a NaN. Prints a line for
each difference and a summary; ends with status 1 if a type or a bit differs.
"""

import argparse
import concurrent.futures
import operator
import random
import sys

import torch

from calls import NAMES, Apply

ROWS, COLS = 61, 96
TYPES = {name: dtype for dtype, name in NAMES.items() if not name.startswith("f8")}
SHAPES = ((ROWS, COLS), (COLS,), (ROWS, 1), (1, 1))


def divide(a, b):
    """Python's 2 / x is torch.reciprocal(x) * 2, with two roundings."""
    if not isinstance(a, torch.Tensor):
        a = torch.tensor(a, dtype=torch.float64 if b.dtype == torch.float64 else None)
    return torch.div(a, b)


def without_zeros(term):
    """A remainder of i64 by 0 is one of two values in torch (docs/numerics.md)."""
    text, value, wide = term
    return f"({text} == 0 ? 1 : {text})", torch.where(value == 0, 1, value), torch.where(value == 0, 1, wide)


def is_constant(*terms):
    """Whether all are results with one value: a compiler that knows it calculates a function of it itself."""
    return all("(" in text and bool((value == value.flatten()[0]).all()) for text, value, _ in terms)


INFIX = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": divide, "<": operator.lt, "<=": operator.le,
         ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "&&": torch.logical_and,
         "||": torch.logical_or}
UNARY = {"abs": torch.abs, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "sign": torch.sign}
BINARY = {"eq": torch.eq, "lt": torch.lt, "div": torch.div}
ON_GPU = {name: getattr(torch, name) for name in "relu sqrt exp log tanh sigmoid sin erf rsqrt".split()}
ON_GPU |= {name: getattr(torch.nn.functional, name) for name in ("gelu", "silu")}
ON_GPU_BINARY = {name: getattr(torch, name) for name in "copysign fmod remainder maximum minimum atan2 hypot".split()}


def tensor(choose, dtype, shape):
    """Ordinary numbers, and some special ones."""
    made = torch.Generator().manual_seed(choose.getrandbits(31))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=made).bool()
    if not dtype.is_floating_point:
        least = 0 if dtype == torch.uint8 else -100
        few = torch.randint(least, 100, shape, generator=made)
        limits = torch.iinfo(dtype)
        special = torch.tensor([0, 1, limits.max, limits.min, limits.max - 1, 2 if least == 0 else -1])
    else:
        few = torch.randn(shape, generator=made, dtype=torch.float64) * choose.choice((1, 1, 30))
        special = torch.tensor([0.0, -0.0, 1, float("inf"), float("-inf"), float("nan"), 1e-7, 65504, 1e30],
                               dtype=torch.float64)
    where = torch.rand(shape, generator=made) < 0.05
    return torch.where(where, special[torch.randint(0, len(special), shape, generator=made)], few).to(dtype)


def view(choose, t):
    """The same values, dense or not."""
    way = choose.random()
    if way < 0.5 or t.dim() == 0:
        return t
    if way < 0.75 and t.dim() == 2:
        return t.t().contiguous().t()
    room = torch.empty((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype, device=t.device)
    room[..., ::2] = t
    return room[..., ::2]


class Expression:
    """One text, its inputs, and what torch calculates. Both grow together, a step at a time."""

    def __init__(self, seed, device):
        self.choose = choose = random.Random(seed)
        self.gpu = device == "cuda"
        count = choose.choice((1, 2, 2, 3, 4))
        pool = choose.sample(sorted(TYPES), choose.choice((1, 1, 2, 3)))
        self.types = [choose.choice(pool) for _ in range(count)]
        broadcasts = choose.random() < 0.3
        shapes = [choose.choice(SHAPES) if broadcasts else SHAPES[0] for _ in range(count)]
        self.inputs = [view(choose, tensor(choose, TYPES[t], s).to(device)) for t, s in zip(self.types, shapes)]
        self.names = [f"a{i}" for i in range(count)]
        self.wide = [x.double() for x in self.inputs]
        self.grow(choose.randint(2, 6))

    def leaf(self):
        i = self.choose.randrange(len(self.inputs))
        return self.names[i], self.inputs[i], self.wide[i]

    def number(self):
        value = self.choose.choice((1, 2, 3, 0.5, 1.5, 1.0) + ((0.1,) if self.gpu else ()))
        return repr(value), value, value

    def step(self, terms):
        """Joins terms to a new one. torch may refuse."""
        choose, kind = self.choose, self.choose.random()
        take = lambda: terms.pop(choose.randrange(len(terms))) if terms and choose.random() < 0.8 else self.leaf()
        if kind < 0.55:
            sign = choose.choice(sorted(INFIX) + ["+", "-", "*", "/"] * 3)
            a, b = take(), take()
            if choose.random() < 0.3 and sign not in ("&&", "||"):
                first = choose.random() < 0.3 or (sign == "/" and not self.gpu)
                a, b = (self.number(), b) if first else (a, self.number())
            return f"({a[0]} {sign} {b[0]})", INFIX[sign](a[1], b[1]), INFIX[sign](a[2], b[2])
        if kind < 0.75:
            functions = {**UNARY, **(ON_GPU if self.gpu else {})}
            name, a = choose.choice(sorted(functions)), take()
            if name in ON_GPU and is_constant(a):
                raise TypeError
            return f"{name}({a[0]})", functions[name](a[1]), functions[name](a[2])
        if kind < 0.9:
            functions = {**BINARY, **(ON_GPU_BINARY if self.gpu else {})}
            name, a, b = choose.choice(sorted(functions)), take(), take()
            if name in ("eq", "lt") and choose.random() < 0.3:
                b = self.number()
            if name in ON_GPU_BINARY and is_constant(a, b):
                raise TypeError
            if name in ("fmod", "remainder") and torch.result_type(a[1], b[1]) == torch.int64:
                b = without_zeros(b)
            return f"{name}({a[0]}, {b[0]})", functions[name](a[1], b[1]), functions[name](a[2], b[2])
        if kind < 0.95:
            a = take()
            return f"(-{a[0]})", -a[1], -a[2]
        c, a, b = take(), take(), take()
        return (f"({c[0]} ? {a[0]} : {b[0]})", torch.where(c[1].bool(), a[1], b[1]),
                torch.where(c[2].bool(), a[2], b[2]))

    def grow(self, steps):
        terms = []
        for _ in range(steps):
            for _ in range(20):
                before = list(terms)
                try:
                    terms.append(self.step(terms))
                    break
                except (RuntimeError, TypeError):  # not of these types
                    terms[:] = before
        while len(terms) > 1:
            before = list(terms)
            try:
                a, b = terms.pop(), terms.pop()
                terms.append((f"({a[0]} + {b[0]})", a[1] + b[1], a[2] + b[2]))
            except RuntimeError:
                terms[:] = before[:1]
        self.text, self.want, self.reference = terms[0] if terms else self.leaf()
        self.want = self.want.expand(ROWS, COLS).contiguous()

    def spec(self):
        """The inputs that the text names, in the order in which it does, and the text."""
        order = sorted((i for i in range(len(self.names)) if self.names[i] in self.text),
                       key=lambda i: self.text.index(self.names[i]))
        return [self.inputs[i] for i in order], self.text[1:-1] if self.text.startswith("(") else self.text

    def __repr__(self):
        inputs, text = self.spec()
        return f"op={text} of " + ", ".join(f"{NAMES[x.dtype]}{tuple(x.shape)}" for x in inputs)


def calculate(expression, fields):
    """Kiln's result, and the type that Kiln would have given it, "" for that of torch's."""
    inputs, text = expression.spec()
    out = torch.empty((ROWS, COLS), dtype=expression.want.dtype, device=expression.want.device)
    out.view(torch.uint8).fill_(0xa5)
    apply = Apply(f"op={text} {fields}", [out], inputs)
    cast = apply.cast()
    apply()
    return out, cast


def differing(got, want):
    """How many elements have other bits."""
    if not want.dtype.is_floating_point:
        return int((got != want).sum())
    size = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[want.element_size()]
    return int(((got.view(size) != want.view(size)) & ~(got.isnan() & want.isnan())).sum())


def errors(expression, fused):
    """The mean distance of eager and of fused from float64, in units of eager's size; None where that says nothing."""
    want = expression.want
    if not want.dtype.is_floating_point:
        return None
    reference = expression.reference.double().expand(ROWS, COLS)
    usable = reference.isfinite() & want.isfinite() & fused.isfinite() & (reference.abs() < torch.finfo(want.dtype).max)
    if not usable.any():
        return None
    unit = torch.finfo(want.dtype).eps * reference[usable].abs().clamp_min(1e-3)
    return tuple(((x.double()[usable] - reference[usable]).abs() / unit).clamp_max(1e3).mean().item()
                 for x in (want, fused))


def check(seed, device):
    expression = Expression(seed, device)
    try:
        eager, cast = calculate(expression, "round=eager")
        fused, _ = calculate(expression, "")
    except RuntimeError as error:
        return expression, f"refused: {error}", None
    if cast:
        return expression, f"another type than torch's {cast}", None
    wrong = differing(eager, expression.want)
    return expression, f"{wrong} of {eager.numel()} differ" if wrong else "", errors(expression, fused)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    failures, pairs = 0, []
    with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        seeds = range(args.seed, args.seed + args.count)
        for seed, (expression, problem, pair) in zip(seeds, pool.map(lambda s: check(s, args.device), seeds)):
            failures += problem != ""
            if problem:
                print(f"{seed}: {expression}: {problem}", flush=True)
            if pair:
                pairs.append(pair)
    name = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    mean = [sum(column) / len(pairs) for column in zip(*pairs)] or [0, 0]
    print(f"{args.count} expressions on {name}, PyTorch {torch.__version__}: {failures} differ with round=eager; "
          f"mean error against float64 in {len(pairs)}: eager {mean[0]:.4g}, fused {mean[1]:.4g} eps")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
