#!/usr/bin/env python3
"""The main job on real input: main_job.py KILN DIRECTORY

Makes x.npy and x2.npy in DIRECTORY, runs `kiln doctor`, `kiln run` for three ops, and `kiln warm` and `kiln build` for GPUs that
need not be here, compares every result with NumPy and ends with a table.
"""
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

SHAPE = (4096, 1024)
SAXPY = """extern "C" __global__ void saxpy(float *y, const float *x, float a, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}
"""


def make_input(path, seed):
    """Normal random values with every kind of special value strewn in."""
    generator = np.random.default_rng(seed)
    values = (4 * generator.standard_normal(SHAPE)).astype(np.float32)
    special = np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, -1e-40, 3, -3, 2.5, -2.5])
    places = generator.choice(values.size, 20000, replace=False)
    values.flat[places] = np.resize(special, places.size)
    np.save(path, values)
    return values


def hardsigmoid(x):
    clamped = np.minimum(np.maximum(x + np.float32(3), np.float32(0)), np.float32(6))
    return clamped * np.float32(1 / 6)


def hardtanh(x):
    return np.minimum(np.maximum(x, np.float32(-1)), np.float32(1))


def same_bits(a, b):
    """Equal bit for bit, any NaN being equal to any NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))))


def run(kiln, directory, *arguments, capture=False):
    print("$ kiln " + " ".join(shlex.quote(argument) for argument in arguments), flush=True)
    done = subprocess.run([kiln, *arguments], cwd=directory, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE if capture else None, check=False)
    if done.returncode != 0:
        sys.exit(f"main_job.py: kiln {arguments[0]} ended with status {done.returncode}")
    return done.stdout


def run_op(kiln, directory, op, inputs, want):
    arguments = ["run", f"op={op} dtype=f32"]
    for name in inputs:
        arguments += ["--in", name]
    arguments += ["--out", "y.npy", "--verify", "--time", "--json"]
    figures = json.loads(run(kiln, directory, *arguments, capture=True))
    figures["op"] = op
    figures["numpy"] = "equal" if same_bits(np.load(directory / "y.npy"), want) else "DIFFERENT"
    return figures


def source_text(figures):
    if figures["source"] == "compiled":
        return f"compiled in {figures['compile_ms']:.1f} ms"
    return figures["source"]


def print_table(rows):
    head = ["op", "device", "source", "time", "GB/s", "verified", "NumPy"]
    lines = [head] + [[row["op"], row["device"], source_text(row), f"{row['time_ms']:.4f} ms", f"{row['gbps']:.1f}",
                       "yes" if row["verified"] else "NO", row["numpy"]] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    print(f"\n{SHAPE[0]} x {SHAPE[1]} float32:")
    for line in lines:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: main_job.py KILN DIRECTORY")
    kiln, directory = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    x = make_input(directory / "x.npy", 1)
    x2 = make_input(directory / "x2.npy", 2)
    (directory / "saxpy.cu").write_text(SAXPY, encoding="utf-8")

    run(kiln, directory, "doctor")
    run(kiln, directory, "warm", "op=hardsigmoid dtype=f32", "--target", "sm_80,sm_90,sm_100")
    run(kiln, directory, "build", "saxpy.cu", "--target", "sm_90")
    with np.errstate(invalid="ignore"):
        jobs = [("hardsigmoid", ["x.npy"], hardsigmoid(x)), ("hardtanh(-1,1)", ["x.npy"], hardtanh(x)),
                ("add(x,y)", ["x.npy", "x2.npy"], x + x2)]
    rows = [run_op(kiln, directory, *job) for job in jobs]
    print_table(rows)
    if not all(row["verified"] and row["numpy"] == "equal" for row in rows):
        sys.exit("main_job.py: a result is wrong")


if __name__ == "__main__":
    main()
