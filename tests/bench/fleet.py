#!/usr/bin/env python3
"""A fleet on one machine: processes in network namespaces share kernels through a Redis server of their own.

    python3 tests/bench/fleet.py build/release/tools/kiln [--machines 4] [--processes 8] [--kernels 200] [--rounds 1]

A machine is a network namespace with a cache directory. Its processes ask for all kernels at once, each in another order, by
kiln warm --push. Once on a cold server, then with empty directories on the full one, then with full directories. Prints for
each how many kernels were compiled in all, the requests and bytes of the server, and the times. Ends with status 1 unless the
first round compiles each kernel once and the others none. Needs root, ip, redis-server and NVRTC."""

import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

PORT, NET = 6397, "10.213.77"
OPS = "relu relu6 gelu silu exp tanh sigmoid hardsigmoid softplus mish sqrt sin cos log abs neg square floor erf selu".split()


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout


def specs_of(count):
    specs = [f"op={op} dtype={dtype} block={block} target=sm_90"
             for block in (64, 128, 256, 512) for dtype in ("f32", "f16", "bf16") for op in OPS]
    if count > len(specs):
        sys.exit(f"at most {len(specs)} kernels")
    return specs[:count]


class Fleet:
    """Namespaces on one bridge, and the server in the first of them."""

    def __init__(self, machines, folder):
        self.folder, self.names = folder, [f"kiln{os.getpid()}-{i}" for i in range(machines + 1)]
        self.bridge = f"kilnbr{os.getpid() % 10000}"
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "link", "set", self.bridge, "up")
        for i, name in enumerate(self.names):
            near, far = f"kn{os.getpid() % 10000}a{i}", f"kn{os.getpid() % 10000}b{i}"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
            run("ip", "link", "set", near, "master", self.bridge, "up")
            run("ip", "link", "set", far, "netns", name)
            for command in (f"addr add {NET}.{i + 1}/24 dev {far}", f"link set {far} up", "link set lo up"):
                run("ip", "-n", name, *command.split())
        self.server = subprocess.Popen(
            [*self.inside(0), "redis-server", "--port", str(PORT), "--save", "", "--bind", f"{NET}.1", "--protected-mode", "no"],
            stdout=subprocess.DEVNULL)
        for _ in range(100):
            if subprocess.run([*self.inside(0), *self.client(), "ping"], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.05)
        self.secret = os.path.join(folder, "secret")
        with open(os.open(self.secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("a secret of this fleet alone\n")

    def inside(self, i):
        return ["ip", "netns", "exec", self.names[i]]

    @staticmethod
    def client():
        return ["redis-cli", "-h", f"{NET}.1", "-p", str(PORT)]

    def ask(self, *words):
        return run(*self.inside(0), *self.client(), *words)

    def close(self):
        self.server.terminate()
        self.server.wait()
        for name in self.names:
            run("ip", "netns", "del", name)
        run("ip", "link", "del", self.bridge)


def warm(fleet, kiln, machine, number, specs):
    """One process of a machine."""
    order = list(specs)
    random.Random(machine * 1000 + number).shuffle(order)
    manifest = os.path.join(fleet.folder, f"manifest-{machine}-{number}")
    with open(manifest, "w", encoding="utf-8") as file:
        file.writelines(f"{spec}\n" for spec in order)
    env = dict(os.environ, KILN_REMOTE=f"redis://{NET}.1:{PORT}", KILN_REMOTE_SECRET=fleet.secret)
    result = subprocess.run(
        [*fleet.inside(machine), kiln, "warm", "--manifest", manifest, "--cache-dir", os.path.join(fleet.folder, f"cache-{machine}"),
         "--push", "--json", "--stats", "-j", "1"], env=env, text=True, capture_output=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"a process failed:\n{result.stderr}")
    return json.loads(result.stdout)


def figure(text, name):
    return int(re.search(rf"^{name}:(\d+)", text, re.M)[1])


def measure(fleet, kiln, specs, machines, processes, what):
    before = fleet.ask("info", "stats")
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(machines * processes) as pool:
        results = list(pool.map(lambda k: warm(fleet, kiln, 1 + k % machines, k // machines, specs), range(machines * processes)))
    seconds = time.monotonic() - start
    after = fleet.ask("info", "stats")
    stats = [result["stats"] for result in results]
    compiled = sum(result["compiled"] for result in results)
    asked, leases, waits = (sum(one[name] for one in stats) for name in ("remote_gets", "remote_leases", "remote_lease_waits"))
    requests, read, written = (figure(after, name) - figure(before, name)
                               for name in ("total_commands_processed", "total_net_output_bytes", "total_net_input_bytes"))
    print(f"{what:32} {compiled:4} compiled  {leases:4} leases, {waits:5} found taken  {asked:6} gets  {requests:6} requests  "
          f"{read / 1e6:6.1f} MB out {written / 1e6:6.1f} MB in  {seconds:6.1f} s", flush=True)
    failures = sum(one["remote_failures"] + one["remote_refused"] + one["remote_push_failures"] for one in stats)
    return compiled, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    specs, wrong = specs_of(args.kernels), 0
    print(f"# {args.machines} machines of {args.processes} processes, {args.kernels} kernels each, {os.cpu_count()} cores for all")
    for _ in range(args.rounds):
        folder = tempfile.mkdtemp(prefix="kiln-fleet-")
        fleet = Fleet(args.machines, folder)
        try:
            for what, want, empty in (("empty server, empty directories", args.kernels, True),
                                      ("full server, empty directories", 0, True), ("full directories", 0, False)):
                for i in range(args.machines if empty else 0):
                    shutil.rmtree(os.path.join(folder, f"cache-{1 + i}"), ignore_errors=True)
                compiled, failures = measure(fleet, os.path.abspath(args.kiln), specs, args.machines, args.processes, what)
                wrong += compiled != want or failures > 0
                if failures:
                    print(f"{failures} questions failed")
            print(f"the server holds {fleet.ask('dbsize').strip()} values in "
                  f"{figure(fleet.ask('info', 'memory'), 'used_memory') / 1e6:.1f} MB")
        finally:
            fleet.close()
            shutil.rmtree(folder, ignore_errors=True)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
