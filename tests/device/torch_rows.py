"""kiln_apply against eager PyTorch and torch.compile on ops that reduce an axis: errors from float64, and times, paired.

    KILN_LIBRARY=libkiln.so python3 tests/device/torch_rows.py [--rounds 11] [--ops softmax,sum] [--shapes 32768x4096]
                                                             [--dtypes f32,bf16,f16] [--axis 0] [--no-compile] [--offset 1]

Each case is an op on a matrix. First the results are compared with those of PyTorch in float64 on the same values: the
largest errors of Kiln and of PyTorch, in units of the largest value that PyTorch gives. Then eager, compiled, a Triton
kernel with the fastest number of warps (where triton_rows.py has one), Kiln and a copy take turns, several calls a round
between two events. "copy" is cudaMemcpyAsync of half the bytes that the op reads and writes. Prints medians over rounds of
the ratios of a round: to the copy Kiln and its peers, then Kiln to the best of these, with an interval of the median.
--offset 1 lets the elements begin one behind a word.
"""

import argparse
import math
import statistics
import sys

import torch
import torch.nn.functional as F

from calls import Apply
from torch_tensors import measure, plain_copy, ratio
from triton_rows import triton_call

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
SHAPES = ["32768x4096", "4096x32768", "262144x512", "1024x393216"]


def made(x, seed):
    return torch.Generator(device=x.device).manual_seed(seed)


def widths(count):
    """So many rows for all rows."""
    return lambda x: [torch.randn(x.shape[-1], device=x.device, generator=made(x, 2 + i)).to(x.dtype) for i in range(count)]


def whole(x):
    return [torch.randn(x.shape, device=x.device, generator=made(x, 2)).to(x.dtype)]


def classes(x):
    return [torch.randint(0, x.shape[-1], (x.shape[0], 1), device=x.device, generator=made(x, 2))]


def residual(d, x, r, w):
    h = x + r
    return F.rms_norm(h, h.shape[-1:], w, 1e-6), h


# Each: Kiln's text, torch's function of the axis and arrays, and what makes the arrays besides x.
OPS = {
    "softmax": ("op=softmax", lambda d, x: torch.softmax(x, d), widths(0)),
    "log_softmax": ("op=log_softmax", lambda d, x: torch.log_softmax(x, d), widths(0)),
    "layer_norm": ("op=layer_norm(x, w, b)", lambda d, x, w, b: F.layer_norm(x, x.shape[-1:], w, b), widths(2)),
    "rms_norm": ("op=rms_norm(x, w, eps=1e-5)", lambda d, x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), widths(1)),
    "l2_normalize": ("op=l2_normalize", lambda d, x: x / x.norm(dim=d, keepdim=True), widths(0)),
    "sum": ("op=sum(x)", lambda d, x: x.sum(d), widths(0)),
    "argmax": ("op=argmax(x)", lambda d, x: x.argmax(d), widths(0)),
    "norm": ("op=norm(x)", lambda d, x: x.norm(dim=d), widths(0)),
    "cumsum": ("op=cumsum(x)", lambda d, x: x.cumsum(d), widths(0)),
    "masked": ("op=softmax(x * 0.125 + m)", lambda d, x, m: torch.softmax(x * 0.125 + m, d), whole),
    "residual": ("op=(rms_norm(x + r, w, eps=1e-6), x + r)", residual, lambda x: whole(x) + widths(1)(x)),
    "gelu_norm": ("op=gelu(layer_norm(x, w, b))", lambda d, x, w, b: F.gelu(F.layer_norm(x, x.shape[-1:], w, b)), widths(2)),
    "entropy": ("op=cross_entropy(x, t)", lambda d, x, t: F.cross_entropy(x, t[:, 0], reduction="none"), classes),
    "loss": ("op=cross_entropy(x, t) reduce=mean", lambda d, x, t: F.cross_entropy(x, t[:, 0]), classes),
    "mse_loss": ("op=mse_loss(x, y) reduce=mean", lambda d, x, y: F.mse_loss(x, y), whole),
    "mse": ("op=mean(mse_loss(x, y))", lambda d, x, y: F.mse_loss(x, y, reduction="none").mean(d), whole),
}
LAST = ("layer_norm", "rms_norm", "residual", "gelu_norm", "entropy", "loss")  # of the last axis alone


def tensors(result):
    return list(result) if isinstance(result, tuple) else [result]


