"""kiln_apply against eager PyTorch and torch.compile on tensors of many layouts: the time of a call, paired.

    KILN_LIBRARY=libkiln.so python3 tests/device/torch_tensors.py [--rounds 15] [--cases adam,swiglu] [--shrink 0]

Each case is one op on the same tensors. The results are compared first: with round=eager bit for bit with eager PyTorch,
where no case says otherwise. Then eager, compiled, Kiln and a copy take turns, several calls a round between two events.
"copy" is cudaMemcpyAsync of half the bytes that the case reads and writes. Prints medians over rounds of the ratios of a
round: Kiln over the copy, over compiled, and eager over Kiln. --shrink 4 divides the first extent by 16, for a trial.
"""

import argparse
import statistics
import sys

import torch
import torch.nn.functional as F

from calls import Apply
from torch_eager import differing


def blend(a, front, back):
    """In 32 bits, as Kiln calculates u8."""
    a = a.int()
    return torch.div(a * front + (255 - a) * back + 127, 255, rounding_mode="floor").to(torch.uint8)


def adam(p, m, g, v, lr):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - lr * m / (torch.sqrt(v) + 1e-8), m, v


ADAM = ("op=(p - ?lr * (0.9 * m + 0.1 * g) / (sqrt(0.999 * v + 0.001 * g * g) + 1e-8), 0.9 * m + 0.1 * g, "
        "0.999 * v + 0.001 * g * g)")


def cases(device, shrink):
    """Yields the name, Kiln's text, the inputs, torch's function, its further arguments, and whether bits are compared."""
    made = torch.Generator(device=device).manual_seed(1)
    on_gpu = device == "cuda"  # the cpu has other functions than CUDA

    def real(*shape, dtype=torch.float32):
        return torch.randn(shape[0] >> shrink, *shape[1:], device=device, generator=made).to(dtype)

    def byte(*shape):
        return torch.randint(0, 256, (shape[0] >> shrink, *shape[1:]), device=device, generator=made, dtype=torch.uint8)

    x, y = real(1 << 28), real(1 << 28)
    yield ("chain of 6 ops", "op=relu(x * y + x) * 0.5 - y * x", [x, y],
           lambda x, y: torch.relu(x * y + x) * 0.5 - y * x, (), True)
    for name, dtype in (("f32", torch.float32), ("f16", torch.float16)):
        x = real(32768, 4096, dtype=dtype)
        for kind, bias in (("row", real(4096 << shrink, dtype=dtype)), ("column", real(32768, 1, dtype=dtype))):
            yield f"gelu(x + bias), {kind}, {name}", "op=gelu(x + y)", [x, bias], lambda x, b: F.gelu(x + b), (), on_gpu
    x, y = real(16384, 16384), real(16384 << shrink, 16384 >> shrink)
    yield "x^T + y", "op=x + y", [x.t(), y], lambda x, y: x + y, (), True
    for name, dtype, cols in (("f16", torch.float16, 32768), ("f16, odd", torch.float16, 32767), ("u8", torch.uint8, 32768)):
        x, y = ((real(32768, 32768) * 10).to(dtype) for _ in range(2))
        yield f"x^T + y, {name}", "op=x + y", [x.t()[:cols], y[:cols]], lambda x, y: x + y, (), True
    x, y = real(32, 64, 16, 64, 32), real(32, 64, 16, 64, 32)
    yield "5-D permuted add", "op=x + y", [x.permute(2, 0, 4, 1, 3), y.reshape(-1).view(x.permute(2, 0, 4, 1, 3).shape)], \
        lambda x, y: x + y, (), True
    yield "blending of u8", "op=quotient(x * y + (255 - x) * z + 127, 255)", [byte(1 << 28) for _ in range(3)], blend, (), \
        False
    for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        gate, up = real(8192, 28672, dtype=dtype), real(8192, 28672, dtype=dtype)
        yield f"SwiGLU, {name}", "op=silu(x) * y", [gate, up], lambda g, u: F.silu(g) * u, (), on_gpu
    x, mask = real(64, 16, 256, 1024), real(64, 1, 1, 1024)  # a launch for each of 64
    yield "softmax with a mask, (b, 1, 1, n)", "op=softmax(x * 0.125 + y)", [x, mask], \
        lambda x, m: torch.softmax(x * 0.125 + m, -1), (), False
    wide = real(64, 512, 4096)
    yield "l2_normalize of a part", "op=l2_normalize", [wide[:, 128:384]], \
        lambda x: x / x.norm(dim=-1, keepdim=True), (), False
    p, m, g, v = (real(1 << 26) for _ in range(4))
    yield "Adam", ADAM, [p, m, g, v.abs()], adam, (0.001,), False


