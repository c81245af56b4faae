"""How much time the default geometry takes over the tuned one: four ops, three dtypes, sizes from 2^20 to 2^28.

    python3 tests/device/defaults.py KILN [--hot] [--budget 4] [--powers 20,21] [--ops add(x,y)] [--dtypes f32]

Tunes each with `kiln tune` and prints default over tuned, the fastest of all variants. The arrays do not fit into the caches
together, unless --hot lets them stay there. Behind each ratio stands the winner: block, elems, vector, and s for
cache=stream. Ends with status 1 if a default takes more than 3% over the tuned time.
"""

import argparse
import json
import re
import subprocess
import sys


def tune(kiln, spec, power, budget, hot):
    """The default's time over the winner's, and the winner's geometry."""
    command = [kiln, "tune", f"{spec} n={1 << power}", "--size", f"2^{power}", "--budget", str(budget), "--no-learn", "--json",
               "--device", "cuda:0"]
    result = subprocess.run(command + ["--hot"] * hot, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {result.stderr.strip()}")
    tuning = json.loads(result.stdout)["results"][0]
    winner = next(v for v in tuning["variant_results"] if v["verdict"] == "winner")
    block, elems, vector, cache = (re.search(rf" {name}=(\w+)", winner["spec"])[1]
                                   for name in ("block", "elems", "vector", "cache"))
    return 1 / winner["ratio"], f"{block}.{elems}.{vector}{'s' if cache == 'stream' else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("--hot", action="store_true")
    parser.add_argument("--budget", type=int, default=4)
    parser.add_argument("--powers", default="20,21,22,23,24,25,26,27,28")
    parser.add_argument("--ops", default="hardsigmoid gelu add(x,y) addcmul(x,y,z)")
    parser.add_argument("--dtypes", default="f32,f16,bf16")
    args = parser.parse_args()
    powers, worst = [int(p) for p in args.powers.split(",")], 1.0
    print(f"{'default / tuned':22}" + "".join(f"{f'2^{p}':>20}" for p in powers), flush=True)
    for op in args.ops.split():
        for dtype in args.dtypes.split(","):
            cells = [tune(args.kiln, f"op={op} dtype={dtype}", power, args.budget, args.hot) for power in powers]
            worst = max(worst, *(ratio for ratio, _ in cells))
            print(f"{op + ' ' + dtype:22}" + "".join(f"{f'{r:.3f} {g}':>20}" for r, g in cells), flush=True)
    print(f"worst {worst:.3f}")
    return worst > 1.03


if __name__ == "__main__":
    sys.exit(main())
