"""Parts "throughput" and "sizes": what the kernels take on the device."""
import functools
import statistics

import peers_contenders as contenders
from peers_contenders import KILN_OPS, OPS, Arrays
from peers_device import play_rounds
from peers_kiln import geometry
from peers_stats import geometric_mean, orders, ratio, ratio_text, table

LEVEL = 1.005


def spec_of(op, dtype, fields=""):
    return f"op={KILN_OPS[op]} dtype={dtype} {fields}".strip()


# ---- Throughput

def tune_all(run, dtype, n):
    """The fastest spec of each operation, found before torch takes the memory."""
    out = {}
    for op in OPS:
        found = run.kiln.tune(spec_of(op, dtype), n, run.options.tune_budget, run.options.tolerance, hot=0)
        run.say(f"tuned {op} {dtype}: {geometry(found['spec'])}, {found['seconds']:.1f} s, {found['end']}, "
                f"{ratio_text(found['to_default'])} of the default")
        out[op] = found
    return out


def gather(run, op, dtype, arrays, spec):
    """All contenders that are here and right, and notes about each."""
    inputs, out = arrays.take(op, arrays.n)
    ready, notes = {}, {}
    makers = {
        "kiln": lambda: (run.kiln.launcher(run.kiln.get(spec), out, inputs, run.device.handle), geometry(spec)),
        "torch": lambda: (contenders.torch_into(op, inputs, out), "out="),
    }
    for name, maker in contenders.PEERS.items():
        makers[name] = functools.partial(maker, op, inputs, out, run.device)
    for name, make in makers.items():
        if name not in run.options.contenders:
            continue
        try:
            function, notes[name] = make()
            exact = name in ("kiln", "torch") and run.exact
            contenders.prove(op, function, inputs, out, dtype, exact, run.device)
            ready[name] = function
        except Exception as trouble:  # a peer that cannot is told about; Kiln must
            if name in ("kiln", "torch"):
                raise
            notes[name] = f"left out: {type(trouble).__name__}: {trouble}"[:200]
            run.say(f"  {name} {notes[name]}")
    ready["memcpy"] = contenders.memory_copy(arrays, inputs, arrays.n, run.device)
    try:
        ready["plain"] = contenders.plain_kernel(inputs, out, run.device)
        ready["plain"]()
    except Exception as trouble:
        ready.pop("plain", None)
        notes["plain"] = f"left out: {type(trouble).__name__}: {trouble}"[:200]
        run.say(f"  plain {notes['plain']}")
    return ready, notes


def measure(run, op, dtype, arrays, tuned):
    ready, notes = gather(run, op, dtype, arrays, tuned["spec"])
    samples = play_rounds(run.device, ready, orders(len(ready), run.options.rounds))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    ceiling = min((name for name in ("memcpy", "plain") if name in medians), key=medians.get)
    ratios = {name: ratio(samples["kiln"], values) for name, values in samples.items() if name != "kiln"}
    row = {"op": op, "dtype": dtype, "elements": arrays.n, "rounds": len(samples["kiln"]), "ms": medians,
           "ceiling": ceiling, "kiln_over": ratios, "notes": notes, "tuned": tuned, "samples": samples,
           "gbps": arrays.n * (OPS[op] + 1) * arrays.element_size / medians["kiln"] / 1e6}
    run.say(f"  {op} {dtype}: Kiln {medians['kiln']:.4f} ms, / ceiling ({ceiling}) {ratio_text(ratios[ceiling])}, "
            f"/ torch {ratio_text(ratios.get('torch'))}")
    return row


def throughput(run):
    """Kiln tuned from nothing, then everyone in the same rounds on the same arrays."""
    n = run.options.elements
    rows = run.part("throughput")
    for dtype in run.options.dtypes:
        if run.is_late(f"throughput {dtype}"):
            break
        tuned = tune_all(run, dtype, n)
        arrays = Arrays(n, dtype, run.device.torch)
        for op in OPS:
            if not run.is_late(f"throughput {op} {dtype}"):
                rows.append(measure(run, op, dtype, arrays, tuned[op]))
                run.save()
        del arrays
        run.device.free()
    print_throughput(run, rows)


def print_throughput(run, rows):
    if not rows:
        return
    peers = [name for name in ("torch", *contenders.PEERS) if any(name in row["ms"] for row in rows)]
    print(f"\n### Throughput: {rows[0]['elements']:,} elements, {rows[0]['rounds']} rounds\n")
    print(table(["op", "dtype", "ms", "GB/s", "geometry", "/ ceiling", *[f"/ {p}" for p in peers]],
                [[r["op"], r["dtype"], f"{r['ms']['kiln']:.4f}", f"{r['gbps']:.0f}", geometry(r["tuned"]["spec"]),
                  ratio_text(r["kiln_over"][r["ceiling"]]), *[ratio_text(r["kiln_over"].get(p)) for p in peers]]
                 for r in rows]))
    print("\nMedian ms of each:\n")
    names = ["kiln", *peers, "memcpy", "plain"]
    print(table(["op", "dtype", *names, "ceiling"],
                [[r["op"], r["dtype"], *[f"{r['ms'][p]:.4f}" if p in r["ms"] else "" for p in names], r["ceiling"]]
                 for r in rows]))
    worst = max(rows, key=lambda r: r["kiln_over"][r["ceiling"]][2])
    level = sum(all(r["kiln_over"][p][2] <= LEVEL for p in ("torch", r["ceiling"]) if p in r["kiln_over"]) for r in rows)
    print(f"\nLevel (95% sure to take at most {LEVEL} times as long) with torch and the ceiling in {level} of {len(rows)} rows. "
          f"Highest upper bound over the ceiling: {worst['kiln_over'][worst['ceiling']][2]:.4f}, {worst['op']} {worst['dtype']}.")
    for name, note in sorted({(p, r["notes"].get(p, "")) for r in rows for p in (*contenders.PEERS, "plain")}):
        if "left out" in note or "allocates" in note:
            print(f"- {name}: {note}")