def check(text, ins, function, scalars, exact):
    """Kiln's outputs, like torch's, in which they have been compared."""
    want = function(*ins, *scalars)
    want = want if isinstance(want, tuple) else (want,)
    outs = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in want]
    for out in outs:
        out.view(torch.uint8).fill_(0xa5)
    Apply(text + (" round=eager" if exact else ""), outs, ins, scalars)()
    for got, expected in zip(outs, want):
        far = {2: 1e-2, 1: 0}.get(got.element_size(), 1e-4)
        wrong = differing(got, expected) if exact else int((~torch.isclose(got, expected, rtol=far, atol=far)).sum())
        if wrong:
            raise SystemExit(f"{text}: {wrong} of {got.numel()} elements differ")
    fused = [torch.empty_like(out) for out in outs]
    Apply(text, fused, ins, scalars)()
    for got, expected in zip(fused, want):
        far = {2: 3e-2, 1: 0}.get(got.element_size(), 1e-4)
        if not torch.allclose(got.double(), expected.double(), rtol=far, atol=far):
            raise SystemExit(f"{text}: the fused result is far from torch's")
    return outs


def measure(calls, rounds):
    """Milliseconds of a call for each contender, a list a round."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = {name: [] for name in calls}
    repeats = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        start.record()
        call()
        end.record()
        end.synchronize()
        repeats[name] = max(3, int(10 / max(start.elapsed_time(end), 1e-3)))
    for _ in range(rounds):
        for name, call in calls.items():
            start.record()
            for _ in range(repeats[name]):
                call()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) / repeats[name])
    return times


def ratio(times, one, other):
    return statistics.median(a / b for a, b in zip(times[one], times[other]))


def plain_copy(moved, device):
    """A call that reads half of so many bytes and writes the other half: whole words, which are faster."""
    halves = torch.empty((2, moved // 32 * 16), dtype=torch.uint8, device=device)
    return lambda: halves[0].copy_(halves[1])


def compare(text, ins, function, scalars, outs, rounds):
    """GB/s, the time of a call over that of the copy and of the compiled function, and eager's over it."""
    moved = sum(t.numel() * t.element_size() for t in outs + ins)
    compiled = torch.compile(function)
    times = measure({"kiln": Apply(text, outs, ins, scalars), "copy": plain_copy(moved, outs[0].device),
                     "compiled": lambda: compiled(*ins, *scalars), "eager": lambda: function(*ins, *scalars)}, rounds)
    return (moved / statistics.median(times["kiln"]) / 1e6, ratio(times, "kiln", "copy"),
            ratio(times, "kiln", "compiled"), ratio(times, "eager", "kiln"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cases", default="")
    parser.add_argument("--shrink", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: compares results only")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    chosen = tuple(filter(None, args.cases.split(",")))
    if args.device == "cuda":
        print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'case':28} {'GB/s':>6} {'of copy':>8} {'of compile':>10} {'eager/kiln':>10}", flush=True)
    for name, text, ins, function, scalars, exact in cases(args.device, args.shrink):
        if chosen and not name.startswith(chosen):
            continue
        outs = check(text, ins, function, scalars, exact)
        if args.device == "cpu":
            print(f"{name:28} equal", flush=True)
        else:
            speed, copy, compiled, eager = compare(text, ins, function, scalars, outs, args.rounds)
            print(f"{name:28} {speed:6.0f} {copy:8.3f} {compiled:10.3f} {eager:10.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
