"""Errors of ops that reduce an axis, of kiln_apply and of eager PyTorch, from float64 on the same values.

    KILN_LIBRARY=libkiln.so python3 tests/device/torch_errors.py [--rows 10000] [--cols 1000] [--ops softmax,var]
                                                               [--dtypes f32,f16,bf16] [--markdown]

The rows are of ten kinds: random, random and scaled to one in a thousand or to a thousand, sums that cancel, one large
element, a constant, rising, falling, of all magnitudes, and a few -inf. The error of a row is the largest of its elements',
in units of the largest result of the row. Prints for each op and dtype the mean and the largest over all rows, of Kiln and
of PyTorch; the greatest ratio of the means of a kind, and that kind. Then rows with NaN, infinities, -0 and without
elements must have NaN and infinities where PyTorch's result has them. Exits 1 where one differs, or where Kiln's mean is
more than twice PyTorch's and more than a tenth of a unit of the last place.
"""

import argparse
import sys

import torch
import torch.nn.functional as F

from calls import Apply
from torch_rows import DTYPES

EPS = {"f32": 2.0**-24, "f64": 2.0**-53, "f16": 2.0**-11, "bf16": 2.0**-8}
KINDS = ["random", "small", "large", "cancels", "outlier", "constant", "rising", "falling", "magnitudes", "-inf"]


def rows_of(kind, rows, cols, made):
    x = torch.randn(rows, cols, device="cuda", dtype=torch.float64, generator=made)
    steps = torch.arange(cols, device="cuda", dtype=torch.float64) / cols
    if kind == "small":
        return x * 1e-3
    if kind == "large":
        return x * 1e3
    if kind == "cancels":
        return x + 300 * (1 - 2 * (torch.arange(cols, device="cuda") % 2))
    if kind == "outlier":
        x[torch.arange(rows), torch.randint(0, cols, (rows,), device="cuda", generator=made)] = 1000
    if kind == "constant":
        return x[:, :1].expand(rows, cols).clone()
    if kind == "rising":
        return x * 1e-3 + 10 * steps
    if kind == "falling":
        return x * 1e-3 - 10 * steps
    if kind == "magnitudes":
        return x.sign() * torch.exp2(torch.rand(rows, cols, device="cuda", dtype=torch.float64, generator=made) * 24 - 16)
    if kind == "-inf":
        x[:, ::7] = -torch.inf
    return x


def rms_norm(x, w):
    """As PyTorch's is without a GPU, where one infinity in a row does not make all of it NaN."""
    wide = x.double() if x.dtype == torch.float64 else x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5) * w).to(x.dtype)


def normalize(x):
    """As PyTorch's is in float32, where the least divisor is not rounded to 0."""
    return F.normalize(x.float(), dim=-1).to(x.dtype)


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


# Each: Kiln's text, torch's function, how many rows it takes besides x, and whether -inf in a row is of use.
OPS = {
    "sum": ("op=sum(x)", lambda x: x.sum(-1), 0, False),
    "mean": ("op=mean(x)", lambda x: x.mean(-1), 0, False),
    "prod": ("op=prod(1 + x * 0.001)", lambda x: (1 + x * 0.001).prod(-1), 0, False),
    "var": ("op=var(x, correction=1)", lambda x: x.var(-1), 0, False),
    "std": ("op=std(x, correction=1)", lambda x: x.std(-1), 0, False),
    "norm": ("op=norm(x)", lambda x: x.norm(dim=-1), 0, False),
    "logsumexp": ("op=logsumexp(x)", lambda x: x.logsumexp(-1), 0, True),
    "softmax": ("op=softmax", lambda x: torch.softmax(x, -1), 0, True),
    "log_softmax": ("op=log_softmax", lambda x: torch.log_softmax(x, -1), 0, True),
    "layer_norm": ("op=layer_norm(x, w, b)", layer_norm, 2, False),
    "rms_norm": ("op=rms_norm(x, w, eps=1e-5)", lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5), 1, False),
    "l2_normalize": ("op=l2_normalize", lambda x: F.normalize(x, dim=-1), 0, False),
    "cumsum": ("op=cumsum(x)", lambda x: x.cumsum(-1), 0, False),
    "cumprod": ("op=cumprod(1 + x * 0.001)", lambda x: (1 + x * 0.001).cumprod(-1), 0, False),
    "max": ("op=max(x)", lambda x: x.max(-1)[0], 0, True),
    "min": ("op=min(x)", lambda x: x.min(-1)[0], 0, True),
    "argmax": ("op=argmax(x)", lambda x: x.argmax(-1), 0, True),
    "argmin": ("op=argmin(x)", lambda x: x.argmin(-1), 0, True),
    "cummax": ("op=cummax(x)", lambda x: x.cummax(-1)[0], 0, True),
}


def run(text, function, x, others):
    """Kiln's result, PyTorch's, and PyTorch's in float64."""
    mine = function(x, *others)
    out = torch.empty_like(mine)
    out.view(-1).view(torch.uint8).fill_(0xA5)
    Apply(text + " axis=-1", [out], [x, *others])()
    torch.cuda.synchronize()
    return out, mine, function(x.double(), *(t.double() for t in others))


