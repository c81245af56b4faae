"""Orders of contenders and what their samples mean. Standard library only."""
import math
import random
import statistics


def williams(count):
    """Orders of 0..count-1 in which each follows each other equally often: Williams' squares, one for an even count, two
    mirrored ones for an odd count. Over all of them each also stands in each place equally often."""
    first = [(i + 1) // 2 if i % 2 else (count - i // 2) % count for i in range(count)]
    rows = [[(place + shift) % count for place in first] for shift in range(count)]
    return rows if count % 2 == 0 else rows + [row[::-1] for row in rows]


def orders(count, rounds, seed=1):
    """At least `rounds` orders: whole squares, the rows of each in an order of its own."""
    draw = random.Random(seed)
    out = []
    while len(out) < rounds:
        rows = williams(count)
        draw.shuffle(rows)
        out += rows
    return out


def median_rank(count):
    """How many samples may be cut off at each end so that those left still hold the median with 95%."""
    below, rank = 0.0, 0
    while rank < count // 2:
        below += math.comb(count, rank) / 2**count
        if below > 0.025:
            break
        rank += 1
    return max(rank - 1, 0)


def ratio(ours, theirs):
    """(median, low, high) of the paired ratios; the 95% interval is of the median and assumes no distribution."""
    pairs = sorted(a / b for a, b in zip(ours, theirs))
    rank = median_rank(len(pairs))
    return statistics.median(pairs), pairs[rank], pairs[len(pairs) - 1 - rank]


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def ratio_text(triple, digits=3):
    return "" if triple is None else "{:.{d}f} [{:.{d}f}, {:.{d}f}]".format(*triple, d=digits)


def table(heads, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])