# ---- Sizes

def replays(run, function):
    """A graph long enough to be timed, and how many calls it has."""
    probe = 8
    replay = run.device.graph(function, probe)
    run.device.play([replay], 400)
    each = max(statistics.median(run.device.play([replay, replay, replay], 400)) / probe, 1e-4)
    count = min(max(int(run.options.sample_us / 1e3 / each + 1), 1), 2000)
    return run.device.graph(function, count), count


def measure_size(run, op, dtype, arrays, n):
    inputs, out = arrays.take(op, n)
    spec, tuned = f"{spec_of(op, dtype)} n={n}", None
    if n >= 1 << run.options.tune_from:
        tuned = run.kiln.tune(spec_of(op, dtype), n, run.options.size_budget, run.options.tolerance, hot=1)
        spec = tuned["spec"]
    kiln = run.kiln.launcher(run.kiln.get(spec), out, inputs, run.device.handle)
    contenders.prove(op, kiln, inputs, out, dtype, run.exact, run.device)
    into = contenders.torch_into(op, inputs, out)
    into()
    graphs = {"kiln": replays(run, kiln), "torch": replays(run, into)}
    samples = play_rounds(run.device, {name: graph for name, (graph, _) in graphs.items()},
                          orders(2, run.options.size_rounds))
    each = {name: [ms / graphs[name][1] for ms in values] for name, values in samples.items()}
    return {"op": op, "dtype": dtype, "log2_n": n.bit_length() - 1, "kiln_us": statistics.median(each["kiln"]) * 1e3,
            "torch_us": statistics.median(each["torch"]) * 1e3, "speed": ratio(each["torch"], each["kiln"]),
            "calls": {name: count for name, (_, count) in graphs.items()}, "tuned": tuned, "samples": samples}


def sizes(run):
    """From small to large: graphs of launches, Kiln against torch with a given output."""
    rows = run.part("sizes")
    powers = range(run.options.from_log2, run.options.to_log2 + 1, 2)
    for dtype in run.options.dtypes:
        arrays = Arrays(1 << powers[-1], dtype, run.device.torch)
        for op in OPS:
            if run.is_late(f"sizes {op} {dtype}"):
                break
            here = [measure_size(run, op, dtype, arrays, 1 << power) for power in powers]
            rows += here
            run.say(f"  {op} {dtype}: torch / Kiln " + " ".join(f"2^{r['log2_n']} {r['speed'][0]:.3f}" for r in here))
            run.save()
        del arrays
        run.device.free()
    print_sizes(run, rows, list(powers))


def print_sizes(run, rows, powers):
    if not rows:
        return
    by = {(r["op"], r["dtype"], r["log2_n"]): r for r in rows}
    print("\n### Sizes: how many times as fast as torch (torch's time over Kiln's), median of paired graph replays\n")
    kinds = sorted({(r["op"], r["dtype"]) for r in rows}, key=lambda k: (list(OPS).index(k[0]), run.options.dtypes.index(k[1])))
    print(table(["op", "dtype", *[f"2^{p}" for p in powers]],
                [[op, dtype, *[f"{by[op, dtype, p]['speed'][0]:.3f}" for p in powers]] for op, dtype in kinds]))
    print("\nMicroseconds of one launch, Kiln / torch:\n")
    print(table(["op", "dtype", *[f"2^{p}" for p in powers]],
                [[op, dtype, *["{kiln_us:.2f} / {torch_us:.2f}".format(**by[op, dtype, p]) for p in powers]]
                 for op, dtype in kinds]))
    lowest = min(rows, key=lambda r: r["speed"][0])
    large = [r["speed"][0] for r in rows if r["log2_n"] >= 24]
    print(f"\nLowest: {lowest['speed'][0]:.3f} (95%: from {lowest['speed'][1]:.3f}), {lowest['op']} {lowest['dtype']} "
          f"2^{lowest['log2_n']}."
          + (f" Geometric mean from 2^24 up: {geometric_mean(large):.4f}." if large else ""))
    print(tuned_sizes(run.options))


def tuned_sizes(options):
    tuned = f"tuned for the size within {options.size_budget:g} s."
    if options.tune_from <= options.from_log2:
        return f"Kiln {tuned}"
    return f"Kiln with the default geometry below 2^{options.tune_from}, from there on {tuned}"
