"""Kiln's ops against torch eager, torch.compile and Triton on the same arrays, and against torch on small ones.

    KILN_LIBRARY=libkiln.so python3 tests/device/op_peers.py [--parts large,small] [--power 27] [--rounds 9]

Large: twelve ops at 2^27 elements, the time over that of a copy of as many bytes, the median of rounds in which all take
turns. Triton has 16 bytes a thread, as Kiln. Small: 2^10 to 2^21 elements in graphs of 200 launches, so that the host's time
does not count: the time of a launch in us, Kiln's and torch's. Every result is compared with torch's before it is timed:
Kiln's bit for bit, the others within the tolerances of torch.testing.
"""

import argparse
import statistics

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from calls import Apply
from torch_bits import BINARY, DTYPES, UNARY, count_differences, measure, poisoned, spec_of

OPS = ("relu", "hardsigmoid", "hardswish", "exp", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "mish", "softplus", "add")


@triton.jit
def triton_kernel(x_at, y_at, out_at, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_at + i, inside).to(tl.float32)
    if OP == "relu":
        r = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "hardsigmoid":
        r = tl.minimum(tl.maximum(x + 3.0, 0.0), 6.0) * 0.16666667163372
    elif OP == "hardswish":
        r = x * tl.minimum(tl.maximum(x + 3.0, 0.0), 6.0) * 0.16666667163372
    elif OP == "exp":
        r = tl.exp(x)
    elif OP == "tanh":
        r = libdevice.tanh(x)
    elif OP == "sigmoid":
        r = 1.0 / (1.0 + tl.exp(-x))
    elif OP == "silu":
        r = x / (1.0 + tl.exp(-x))
    elif OP == "gelu":
        r = 0.5 * x * (1.0 + libdevice.erf(x * 0.7071067811865476))
    elif OP == "gelu_tanh":
        r = 0.5 * x * (1.0 + libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    elif OP == "mish":
        r = x * libdevice.tanh(libdevice.log1p(tl.exp(x)))
    elif OP == "softplus":
        r = tl.where(x > 20.0, x, libdevice.log1p(tl.exp(x)))
    else:
        r = x + tl.load(y_at + i, inside).to(tl.float32)
    tl.store(out_at + i, r.to(out_at.dtype.element_ty), inside)


def triton_call(name, given, out):
    block = 128 * 16 // given[0].element_size()
    grid = (triton.cdiv(out.numel(), block),)
    return lambda: triton_kernel[grid](given[0], given[-1], out, out.numel(), name, block, num_warps=4)


def inputs_of(name, dtype, power):
    floating, _ = DTYPES[dtype]
    return [torch.randn(1 << power, device="cuda", dtype=floating) * 4 for _ in range(2 if name in BINARY else 1)]


def reference_of(name):
    return BINARY[name] if name in BINARY else UNARY[name]


def must_equal(name, got, want):
    wrong, _ = count_differences(got, want)
    if wrong:
        raise SystemExit(f"{name}: {wrong} results differ from torch")


def compare_large(power, rounds):
    print(f"{f'time / copy at 2^{power}':18}" + "".join(f"{d + ' kiln torch compile triton':>34}" for d in ("f32", "f16", "bf16")),
          flush=True)
    for name in OPS:
        reference, cells = reference_of(name), []
        text, compiled = f"op={spec_of(name, 2 if name in BINARY else 1)}", torch.compile(reference, dynamic=False)
        for dtype in ("f32", "f16", "bf16"):
            given = inputs_of(name, dtype, power)
            want = reference(*given)
            out, other = poisoned(want), poisoned(want)
            run_triton, run_kiln = triton_call(name, given, other), Apply(text, [out], given)
            run_kiln()
            run_triton()
            must_equal(name, out, want)
            torch.testing.assert_close(other, want)
            torch.testing.assert_close(compiled(*given), want)
            half = (len(given) + 1) * want.numel() // 2
            source = torch.randn(half, device="cuda", dtype=want.dtype)
            target = torch.empty_like(source)
            times = measure((lambda: target.copy_(source), run_kiln, lambda: reference(*given),
                             lambda: compiled(*given), run_triton), rounds, 4)
            cells.append(" ".join(f"{t:.3f}" for t in times[1:]))
        torch._dynamo.reset()
        print(f"{name:18}" + "".join(f"{c:>34}" for c in cells), flush=True)


def graph_of(call, launches):
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    return graph


def compare_small(rounds):
    powers, launches = range(10, 22), 200
    print(f"{'us, kiln torch':18}" + "".join(f"{f'2^{p}':>14}" for p in powers), flush=True)
    worst = 0.0
    for name in OPS:
        reference = reference_of(name)
        for dtype in ("f32", "f16"):
            cells = []
            for power in powers:
                given = inputs_of(name, dtype, power)
                want = reference(*given)
                out, kept, text = poisoned(want), torch.empty_like(want), f"op={spec_of(name, len(given))}"
                Apply(text, [out], given)()
                must_equal(name, out, want)
                graphs = [graph_of(lambda: reference(*given), launches),
                          graph_of(lambda: Apply(text, [kept], given)(), launches)]
                times = [[], []]
                for turn in range(rounds):
                    for i in (0, 1) if turn % 2 == 0 else (1, 0):
                        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                        graphs[i].replay()
                        start.record()
                        graphs[i].replay()
                        end.record()
                        end.synchronize()
                        times[i].append(start.elapsed_time(end) * 1e3 / launches)
                of_torch, of_kiln = map(statistics.median, times)
                worst = max(worst, min(of_kiln / of_torch - 1.02, (of_kiln - of_torch - 0.1) / 10))
                cells.append(f"{of_kiln:.2f} {of_torch:.2f}")
            print(f"{name + ' ' + dtype:18}" + "".join(f"{c:>14}" for c in cells), flush=True)
    print("every time is at most 1.02 of torch's, or 0.1 us more" if worst <= 0 else "some are above 1.02 of torch's and 0.1 us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="large,small")
    parser.add_argument("--power", type=int, default=27)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}", flush=True)
    if "large" in args.parts:
        compare_large(args.power, args.rounds)
    if "small" in args.parts:
        compare_small(args.rounds)


if __name__ == "__main__":
    main()
