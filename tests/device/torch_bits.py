"""Every op of Kiln against PyTorch's CUDA kernels: bits on all inputs, and speed on the same arrays.

    KILN_LIBRARY=libkiln.so python3 tests/device/torch_bits.py [--parts bits,whole,casts,speed] [--ops relu,gelu]
                                                               [--quick] [--markdown] [--powers 24,27,30] [--rounds 9]
                                                               [--fields math=fast]

Bits: an op of one input is compared on all 65,536 inputs of float16 and bfloat16 and all 2^32 of float32; in float64,
and with several inputs, on pairs and triples of special values and on 10^9 random ones. Any NaN equals any NaN. Whole: the
same for whole numbers, on all pairs of 8-bit values, special values and 10^8 random ones; "-" is an op that torch does not
have for the type. Casts: from every type to every type. With --fields, which are appended to each spec, the bits are the
largest distance in units of the last place, and no distance is a failure. Speed:
the time of a launch over that of torch's, paired, the median of rounds; "limit" is a copy of as many bytes. Prints a
line for each op; ends with status 1 if a bit differs.
"""

import argparse
import itertools
import statistics
import sys

import torch
import torch.nn.functional as F

from calls import Apply, call_spec

A = torch.ops.aten
DTYPES = {"f16": (torch.float16, torch.int16), "bf16": (torch.bfloat16, torch.int16),
          "f32": (torch.float32, torch.int32), "f64": (torch.float64, torch.int64)}

UNARY = {name: getattr(torch, name) for name in (
    "abs neg square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh "
    "tanh asinh acosh atanh erf erfc lgamma sinc deg2rad rad2deg logit floor ceil trunc round frac sign sigmoid relu selu").split()}
UNARY |= {name: getattr(F, name) for name in "relu6 hardtanh hardsigmoid hardswish leaky_relu elu celu gelu silu mish "
          "softplus logsigmoid softsign tanhshrink softshrink hardshrink".split()}
UNARY |= {
    "copy": torch.clone,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardtanh(-2,0.5)": lambda x: F.hardtanh(x, -2, 0.5),
    "leaky_relu(0.2)": lambda x: F.leaky_relu(x, 0.2),
    "elu(0.7,1.3,0.9)": lambda x: A.elu(x, 0.7, 1.3, 0.9),
    "celu(0.7)": lambda x: F.celu(x, 0.7),
    "softplus(1.5,10)": lambda x: F.softplus(x, 1.5, 10),
    "softshrink(0.3)": lambda x: F.softshrink(x, 0.3),
    "hardshrink(0.3)": lambda x: F.hardshrink(x, 0.3),
    "threshold(0.3,-1.7)": lambda x: F.threshold(x, 0.3, -1.7),
}
UNARY |= {f"pow_scalar({e})": (lambda e: lambda x: torch.pow(x, e))(e)
          for e in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 3.3, -1.7, 4, 3.0005, -2.0005)}
BINARY = {name: getattr(torch, name) for name in "add sub mul div floor_divide fmod remainder maximum minimum fmax fmin "
          "copysign atan2 hypot pow xlogy logaddexp heaviside".split()}
