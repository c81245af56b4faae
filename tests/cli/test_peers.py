"""What the benchmark against the peers makes of its samples (tests/bench/peers_stats.py): figures that nobody would notice if
they were wrong."""

import math
import os
import random
import shlex
import sys
import unittest
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import peers  # noqa: E402
import peers_stats  # noqa: E402

BENCHMARKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "benchmarks.md")


def options(*words):
    return peers.settle(*peers.parse(words))


class Options(unittest.TestCase):
    def test_all_sizes_are_tuned(self):
        self.assertLessEqual(options("build").tune_from, options("build").from_log2)
        self.assertLessEqual(options("build", "--quick").tune_from, options("build", "--quick").from_log2)

    def test_the_documented_commands_are_right(self):
        with open(BENCHMARKS, encoding="utf-8") as file:
            lines = [shlex.split(line, comments=True) for line in file if line.startswith("    python3 tests/bench/peers.py ")]
        self.assertGreater(len(lines), 2)
        documented = [options(*line[2:]) for line in lines]
        self.assertEqual({o.tune_from <= o.from_log2 for o in documented if "sizes" in o.parts}, {True})


class Orders(unittest.TestCase):
    def test_each_follows_each_other_equally_often(self):
        for count in range(2, 10):
            rows = peers_stats.williams(count)
            follows = Counter(pair for row in rows for pair in zip(row, row[1:]))
            self.assertEqual(set(follows), {(a, b) for a in range(count) for b in range(count) if a != b}, count)
            self.assertEqual(len(set(follows.values())), 1, count)

    def test_each_stands_in_each_place_equally_often(self):
        for count in range(2, 10):
            rows = peers_stats.williams(count)
            for place in range(count):
                self.assertEqual(set(Counter(row[place] for row in rows).values()), {len(rows) // count}, count)

    def test_rounds_are_whole_squares(self):
        for count, rounds in ((2, 5), (8, 60), (7, 60)):
            orders = peers_stats.orders(count, rounds)
            self.assertGreaterEqual(len(orders), rounds)
            self.assertEqual(len(orders) % len(peers_stats.williams(count)), 0)
            self.assertTrue(all(sorted(order) == list(range(count)) for order in orders))


class Ratios(unittest.TestCase):
    def test_ratios_are_paired(self):
        # Both drift by a factor of three; the ratio of the medians of shuffled samples would not be exact.
        theirs = [1 + i / 10 for i in range(21)]
        self.assertEqual({round(r, 12) for r in peers_stats.ratio([1.01 * t for t in theirs], theirs)}, {1.01})

    def test_rank_leaves_95_percent(self):
        for count in (6, 20, 21, 64, 100):
            rank = peers_stats.median_rank(count)
            outside = 2 * sum(math.comb(count, i) for i in range(rank + 1)) / 2**count
            self.assertLessEqual(outside, 0.05, count)
            one_more = outside + 2 * math.comb(count, rank + 1) / 2**count
            self.assertGreater(one_more, 0.05, count)

    def test_interval_holds_the_median(self):
        draw = random.Random(7)
        held = 0
        for _ in range(500):
            ours = [draw.lognormvariate(0, 0.3) for _ in range(33)]
            _, low, high = peers_stats.ratio(ours, [1.0] * 33)
            held += low <= 1 <= high
        self.assertGreater(held, 460)  # 475 are to be expected at the least

    def test_too_few_samples_give_their_range(self):
        self.assertEqual(peers_stats.ratio([1, 2, 3], [1, 1, 1]), (2, 1, 3))

    def test_geometric_mean(self):
        self.assertAlmostEqual(peers_stats.geometric_mean([1, 4]), 2)


if __name__ == "__main__":
    unittest.main()
