#!/usr/bin/env python3
"""Whether `kiln bench` favours a position, and `kiln watch` a version: equal kernels are measured against each other.

    python3 tests/bench/fairness.py build/release/tools/kiln [--device cpu] [--sizes 64K,1M,4M,16M] [--runs 20]

bench  Friedman's test over the runs of whether equal kernels differ by their positions, and the median over the runs of
       the spread of their times: the largest median of a run over its smallest.
watch  Saves that change a comment: the new version's time over the old one's, with the 95% interval of their median,
       and how many saves were called a change.

Prints the figures beside what they should not exceed. The status tells no verdict: another load of the machine disturbs
single runs, so a figure counts when it comes again in a quiet moment."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from peers_stats import ratio, table

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples/templates/hardsigmoid256")
CHI_SQUARE_1_PERCENT = {1: 6.635, 2: 9.210, 3: 11.345, 4: 13.277, 5: 15.086, 6: 16.812, 7: 18.475}


def ranks(row):
    """1 for the least; equal ones share the mean of their ranks."""
    return [sum(other < value for other in row) + (sum(other == value for other in row) + 1) / 2 for value in row]


def friedman(rows):
    """(the statistic, chi-square distributed with one degree of freedom less than columns; the mean rank of each column)"""
    count, width = len(rows), len(rows[0])
    sums = [sum(column) for column in zip(*map(ranks, rows))]
    statistic = 12 / (count * width * (width + 1)) * sum(s * s for s in sums) - 3 * count * (width + 1)
    return statistic, [s / count for s in sums]


def bench(options, store, size):
    rows = []
    for _ in range(options.runs):
        words = [options.kiln, "bench", *[options.spec] * options.kernels, "--size", size, "--json", "--cache-dir", store,
                 "--device", options.device]
        result = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
        rows.append([row["time_ms"] for row in result["results"]])
    statistic, means = friedman(rows)
    spread = statistics.median(max(row) / min(row) - 1 for row in rows)
    return [size, " ".join(f"{statistics.median(column):.4f}" for column in zip(*rows)),
            " ".join(f"{mean:.2f}" for mean in means),
            f"{statistic:.2f} of {CHI_SQUARE_1_PERCENT[options.kernels - 1]:.2f}", f"{spread:.1%} of 5%"]


def watch(options, store, size):
    folder = tempfile.mkdtemp(dir=store)
    paths = [os.path.join(folder, "mine" + end) for end in (".cu", ".c")]
    for end, path in zip((".cu", ".c"), paths):
        shutil.copy(EXAMPLE + end, path)
    words = [options.kiln, "watch", paths[0], "--size", size, "--json", "--cache-dir", store, "--device", options.device]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    rows = []
    while len(rows) < options.runs:
        for path in paths:
            with open(path + ".new", "w", encoding="utf-8") as file, open(path, encoding="utf-8") as old:
                file.write(old.read() + f"/* {len(rows)} */\n")
            os.rename(path + ".new", path)
        row = {"ms": None}
        while not (row["ms"] and row["ms_old"]):
            row = (json.loads(process.stdout.readline())["rows"] or [row])[0]
        rows.append(row)
    process.terminate()
    process.wait()
    changes = ratio([row["ms"] for row in rows], [row["ms_old"] for row in rows])
    return [size, "{:.3f} [{:.3f}, {:.3f}]".format(*changes), sum(not row["same_code"] for row in rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", default="64K,1M,4M,16M")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kernels", type=int, default=4, choices=range(2, 9))
    parser.add_argument("--spec", default="op=hardsigmoid dtype=f32")
    parser.add_argument("--parts", default="bench,watch")
    options = parser.parse_args()
    sizes, parts = options.sizes.split(","), options.parts.split(",")
    with tempfile.TemporaryDirectory() as store:
        if "bench" in parts:
            print(table(["elements", "median ms by position", "mean rank", "Friedman, 1%", "spread"],
                        [bench(options, store, size) for size in sizes]), flush=True)
        if "watch" in parts:
            print(table(["elements", "ms / ms_old", "called a change, of 0"],
                        [watch(options, store, size) for size in sizes]))


if __name__ == "__main__":
    sys.exit(main())