BINARY |= {
    "add_scaled(0.7)": lambda x, y: torch.add(x, y, alpha=0.7),
    "add_scaled(-3)": lambda x, y: torch.sub(x, y, alpha=3),
    "xlog1py": torch.special.xlog1py,
    "prelu": lambda x, w: A._prelu_kernel(x, w),
    "l1_loss": lambda x, y: F.l1_loss(x, y, reduction="none"),
    "mse_loss": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "smooth_l1_loss(0.7)": lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.7),
    "huber_loss(0.7)": lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.7),
}
BACKWARD = {
    "threshold_backward(0.3)": lambda g, x: A.threshold_backward(g, x, 0.3),
    "hardtanh_backward(-2,0.5)": lambda g, x: A.hardtanh_backward(g, x, -2, 0.5),
    "hardsigmoid_backward": A.hardsigmoid_backward,
    "hardswish_backward": A.hardswish_backward,
    "leaky_relu_backward(0.2)": lambda g, x: A.leaky_relu_backward(g, x, 0.2, False),
    "elu_backward(0.7,1.3,0.9)": lambda g, x: A.elu_backward(g, 0.7, 1.3, 0.9, False, x),
    "gelu_backward": lambda g, x: A.gelu_backward(g, x, approximate="none"),
    "gelu_tanh_backward": lambda g, x: A.gelu_backward(g, x, approximate="tanh"),
    "sigmoid_backward": A.sigmoid_backward,
    "silu_backward": A.silu_backward,
    "mish_backward": A.mish_backward,
    "tanh_backward": A.tanh_backward,
    "softplus_backward(1.5,10)": lambda g, x: A.softplus_backward(g, x, 1.5, 10),
    "logsigmoid_backward": lambda g, x: A.log_sigmoid_backward(g, x, torch.empty(0, dtype=x.dtype, device=x.device)),
    "softshrink_backward(0.3)": lambda g, x: A.softshrink_backward(g, x, 0.3),
}
TERNARY = {
    "lerp": torch.lerp,
    "addcmul": torch.addcmul,
    "addcmul(2.5)": lambda x, y, z: torch.addcmul(x, y, z, value=2.5),
    "addcdiv": torch.addcdiv,
    "addcdiv(2.5)": lambda x, y, z: torch.addcdiv(x, y, z, value=2.5),
    "clamp": torch.clamp,
}
TRUTH = {name: getattr(torch, name) for name in "isnan isinf isfinite isposinf isneginf signbit logical_not".split()}
TRUTHS = {name: getattr(torch, name) for name in "eq ne lt le gt ge logical_and logical_or logical_xor".split()}
CHOICE = {"where": lambda c, x, y: torch.where(c != 0, x, y)}
TABLES = ((1, UNARY), (1, TRUTH), (2, BINARY), (2, TRUTHS), (2, BACKWARD), (3, TERNARY), (3, CHOICE))