def far(got, true):
    """The error of each row."""
    near = true.to(got.dtype).double()  # infinite, where the value is none of the type
    got, true = got.double(), true.double()
    off = torch.where((got == near) & ~near.isfinite() | (got == true) | (got.isnan() & true.isnan()), 0.0, (got - true).abs())
    if true.dim() == 1:
        off, true = off[:, None], true[:, None]
    size = torch.where(true.isfinite(), true.abs(), 0.0).amax(-1)
    return off.amax(-1) / torch.where(size == 0, 1.0, size)


def compare(name, dtype, rows, cols, markdown):
    text, function, wide, takes_inf = OPS[name]
    made = torch.Generator(device="cuda").manual_seed(7)
    others = [torch.randn(cols, device="cuda", generator=made).to(DTYPES[dtype]) for _ in range(wide)]
    all_mine, all_torch, worst, worst_kind = [], [], 0.0, "-"
    good = True
    for kind in KINDS if takes_inf else KINDS[:-1]:
        x = rows_of(kind, rows // len(KINDS), cols, made).to(DTYPES[dtype])
        out, mine, true = run(text, function, x, others)
        if not true.is_floating_point():
            good = good and torch.equal(out, mine)
            continue
        a, b = far(out, true), far(mine, true).nan_to_num(torch.inf)
        all_mine.append(a)
        all_torch.append(b)
        of_kind = a.mean().item() / max(b.mean().item(), 0.05 * EPS[dtype])
        if of_kind > worst:
            worst, worst_kind = of_kind, kind
        good = good and not a.isnan().any().item() and of_kind <= 2
    if not all_mine:
        figures = ["equal" if good else "DIFFERS"]
    else:
        a, b = torch.cat(all_mine) / EPS[dtype], torch.cat(all_torch) / EPS[dtype]
        figures = [f"{a.mean():.2f}", f"{b.mean():.2f}", f"{a.max():.1f}", f"{b.max():.1f}", f"{worst:.2f}", worst_kind]
    print(("| " + " | ".join([name, dtype, *figures]) + " |") if markdown
          else f"{name:12} {dtype:5} " + " ".join(f"{f:>9}" for f in figures) + ("" if good else "   FAILED"), flush=True)
    return good


def special(name, dtype):
    text, function, wide, _ = OPS[name]
    function = {"rms_norm": rms_norm, "l2_normalize": normalize}.get(name, function)
    values = torch.tensor([1.5, torch.nan, torch.inf, -torch.inf, -0.0, 0.0], device="cuda", dtype=DTYPES[dtype])
    made = torch.Generator(device="cuda").manual_seed(3)
    good = True
    for cols in (1, 2, 5, 33, 1000):
        x = torch.randn(512, cols, device="cuda", generator=made).to(DTYPES[dtype])
        for row in range(0, 512, 2):  # up to four values of some two kinds
            places = torch.randint(0, cols, (row % 5,), device="cuda", generator=made)
            x[row, places] = values[torch.randint(0, 6, (row % 5,), device="cuda", generator=made)]
        x[1], x[3], x[5] = -torch.inf, torch.inf, -0.0
        others = [torch.ones(cols, device="cuda", dtype=DTYPES[dtype])] * wide
        out, mine, _ = run(text, function, x, others)
        if out.is_floating_point():
            same = (out.isnan() == mine.isnan()) & ((out.isinf() == mine.isinf()) & ((out == mine) | ~mine.isinf()) | mine.isnan())
        else:
            same = out == mine
        if not same.all():
            row = int((~same).view(512, -1).any(-1).nonzero()[0])
            print(f"{name} {dtype}: special values of {cols} columns, row {row}: {x[row].tolist()[:8]}\n"
                  f"   {out[row].tolist() if out.dim() == 1 else out[row].tolist()[:8]}\n"
                  f"   {mine[row].tolist() if out.dim() == 1 else mine[row].tolist()[:8]}")
            good = False
    for shape in ((0, 5), (5, 0)):
        if shape[1] == 0 and name in ("max", "min", "argmax", "argmin", "cummax"):
            continue  # PyTorch refuses
        x = torch.empty(shape, device="cuda", dtype=DTYPES[dtype])
        out, mine, _ = run(text, function, x, [torch.ones(shape[1], device="cuda", dtype=DTYPES[dtype])] * wide)
        if not torch.equal(out.nan_to_num(7), mine.nan_to_num(7)):
            print(f"{name} {dtype} of {shape}: {out.tolist()}, and PyTorch has {mine.tolist()}")
            good = False
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--cols", type=int, default=1000)
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--dtypes", default="f32,f16,bf16")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {args.rows} rows of {args.cols}")
    if not args.markdown:
        print("op           dtype      mean   torch's       max   torch's     worst of kind", flush=True)
    good = True
    for name in args.ops.split(","):
        for dtype in args.dtypes.split(","):
            good = compare(name, dtype, args.rows, args.cols, args.markdown) and good
            good = special(name, dtype) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