def errors(function, x, others, outs, beside):
    """Kiln's largest error and PyTorch's, both against float64, relative to the largest value of a result."""
    count = x.shape[beside]
    if outs[0].dim() > 0:  # one number takes all rows
        count = max(1, min(count, (1 << 24) // x.shape[1 - beside]))

    def part(t):
        return t.narrow(beside, 0, count) if t.dim() == 2 and t.shape[beside] == x.shape[beside] else t

    plain = tensors(function(part(x), *map(part, others)))
    want = tensors(function(part(x).double(), *(part(t).double() if t.is_floating_point() else part(t) for t in others)))
    worst = [0.0, 0.0]
    for out, mine, true in zip(outs, plain, want):
        got = part(out) if out.dim() == 2 else out[:count] if out.dim() == 1 else out
        if not true.is_floating_point():
            worst[0] = max(worst[0], float((got != mine).sum()))
            continue
        size = true.abs().max().item() or 1.0
        for i, t in enumerate((got, mine)):
            far = torch.where(t == true, 0, (t.double() - true).abs()).nan_to_num(nan=math.inf)  # no input has NaN
            worst[i] = max(worst[i], far.max().item() / size)
    return worst


def interval(values):
    """Of the median, by order statistics: at least 95% sure where there are six values or more."""
    ranked, chance, below = sorted(values), 0.5 ** len(values), 0
    total = chance
    while total <= 0.025:
        below += 1
        chance *= (len(values) - below + 1) / below
        total += chance
    return ranked[max(0, below - 1)], ranked[-max(1, below)]


def case(name, rows, cols, axis, dtype, args):
    text, of_axis, besides = OPS[name]
    if axis == 0 and name in LAST:
        raise SystemExit(f"{name} is of the last axis")

    def function(*arrays):
        return of_axis(axis, *arrays)

    torch.manual_seed(1)
    x = torch.empty(rows * cols + args.offset, dtype=dtype, device="cuda")[args.offset:].view(rows, cols)
    for part in x.view(-1).split(1 << 26):  # in float32, and not all at once
        part.copy_(torch.randn(part.shape, device="cuda"))
    others = besides(x)
    outs = [torch.empty_like(t) for t in tensors(function(x, *others))]
    for out in outs:
        out.reshape(-1).view(torch.uint8).fill_(0xa5)
    call = Apply(f"{text} axis={axis} {args.fields}", outs, [x, *others])
    call()
    torch.cuda.synchronize()
    far, torch_far = errors(function, x, others, outs, 1 if axis == 0 else 0)
    if far > 100 * max(torch_far, 1e-6):
        raise SystemExit(f"{name} {dtype} {rows}x{cols}: Kiln's error is {far:.2e}, and PyTorch's {torch_far:.2e}")
    moved = sum(t.numel() * t.element_size() for t in (x, *outs, *others))
    calls = {"kiln": call, "copy": plain_copy(moved, "cuda"), "eager": lambda: function(x, *others)}
    if not args.no_compile:
        torch._dynamo.reset()
        compiled = torch.compile(function)
        calls["compiled"] = lambda: compiled(x, *others)
    if axis == -1 and not args.no_triton:
        out = torch.empty_like(outs[0])
        by_triton = triton_call(name, out, x, others)
        if by_triton:
            if not torch.allclose(out, outs[0], rtol=0.02, atol=1e-3):
                raise SystemExit(f"{name}: Triton's result is far from Kiln's")
            calls["triton"] = by_triton
    times = measure(calls, args.rounds)
    peers = {peer: ratio(times, peer, "copy") if peer in times else math.nan for peer in ("eager", "compiled", "triton")}
    best = min((peer for peer in peers if peer in times), key=peers.get)
    low, high = interval([a / b for a, b in zip(times["kiln"], times[best])])
    mine = ratio(times, "kiln", best)
    print(f"{name:12} {str(dtype)[6:]:9} {rows:8}x{cols:<8} {ratio(times, 'kiln', 'copy'):6.3f} " +
          " ".join(f"{p:6.3f}" for p in peers.values()) +
          f" {mine:6.3f} ({low:.3f} to {high:.3f})  {far:.2e} {torch_far:.2e}", flush=True)
    return mine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--axis", type=int, default=-1, choices=(-1, 0))
    parser.add_argument("--fields", default="", help="more of the spec: 'template=cluster block=512'")
    parser.add_argument("--offset", type=int, default=0, help="elements before the first")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-triton", action="store_true", help="leave Triton out")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("op           dtype     shape              kiln  eager  compiled triton  kiln/best (95%)  error torch's", flush=True)
    ratios = []
    for name in args.ops.split(","):
        for dtype in args.dtypes.split(","):
            for shape in args.shapes.split(","):
                rows, cols = map(int, shape.split("x"))
                ratios.append(case(name, rows, cols, args.axis, DTYPES[dtype], args))
                torch.cuda.empty_cache()
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"# {len(ratios)} cases: geometric mean of kiln/best {mean:.3f}, worst {max(ratios):.3f}")


if __name__ == "__main__":
    sys.exit(main())