WHOLE = {"i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool}
BITS = {name: getattr(torch, name) for name in
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()}
# Left out: parameters that are no whole numbers, which torch cuts off; softsign, whose torch adds 1 in the type and
# overflows; the square and the powers of a bool, int64 in torch; i64 divided by 0, which a GPU answers in two ways.
WHOLE_UNARY = UNARY | TRUTH | {"bitwise_not": torch.bitwise_not}
WHOLE_TABLES = ((1, {name: WHOLE_UNARY[name] for name in WHOLE_UNARY if "." not in name and name != "softsign"}),
                (2, {name: call for name, call in (BINARY | TRUTHS | BITS).items() if "." not in name}),
                (3, {name: TERNARY[name] for name in ("addcmul", "clamp")} | CHOICE))
CASTS = {name: floating for name, (floating, _) in DTYPES.items()} | {
    "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2} | WHOLE
PATTERNS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def applied(text):
    """f(*inputs, out): computes an op."""
    return lambda *inputs, out: Apply(f"op={text}", [out], inputs)()


def spec_of(name, inputs):
    """The op with its inputs spelt out: parameters stand behind them."""
    op, _, params = name.partition("(")
    names = "xyz"[:inputs]
    return f"{op}({','.join(names)}{',' + params if params else ')'}"


# ---- Inputs ----------------------------------------------------------------------------------------------------------


def random_patterns(dtype, count, seed):
    """Half of them random bits, half ordinary numbers."""
    floating, whole = DTYPES[dtype]
    generator = torch.Generator("cuda").manual_seed(seed)
    bits = torch.empty(count // 2, dtype=whole, device="cuda")
    bits.random_(torch.iinfo(whole).min, torch.iinfo(whole).max, generator=generator)
    normal = torch.randn(count - count // 2, dtype=torch.float32, device="cuda", generator=generator) * 4
    return torch.cat((bits.view(floating), normal.to(floating)))


def special_values(dtype, count):
    """Zeros, infinities, NaN, the ends of the range, knees of the ops, and random patterns up to `count`."""
    floating, _ = DTYPES[dtype]
    info = torch.finfo(floating)
    values = [0.0, float("inf"), float("nan"), info.max, info.tiny, info.eps, info.smallest_normal / 2, 0.25, 0.3, 0.5,
              1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0, 88.0, 104.0]
    values = [sign * v for v in values for sign in (1, -1)]
    values = torch.tensor(values, dtype=torch.float64, device="cuda").to(floating)
    return torch.cat((values, random_patterns(dtype, count - len(values), 7)))


def unary_inputs(dtype, quick):
    floating, whole = DTYPES[dtype]
    if torch.finfo(floating).bits == 16:
        yield (torch.arange(1 << 16, device="cuda", dtype=torch.int32).to(whole).view(floating),)
    elif dtype == "f32" and not quick:
        for start in range(-(1 << 31), 1 << 31, 1 << 28):
            yield (torch.arange(start, start + (1 << 28), device="cuda", dtype=torch.int32).view(floating),)
    else:
        for seed in range(1 if quick else 8):
            yield (random_patterns(dtype, 1 << (24 if quick else 27), seed),)


def several_inputs(dtype, count, quick):
    few = special_values(dtype, 2000 if count == 2 else 150)
    yield tuple(t.reshape(-1).contiguous() for t in torch.meshgrid(*[few] * count, indexing="ij"))
    for seed in range(1 if quick else 8):
        size = 1 << (24 if quick else 27)
        order = torch.randperm(size, device="cuda")  # else random bits would meet random bits alone
        yield tuple(random_patterns(dtype, size, 10 * seed + i)[order if i % 2 else slice(None)] for i in range(count))


# ---- Bits ------------------------------------------------------------------------------------------------------------


def poisoned(like):
    """Memory of the shape and dtype of a result, with other values."""
    pattern = PATTERNS[like.element_size()]
    return torch.full(like.shape, 0x5A, dtype=pattern, device="cuda").view(like.dtype)


def count_differences(got, want):
    pattern = PATTERNS[want.element_size()]
    if torch.equal(got.view(pattern), want.view(pattern)):
        return 0, None
    differs = got.view(pattern) != want.view(pattern)
    if want.dtype.is_floating_point:
        differs &= ~(got.float().isnan() & want.float().isnan())
    count = int(differs.sum())
    return count, int(differs.nonzero()[0]) if count else None


def ordered(values):
    """Whole numbers that count the values in their order: neighbours differ by 1. -0 and +0 are 0."""
    whole = values.view(PATTERNS[values.element_size()]).long()
    return torch.where(whole < 0, torch.iinfo(PATTERNS[values.element_size()]).min - whole, whole)


def largest_distance(op, reference, sets):
    """The largest distance in ulp, and where it is; infinite where only one is NaN."""
    worst, first = 0, ""
    for given in sets:
        want = reference(*given)
        got = poisoned(want)
        op(*given, out=got)
        one = got.isnan() != want.isnan()
        apart = (ordered(got) - ordered(want)).abs().masked_fill(got.isnan(), 0)
        at = int(one.nonzero()[0]) if one.any() else int(apart.argmax())
        distance = float("inf") if one.any() else int(apart[at])
        if distance > worst:
            worst = distance
            first = f"{[t[at].item() for t in given]}: {got[at].item()!r}, torch {want[at].item()!r}"
    return worst, first


def compare_op(op, reference, sets):
    """How many results differ, of how many, and the first that does. The dtype of the result is compared too."""
    wrong = total = 0
    first = ""
    for given in sets:
        want = reference(*given)
        got = poisoned(want)
        op(*given, out=got)
        count, at = count_differences(got, want)
        if count and not first:
            first = f"{[t[at].item() for t in given]}: {got[at].item()!r}, torch {want[at].item()!r}"
        wrong += count
        total += got.numel()
    return wrong, total, first


def print_row(name, cells, notes, markdown, width=16):
    print("| " + " | ".join([name, *cells]) + " |" if markdown else
          f"{name:28}" + "".join(f"{c:>{width}}" for c in cells), *notes, sep="\n", flush=True)


def print_head(name, columns, markdown, width=16):
    print_row(name, columns, ["|---|" + "---:|" * len(columns)] if markdown else [], markdown, width)


def check_bits(chosen, quick, markdown, fields):
    failed = 0
    print_head("op" if markdown else "distance in ulp" if fields else "differing bits", DTYPES, markdown)
    for inputs, table in TABLES:
        for name, reference in table.items():
            if chosen and name.partition("(")[0] not in chosen:
                continue
            cells, notes = [], []
            for dtype in DTYPES:
                sets = unary_inputs(dtype, quick) if inputs == 1 else several_inputs(dtype, inputs, quick)
                try:
                    if fields:
                        distance, first = largest_distance(applied(f"{spec_of(name, inputs)} {fields}"), reference, sets)
                        cells.append(str(distance))
                        notes += [f"    {dtype}: {first}"] if distance else []
                        continue
                    wrong, total, first = compare_op(applied(spec_of(name, inputs)), reference, sets)
                except RuntimeError as error:
                    wrong, total, first = 1, 0, str(error).splitlines()[0]
                cells.append(f"{wrong} of {total:.3g}" if wrong else f"0 of {total:.2g}")
                notes += [f"    {dtype}: {first}"] if wrong else []
                failed += wrong > 0
            print_row(f"`{name}`" if markdown else name, cells, notes, markdown)
    return failed


# ---- Whole numbers and casts -------------------------------------------------------------------------------------------


def random_whole(dtype, count, seed):
    """A third of them random bits, a third small, a third at the ends of the range."""
    generator = torch.Generator("cuda").manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), device="cuda", generator=generator).to(dtype)
    info = torch.iinfo(dtype)
    bits = torch.randint(-(1 << 63), (1 << 63) - 1, (count,), device="cuda", generator=generator)
    pick = torch.randint(0, 3, (count,), device="cuda", generator=generator)
    ends = torch.where(bits % 2 == 0, info.min + bits % 5, info.max - bits % 5)
    return torch.where(pick == 0, bits, torch.where(pick == 1, bits % 19 - 9, ends)).to(dtype)


def whole_inputs(dtype, count, quick):
    small = dtype.itemsize == 1
    every = torch.arange(256 if small else 300, device="cuda").to(dtype) if small else random_whole(dtype, 300, 1)
    if count < 3:
        yield tuple(t.reshape(-1).contiguous() for t in torch.meshgrid(*[every] * count, indexing="ij"))
    for seed in range(1 if quick or small else 4):
        yield tuple(random_whole(dtype, 1 << (22 if quick or small else 25), 10 * seed + i) for i in range(count))


def without_zero(sets):
    for x, y in sets:
        yield x, torch.where(y == 0, 1, y)


def check_whole(chosen, quick, markdown):
    failed = 0
    print_head("op" if markdown else "differing results", WHOLE, markdown)
    for inputs, table in WHOLE_TABLES:
        for name, reference in table.items():
            if chosen and name.partition("(")[0] not in chosen:
                continue
            cells, notes = [], []
            for short, dtype in WHOLE.items():
                if short == "bool" and name.startswith(("square", "pow_scalar")):
                    cells.append("-")
                    continue
                try:
                    reference(*next(whole_inputs(dtype, inputs, True)))
                except (RuntimeError, NotImplementedError):
                    cells.append("-")
                    continue
                try:
                    sets = whole_inputs(dtype, inputs, quick)
                    sets = without_zero(sets) if short == "i64" and name in ("floor_divide", "fmod", "remainder") else sets
                    wrong, total, first = compare_op(applied(spec_of(name, inputs)), reference, sets)
                except RuntimeError as error:
                    wrong, total, first = 1, 0, str(error).splitlines()[0]
                cells.append(f"{wrong} of {total:.3g}" if wrong else f"0 of {total:.2g}")
                notes += [f"    {short}: {first}"] if wrong else []
                failed += wrong > 0
            print_row(f"`{name}`" if markdown else name, cells, notes, markdown)
    return failed


def cast_inputs(name, quick):
    dtype = CASTS[name]
    if name in WHOLE:
        yield from whole_inputs(dtype, 1, quick)
    elif dtype.itemsize == 1:
        yield (torch.arange(256, device="cuda").to(torch.uint8).view(dtype),)
    else:
        yield from unary_inputs(name, quick)


def check_casts(quick, markdown):
    failed = 0
    print_head("from, to" if markdown else "differing casts", CASTS, markdown, 10)
    for source in CASTS:
        cells, notes = [], []
        for name, dtype in CASTS.items():
            spec = f"op=copy dtype={source} out={name}"
            wrong, _, first = compare_op(lambda x, out, spec=spec: call_spec(spec, out, x),
                                         lambda x, to=dtype: x.to(to, copy=True), cast_inputs(source, quick))
            cells.append(str(wrong))
            notes += [f"    {name}: {first}"] if wrong else []
            failed += wrong > 0
        print_row(source, cells, notes, markdown, 10)
    return failed


# ---- Speed -----------------------------------------------------------------------------------------------------------


LEAD = 400_000  # cycles for which the GPU waits, so that no time includes submission


def time_ms(call, count):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(LEAD)
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / count


def measure(calls, rounds, count):
    """The median over the rounds of each call's time over that of the first call."""
    times = [[] for _ in calls]
    for call in calls:
        time_ms(call, 2)
    for turn in range(rounds):
        order = range(len(calls)) if turn % 2 == 0 else reversed(range(len(calls)))
        for i in order:
            times[i].append(time_ms(calls[i], count))
    return [statistics.median(t / base for t, base in zip(row, times[0])) for row in times]


def check_speed(chosen, powers, rounds, fields):
    columns = list(itertools.product(("f32", "f16", "bf16"), powers))
    print(f"{'time / torch, time / limit':28}" + "".join(f"{d + ' 2^' + str(p):>16}" for d, p in columns), flush=True)
    for inputs, table in TABLES:
        for name, reference in table.items():
            if chosen and name.partition("(")[0] not in chosen:
                continue
            text, cells = f"op={spec_of(name, inputs)} {fields}", []
            for dtype, power in columns:
                floating, _ = DTYPES[dtype]
                given = [torch.randn(1 << power, device="cuda", dtype=floating) for _ in range(inputs)]
                out = poisoned(reference(*given))
                moved = (inputs * given[0].nbytes + out.nbytes) // given[0].element_size() // 2
                source = torch.randn(moved, device="cuda", dtype=floating)
                target = torch.empty_like(source)
                launches = 1 << max(0, 28 - power)
                _, kiln_time, limit = measure((lambda: reference(*given), Apply(text, [out], given),
                                               lambda: target.copy_(source)), rounds, launches)
                cells.append(f"{kiln_time:.3f} {kiln_time / limit:.3f}")
                del given, out, source, target
            print(f"{name:28}" + "".join(f"{c:>16}" for c in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="bits")
    parser.add_argument("--ops", default="")
    parser.add_argument("--powers", default="24,27,30", help="numbers of elements, as powers of two")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="2^24 random inputs in place of the large sets")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--fields", default="", help="fields of every spec, such as math=fast")
    args = parser.parse_args()
    chosen = set(filter(None, args.ops.split(",")))
    torch.set_grad_enabled(False)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    failed = check_bits(chosen, args.quick, args.markdown, args.fields) if "bits" in args.parts else 0
    failed += check_whole(chosen, args.quick, args.markdown) if "whole" in args.parts else 0
    failed += check_casts(args.quick, args.markdown) if "casts" in args.parts else 0
    if "speed" in args.parts:
        check_speed(chosen, [int(p) for p in args.powers.split(",")], args.rounds, args.fields)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
