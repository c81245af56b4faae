"""Hours of a daemon whose store holds a tenth of what is asked for: every entry must have the bytes that it should, and memory stays flat.

    python3 tests/bench/soak.py build/release/tools/kiln [--minutes 60] [--specs 4000]

A host alone fills a directory with all kernels: the reference. Then hosts ask a daemon for random ones, whose store is capped at a tenth of
those bytes, and every entry that lies there is compared with the reference. Prints a line a minute. Exits 1 at a wrong byte, at a
failed request, or where the daemon's memory grew by more than a tenth after the first third of the time: before that its store in memory fills."""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

CACHE = "KILN_CACHE_DIR"


def entries(top):
    """The entries of a store by name: their bytes. One that is evicted meanwhile is left out."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            if not name.endswith(".kiln"):
                continue
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.relpath(os.path.join(folder, name), top)] = file.read()
            except FileNotFoundError:
                pass
    return found


class Soak:
    def __init__(self, kiln, top, count):
        self.kiln, self.top = kiln, top
        self.specs = [f"op=x*{k}+{k} dtype=f32" for k in range(1, count + 1)]
        self.env = {**os.environ, CACHE: os.path.join(top, "cache"), "KILN_SOCKET": os.path.join(top, "run", "socket")}

    def warm(self, specs, env):
        told = subprocess.run([self.kiln, "warm", *specs, "--target", "sm_90", "--json", "--stats"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        return told.returncode, json.loads(told.stdout or "{}"), told.stderr

    def figures(self):
        return json.loads(subprocess.run([self.kiln, "status", "--json"], env=self.env, stdout=subprocess.PIPE, check=True).stdout)

    def reference(self):
        apart = {**self.env, CACHE: os.path.join(self.top, "reference"), "KILN_SOCKET": "/nowhere/socket"}
        status, done, told = self.warm(self.specs, apart)
        if status != 0 or done["compiled"] != len(self.specs):
            raise SystemExit(f"the reference cannot be made: {told}")
        return entries(apart[CACHE])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--specs", type=int, default=4000)
    args = parser.parse_args()
    made, wrong, failed, asked, compared, resident = random.Random(7), 0, 0, 0, 0, []
    with tempfile.TemporaryDirectory() as top:
        soak = Soak(os.path.abspath(args.kiln), top, args.specs)
        want = soak.reference()
        room = sum(map(len, want.values())) // 10
        print(f"{args.specs} kernels, {sum(map(len, want.values())) / 1e6:.1f} MB; the store has room for {room / 1e6:.2f} MB", flush=True)
        subprocess.run([soak.kiln, "serve", "--background"], env={**soak.env, "KILN_CACHE_BYTES": str(room)}, check=True)
        capped = {**soak.env, "KILN_CACHE_BYTES": str(room)}
        start = told = time.monotonic()
        try:
            while time.monotonic() - start < 60 * args.minutes:
                specs = made.sample(soak.specs, 20)
                status, done, said = soak.warm(specs, capped)
                asked += len(specs)
                failed += done.get("failed", len(specs))
                for name, content in entries(soak.env[CACHE]).items():
                    compared += name in want
                    if name in want and content != want[name]:
                        wrong += 1
                        print(f"WRONG: {name}", flush=True)
                if status not in (0, 1):
                    print(said, flush=True)
                if time.monotonic() - told >= 60:
                    told = time.monotonic()
                    figures = soak.figures()
                    resident.append(figures["resident_bytes"])
                    print(f"{(told - start) / 60:.0f} min: {asked} asked, {figures['found']['compiled']['count']} compiled, "
                          f"{figures['evictions']} evicted by the daemon, {compared} entries compared, {wrong} wrong, {failed} failed, "
                          f"{resident[-1] / 1e6:.2f} MB resident", flush=True)
            figures = soak.figures()
        finally:
            subprocess.run([soak.kiln, "serve", "--stop"], env=soak.env, check=False)
    first = resident[len(resident) // 3] if resident else figures["resident_bytes"]
    flat = figures["resident_bytes"] < 1.1 * first
    print(f"{asked} asked, {compared} entries compared, {wrong} wrong, {failed} failed; resident {first / 1e6:.2f} MB after a third of the "
          f"time and {figures['resident_bytes'] / 1e6:.2f} MB at the end")
    return int(wrong > 0 or failed > 0 or not flat)


if __name__ == "__main__":
    sys.exit(main())
