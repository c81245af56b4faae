"""Kiln against PyTorch and the copy ceiling, in one process, on the same buffers, interleaved.

    python3 tests/device/torch_peer.py libkiln.so.0 [--size 4096x393216] [--rounds 30] [--out FILE.json]

Each round times every contender once with CUDA events, the order rotating; ratios are paired within a round and given as
their median with the 95% interval of the median. The ceiling is the better of cuMemcpyDtoD and Kiln's plain copy kernel of the
same traffic. Every result is verified first: outputs are poisoned, then Kiln's must equal PyTorch's bit for bit."""
import argparse
import ctypes
import json
import random
import statistics

import torch

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
BITS = {"f32": torch.int32, "f16": torch.int16, "bf16": torch.int16}


class Kiln:
    """The few calls that are needed, through ctypes."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.kiln_status_name.restype = ctypes.c_char_p
        self.service = ctypes.c_void_p()
        self.check(self.lib.kiln_open(ctypes.byref(self.service), None, None), "open")

    def check(self, status, what):
        if status != 0:
            raise SystemExit(f"{what}: {self.lib.kiln_status_name(status).decode()}")

    def get(self, text):
        spec, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.kiln_spec_parse(ctypes.byref(spec), self.service, text.encode(), None), text)
        self.check(self.lib.kiln_get(ctypes.byref(kernel), self.service, spec, None), text)
        self.lib.kiln_spec_free(spec)
        return kernel

    def launcher(self, kernel, out, inputs):
        n = ctypes.c_uint64(out.numel())
        pointers = (ctypes.c_void_p * 3)(*[t.data_ptr() for t in inputs])
        target = ctypes.c_void_p(out.data_ptr())
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def launch():
            status = self.lib.kiln_launch(kernel, n, target, pointers, stream, None)
            if status != 0:
                self.check(status, "launch")

        return launch


def timed(function):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def interleave(contenders, rounds):
    names = list(contenders)
    for _ in range(3):
        for name in names:
            timed(contenders[name])
    samples = {name: [] for name in names}
    for r in range(rounds):
        order = names[r % len(names):] + names[: r % len(names)]
        for name in order:
            samples[name].append(timed(contenders[name]))
    return samples


def ratio(a, b):
    """Median of the paired ratios and the bootstrap 95% interval of that median."""
    pairs = [x / y for x, y in zip(a, b)]
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(pairs, k=len(pairs))) for _ in range(2000))
    return statistics.median(pairs), medians[50], medians[1949]


def same_bits(a, b, dtype):
    equal = a.view(BITS[dtype]) == b.view(BITS[dtype])
    return bool((equal | (torch.isnan(a) & torch.isnan(b))).all())


def verify(launch, torch_op, y, dtype):
    step = 1 << 26
    y.view(BITS[dtype]).fill_(0x5A5A)
    launch()
    torch.cuda.synchronize()
    flat = y.view(-1)
    for at in range(0, flat.numel(), step):
        part = slice(at, min(at + step, flat.numel()))
        if not same_bits(flat[part], torch_op(part), dtype):
            raise SystemExit(f"FAILED: Kiln and PyTorch differ near element {at}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--size", default="4096x393216")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--dtypes", default="f32,f16,bf16")
    parser.add_argument("--geometry", default="", help="extra spec fields for every Kiln kernel")
    parser.add_argument("--out")
    options = parser.parse_args()
    n = 1
    for part in options.size.split("x"):
        n *= int(part)
    kiln = Kiln(options.library)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {options.size} elements, {options.rounds} rounds")
    print(f"{'op':12} {'dtype':5} {'kiln ms':>8} {'GB/s':>6} {'torch ms':>8} {'memcpy ms':>9} {'copy ms':>8}  "
          f"{'/ceiling [95%]':>24}  {'/torch [95%]':>24}")
    rows = []
    for dtype in options.dtypes.split(","):
        x = torch.empty(n, device="cuda", dtype=DTYPES[dtype])
        for at in range(0, n, 1 << 28):
            x[at:at + (1 << 28)].normal_(0, 3)
        special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 3, -3, 2.5, -2.5], device="cuda")
        x[: special.numel()] = special.to(DTYPES[dtype])
        x[-special.numel():] = special.to(DTYPES[dtype])
        z = x.flip(0)
        y = torch.empty_like(x)
        functions = {
            "hardsigmoid": ([x], lambda: torch._C._nn.hardsigmoid(x, out=y),
                            lambda p: torch._C._nn.hardsigmoid(x[p])),
            "hardtanh": ([x], lambda: torch._C._nn.hardtanh(x, -1.0, 1.0, out=y),
                         lambda p: torch._C._nn.hardtanh(x[p], -1.0, 1.0)),
            "add(x,y)": ([x, z], lambda: torch.add(x, z, out=y), lambda p: torch.add(x[p], z[p])),
        }
        for op, (inputs, torch_op, torch_part) in functions.items():
            text = f"op={op} dtype={dtype} {options.geometry}"
            launch = kiln.launcher(kiln.get(text), y, inputs)
            verify(launch, torch_part, y, dtype)
            # The same traffic as a copy: half of it read, half written. With two inputs that is one and a half arrays.
            elements = n * (len(inputs) + 1) // 2
            source, sink = torch.empty(elements, device="cuda", dtype=DTYPES[dtype]), torch.empty(
                elements, device="cuda", dtype=DTYPES[dtype])
            source[:n] = x
            source[n:] = x[: elements - n]
            samples = interleave({
                "kiln": launch,
                "torch": torch_op,
                "memcpy": lambda: sink.copy_(source),
                "copy": kiln.launcher(kiln.get(f"op=copy dtype={dtype}"), sink, [source]),
            }, options.rounds)
            median = {name: statistics.median(values) for name, values in samples.items()}
            best = min(("memcpy", "copy"), key=lambda name: median[name])
            ceiling, peer = ratio(samples["kiln"], samples[best]), ratio(samples["kiln"], samples["torch"])
            gbps = n * (len(inputs) + 1) * x.element_size() / median["kiln"] / 1e6
            print(f"{op:12} {dtype:5} {median['kiln']:8.4f} {gbps:6.0f} {median['torch']:8.4f} {median['memcpy']:9.4f} "
                  f"{median['copy']:8.4f}  {ceiling[0]:8.4f} [{ceiling[1]:.4f}, {ceiling[2]:.4f}]  "
                  f"{peer[0]:8.4f} [{peer[1]:.4f}, {peer[2]:.4f}]", flush=True)
            rows.append({"op": op, "dtype": dtype, "ms": median, "gbps": gbps, "ceiling": best,
                         "ratio_to_ceiling": ceiling, "ratio_to_torch": peer})
            del source, sink
        del x, y, z, functions
        torch.cuda.empty_cache()
    if options.out:
        with open(options.out, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
