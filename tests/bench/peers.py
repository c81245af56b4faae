#!/usr/bin/env python3
"""Kiln against its peers: one command that makes the tables of docs/benchmarks.md.

    python3 tests/bench/peers.py BUILD [--parts throughput,sizes,launch,latency] [--quick] [--json FILE]

BUILD is a build directory with src/libkiln.so and, for the last two parts, tests/bench_launch_cost and
tests/bench_latency. Needs PyTorch; Triton, CuPy and what torch has of its own take part where they are there and right.

throughput  Kiln, tuned from nothing, against everyone on the same arrays in one stream. In each round each contender is timed
            once with device events; the orders of the rounds are Williams' squares, so that each follows each other
            equally often, because what ran before matters (a streaming kernel is slower after a plain one). The ceiling is the
            better of cuMemcpyDtoD and a plain kernel of the same traffic, in the same rounds.
sizes       Graphs of launches, Kiln, tuned for each size, against torch with a given output, 2^10 to 2^30 elements.
launch      What a launch costs the calling thread.
latency     Fresh processes: the first kernels with empty and with full caches.

Ratios are medians of the paired ratios of each round, with the distribution-free 95% interval of that median. Every
result is proved before it is timed: outputs are poisoned, then compared with torch's in every element, bit for bit for Kiln. A
part that has used its time (--budget) leaves out the rest and says so. Results are saved after every step."""
import argparse
import json
import os
import shutil
import sys
import tempfile
import time

PARTS = ("throughput", "sizes", "launch", "latency")


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("build")
    add("--parts", default=",".join(PARTS))
    add("--quick", action="store_true", help="small, short, for trying it")
    add("--json", help="where results are saved")
    add("--budget", type=float, default=540, help="seconds for each part (%(default)s)")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu only tries the benchmark")
    add("--size", help="elements of throughput; 4096x393216, with --quick less")
    add("--dtypes", default="f32,f16,bf16")
    add("--contenders", default="kiln,torch,triton,compile,cupy,jiterator")
    add("--rounds", type=int, default=64)
    add("--tune-budget", type=float, default=20, help="seconds for each kernel of throughput (%(default)s)")
    add("--tolerance", type=float, default=0.001, help="what tuning takes for equal, as a fraction (%(default)s)")
    add("--size-budget", type=float, default=2, help="seconds for each kernel of sizes (%(default)s)")
    add("--size-rounds", type=int, default=20)
    add("--sample-us", type=float, default=300, help="least length of a sample of sizes (%(default)s)")
    add("--tune-from", type=int, default=10, help="log2 of the size from which sizes tunes: all of them, unless named")
    add("--from-log2", type=int, default=10)
    add("--to-log2", type=int, default=30)
    add("--slow", action="store_true", help="latency of torch.compile and load_inline too")
    return parser, parser.parse_args(words)


def settle(parser, options):
    """Turns lists into lists and applies --quick."""
    options.parts = options.parts.split(",")
    options.dtypes = options.dtypes.split(",")
    options.contenders = options.contenders.split(",")
    if set(options.parts) - set(PARTS) or set(options.dtypes) - {"f32", "f16", "bf16"}:
        parser.error(f"--parts are of {', '.join(PARTS)}; --dtypes of f32, f16, bf16")
    if not {"kiln", "torch"} <= set(options.contenders):
        parser.error("--contenders must have kiln and torch")
    if options.size is None:
        options.size = "4096x393216" if not options.quick else "1024x1024" if options.device == "cpu" else "4096x16384"
    if options.quick:
        options.rounds, options.size_rounds = min(options.rounds, 16), min(options.size_rounds, 6)
        options.tune_budget, options.size_budget = min(options.tune_budget, 3), min(options.size_budget, 0.5)
        options.to_log2 = min(options.to_log2, 20 if options.device == "cpu" else 26)
    options.elements = 1
    for factor in options.size.split("x"):
        options.elements *= int(factor)
    return options


class Run:
    """What the parts share: device, Kiln, results and the clock."""

    def __init__(self, options):
        import peers_device
        from peers_kiln import Kiln
        self.options = options
        self.device = peers_device.Cuda() if options.device == "cuda" else peers_device.Host()
        self.store = tempfile.mkdtemp(prefix="kiln-peers-")
        self.library = os.path.abspath(os.path.join(options.build, "src", "libkiln.so"))
        self.kiln = Kiln(self.library, self.device.kiln, self.store)
        self.results, self.end = {"machine": self.machine()}, 0
        self.exact = options.device == "cuda"  # torch's kernels for the processor divide by 6

    def machine(self):
        import torch
        out = {"device": self.device.name, "kiln": self.kiln.version, "torch": torch.__version__,
               "options": vars(self.options), "cores": os.cpu_count()}
        for name in ("triton", "cupy"):
            try:
                out[name] = __import__(name).__version__
            except Exception as trouble:
                out[name] = f"none: {trouble}"[:100]
        return out

    def part(self, name):
        return self.results.setdefault(name, [])

    def left(self):
        return max(self.end - time.monotonic(), 0)

    def is_late(self, what):
        if self.left() > 0:
            return False
        self.part("left_out").append(what)
        self.say(f"  no time left: {what} is left out")
        return True

    def say(self, text):
        print(text, flush=True)

    def save(self):
        if self.options.json:
            with open(self.options.json + ".new", "w") as file:
                json.dump(self.results, file, indent=1, default=str)
            os.replace(self.options.json + ".new", self.options.json)

    def close(self):
        self.save()
        self.kiln.close()
        shutil.rmtree(self.store, ignore_errors=True)


def main():
    options = settle(*parse())
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        import torch
    except ImportError as trouble:
        raise SystemExit(f"peers.py needs PyTorch: {trouble}")
    import peers_host
    import peers_speed
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    run = Run(options)
    run.say(f"{run.device.name}, " + ", ".join(f"{k} {run.results['machine'][k]}" for k in ("kiln", "torch", "triton", "cupy")))
    failed = False
    for name in options.parts:
        run.end, start = time.monotonic() + options.budget, time.monotonic()
        try:
            getattr(peers_speed if name in ("throughput", "sizes") else peers_host, name)(run)
        except Exception as trouble:  # the other parts may still be had
            failed = True
            run.part("failed").append(f"{name}: {type(trouble).__name__}: {trouble}")
            run.say(f"FAILED {name}: {type(trouble).__name__}: {trouble}")
        run.say(f"\n({name}: {time.monotonic() - start:.0f} s)\n")
        run.save()
    run.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
