"""kiln_apply against eager PyTorch and torch.compile on ops that reduce an axis: errors from float64, and times, paired.

    KILN_LIBRARY=libkiln.so python3 tests/device/torch_rows.py [--rounds 9] [--ops softmax,sum] [--shapes 32768x4096]
                                                             [--dtypes f32,bf16,f16] [--axis 0] [--no-compile]

Each case is an op on a matrix. First the results are compared with those of PyTorch in float64 on the same values: the
largest errors of Kiln and of PyTorch, in units of the largest value that PyTorch gives. Then eager, compiled, Kiln and a
copy take turns, several calls a round between two events. "copy" is cudaMemcpyAsync of half the bytes that the op reads and
writes. Prints medians over rounds of the ratios of a round: to the copy Kiln, eager and compiled, then Kiln to the better
of both.
"""

import argparse
import math
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch_tensors import Apply, measure, ratio  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
SHAPES = ["32768x4096", "4096x32768", "262144x512", "1024x393216"]


def widths(x, count):
    made = torch.Generator(device=x.device).manual_seed(2)
    return [torch.randn(x.shape[-1], device=x.device, generator=made).to(x.dtype) for _ in range(count)]


# Each: Kiln's text, torch's function of the axis and arrays, and how many rows for all it takes besides x.
OPS = {
    "softmax": ("op=softmax", lambda d, x: torch.softmax(x, d), 0),
    "log_softmax": ("op=log_softmax", lambda d, x: torch.log_softmax(x, d), 0),
    "layer_norm": ("op=layer_norm(x, w, b)", lambda d, x, w, b: F.layer_norm(x, x.shape[-1:], w, b), 2),
    "rms_norm": ("op=rms_norm(x, w, eps=1e-5)", lambda d, x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), 1),
    "l2_normalize": ("op=l2_normalize", lambda d, x: x / x.norm(dim=d, keepdim=True), 0),
    "sum": ("op=sum(x)", lambda d, x: x.sum(d), 0),
    "argmax": ("op=argmax(x)", lambda d, x: x.argmax(d), 0),
    "norm": ("op=norm(x)", lambda d, x: x.norm(dim=d), 0),
    "cumsum": ("op=cumsum(x)", lambda d, x: x.cumsum(d), 0),
    "softmax_backward": ("op=softmax_backward(x, x)", lambda d, x: torch._softmax_backward_data(x, x, d, x.dtype), 0),
}


def errors(function, x, others, got, beside):
    """Kiln's largest error and PyTorch's, both against float64, relative to the largest value."""
    count = max(1, min(x.shape[beside], (1 << 24) // x.shape[1 - beside]))
    part = x.narrow(beside, 0, count)
    plain = function(part, *others)
    got = got.narrow(beside if got.dim() == 2 else 0, 0, count)
    if not plain.is_floating_point():
        return float((got != plain).sum()), 0.0
    want = function(part.double(), *(t.double() for t in others))
    size = want.abs().max().item() or 1.0
    return tuple((t.double() - want).abs().max().item() / size for t in (got, plain))


def case(name, rows, cols, axis, dtype, rounds, compiles, fields):
    text, of_axis, count = OPS[name]
    if axis == 0 and count > 0:
        raise SystemExit(f"{name} has weights along the last axis")

    def function(*arrays):
        return of_axis(axis, *arrays)

    made = torch.Generator(device="cuda").manual_seed(1)
    x = torch.randn(rows, cols, device="cuda", generator=made).to(dtype)
    others = widths(x, count)
    like = function(x, *others)
    out = torch.empty_like(like)
    out.view(torch.uint8).fill_(0xa5)
    call = Apply(f"{text} axis={axis}{fields}", [out], [x, *others])
    call()
    torch.cuda.synchronize()
    far, torch_far = errors(function, x, others, out, 1 if axis == 0 else 0)
    del like
    moved = sum(t.numel() * t.element_size() for t in (x, out, *others))
    halves = torch.empty((2, moved // 2), dtype=torch.uint8, device="cuda")
    calls = {"kiln": call, "copy": lambda: halves[0].copy_(halves[1]), "eager": lambda: function(x, *others)}
    if compiles:
        torch._dynamo.reset()
        compiled = torch.compile(function)
        calls["compiled"] = lambda: compiled(x, *others)
    times = measure(calls, rounds)
    peers = [ratio(times, peer, "copy") for peer in ("eager", "compiled") if peer in times]
    mine = ratio(times, "kiln", "copy")
    print(f"{name:12} {str(dtype)[6:]:9} {rows:8}x{cols:<8} {mine:6.3f} " + " ".join(f"{p:6.3f}" for p in peers) +
          f" {mine / min(peers):6.3f}  {far:.2e} {torch_far:.2e}", flush=True)
    return mine / min(peers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--axis", type=int, default=-1, choices=(-1, 0))
    parser.add_argument("--fields", default="", help="more of the spec: 'template=cluster block=512'")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("op           dtype     shape              kiln  eager compiled  kiln/best  error torch's", flush=True)
    ratios = []
    for name in args.ops.split(","):
        for dtype in args.dtypes.split(","):
            for shape in args.shapes.split(","):
                rows, cols = map(int, shape.split("x"))
                ratios.append(case(name, rows, cols, args.axis, DTYPES[dtype], args.rounds, not args.no_compile,
                                   " " + args.fields))
                torch.cuda.empty_cache()
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"# {len(ratios)} cases: geometric mean of kiln/best {mean:.3f}, worst {max(ratios):.3f}")


if __name__ == "__main__":
    sys.exit(main())
