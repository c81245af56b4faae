#!/usr/bin/env python3
"""Runs, checks and tunes the example templates that have more than flat arrays of one type, on a device.

    tests/device/templates.py KILN DEVICE [--small]

Each template computes on arrays that are not zero. Its results are compared with the cpu twin (--verify) and with
NumPy, and all its variants are compared in a tuning. The last lines are a table. --small is for the cpu."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples/templates")
rng = np.random.default_rng(20)


def length(big):
    x, y = (rng.standard_normal(1 << (24 if big else 16)).astype(np.float16) for _ in range(2))
    wide = [v.astype(np.float64) for v in (x, y)]
    return [x, y], [np.sqrt(wide[0] ** 2 + wide[1] ** 2)], 1e-6


def butterfly(big):
    x, y = rng.standard_normal((2, 1 << (24 if big else 16))).astype(np.float32)
    return [x, y], [x + y, x - y], 0


def histogram(big):
    values = rng.integers(0, 30000, 1 << (24 if big else 16), dtype=np.int32)
    before = rng.integers(0, 100, 25600, dtype=np.int32)
    return [before, values], [before + np.bincount(values, minlength=30000)[:25600]], 0


def transpose(big):
    x = rng.standard_normal((4096, 2049) if big else (70, 45)).astype(np.float32)
    return [x], [x.T], 0


def softmax(big):
    x = 3 * rng.standard_normal((8192, 4099) if big else (64, 1001)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return [x], [e / e.sum(axis=1, keepdims=True)], 3e-6


def gather(big):
    x = rng.standard_normal(1 << (22 if big else 14)).astype(np.float32)
    index = rng.integers(0, x.size, 1 << (24 if big else 16), dtype=np.int64)
    return [x, index], [x[index]], 0


# name, what it shows, arrays and results, sizes of the tuning
CASES = [
    ("length", "include, two types", length, lambda big: ["2^24" if big else "2^14"]),
    ("butterfly", "two outputs", butterfly, lambda big: ["2^24" if big else "2^14"]),
    ("histogram", "100 KiB of shared memory", histogram, lambda big: ["n=2^24" if big else "n=2^14"]),
    ("transpose", "two sizes, 2-D blocks", transpose, lambda big: ["rows=4096", "cols=2048"] if big else ["rows=70", "cols=45"]),
    ("softmax", "tolerance", softmax, lambda big: ["rows=8192", "cols=4096"] if big else ["rows=64", "cols=1000"]),
    ("gather", "int64 indices", gather, lambda big: ["n=2^24", "m=2^22"] if big else ["n=2^14", "m=2^12"]),
]


def kiln(*args):
    done = subprocess.run([sys.argv[1], *args, "--device", sys.argv[2], "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"kiln {' '.join(args)}: status {done.returncode}\n{done.stderr}{done.stdout[:2000]}")
    return json.loads(done.stdout)


def run(name, directory, inputs, wanted, relative):
    files = []
    for i, array in enumerate(inputs):
        path = os.path.join(directory, f"{name}-in{i}.npy")
        np.save(path, array)
        files += ["--in", path]
    outputs = [os.path.join(directory, f"{name}-out{i}.npy") for i in range(len(wanted))]
    for path in outputs:
        files += ["--out", path]
    result = kiln("run", os.path.join(TEMPLATES, f"{name}.cu"), *files, "--verify", "--time")
    worst = 0.0
    for path, want in zip(outputs, wanted):
        got = np.load(path)
        if got.shape != want.shape:
            raise SystemExit(f"{name}: shape {got.shape}, not {want.shape}")
        error = np.abs(got.astype(np.float64) - want)
        if not (error <= relative * np.abs(want) + (1e-30 if relative else 0)).all():
            raise SystemExit(f"{name}: differs from NumPy by up to {error.max()}")
        worst = max(worst, float((error / np.maximum(np.abs(want), 1e-30)).max()))
    return result, worst


def main():
    big = "--small" not in sys.argv[3:]
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for name, shows, make, sizes in CASES:
            result, worst = run(name, directory, *make(big))
            size_args = [word for size in sizes(big) for word in ("--size", size)]
            tuned = kiln("tune", os.path.join(TEMPLATES, f"{name}.cu"), *size_args, "--no-learn", "--budget", "10")["results"][0]
            best = tuned["variant_results"][0]
            rows.append((name, shows, "yes" if result["verified"] else "no", f"{worst:.1e}", f"{result['gbps']:.0f}",
                         str(tuned["variants"]), str(tuned["out"]), tuned["end"], f"{1 / best['ratio']:.3f}"))
            if tuned["out"] > 0:
                raise SystemExit(f"{name}: {tuned['out']} variants are left out: {tuned['variant_results']}")
    head = ("template", "shows", "verified", "worst error", "GB/s", "variants", "left out", "tuning", "faster by")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


if __name__ == "__main__":
    main()
