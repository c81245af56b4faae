#!/usr/bin/env python3
"""A model of a fleet after a deploy: how long until every node has every kernel, and what the server does for it.

    python3 tests/bench/fleet_model.py [--nodes 10000] [--kernels 500] [--start 60] [--rtt-us 200] [--compile-ms 30]
                                       [--request-us 8] [--bytes 20000] [--gbit 10] [--own-order]

Nodes start within --start seconds. A node asks for the kernels one after the other, as a program does that loads them: all in the same
order, or each in its own with --own-order. The server is one thread that takes --request-us for a request and sends --gbit. A node
waits 250 ms for an answer, and then compiles for a second without asking, then for two, and so on, as Kiln does. Three fleets:
without leases, with them, and with a server that `kiln warm --push` has filled. The figures of a server and a compile are those that
redis-benchmark and kiln warm measure; tests/bench/fleet.py proves the protocol on real processes. Prints the compiles, the requests, the
bytes, the server's work, and the seconds until half, 99% and all of the nodes are warm; and how often a node gave up waiting."""

import argparse
import heapq
import math
import random


class Server:
    """One queue: a request waits for those before it."""

    def __init__(self, request, bandwidth):
        self.request, self.bandwidth, self.free, self.requests, self.bytes, self.busy = request, bandwidth, 0.0, 0, 0, 0.0

    def serve(self, at, size):
        """When the answer of `size` bytes leaves for a request that arrives at a time."""
        spent = self.request + size / self.bandwidth
        self.free = max(self.free, at) + spent
        self.requests += 1
        self.bytes += size
        self.busy += spent
        return self.free


WAIT, BREAK, LONGEST_BREAK, LEASE, PAUSES, LOOKS = 0.25, 1.0, 60.0, 60.0, (0.005, 0.01, 0.02, 0.04, 0.05), 10  # as in src/store/remote.c and src/jit/builder.c


class Node:
    def __init__(self, number, first, step):
        self.number, self.first, self.step = number, first, step
        self.pushes = None  # the kernel that it has compiled for all, and pushes now
        self.done, self.broken_until, self.breaks, self.asks_lease, self.looks = 0, 0.0, 0.0, False, 0


class Fleet:
    def __init__(self, args, leases, filled):
        made = random.Random(1)
        self.args, self.leases = args, leases
        self.server = Server(args.request_us * 1e-6, args.gbit * 1e9 / 8)
        self.half, self.compile = args.rtt_us * 0.5e-6, args.compile_ms * 1e-3
        self.there = [0.0 if filled else float("inf")] * args.kernels  # when the server has it
        self.leased = [0.0] * args.kernels                             # until when a node compiles it for all
        self.compiles = self.given_up = 0
        steps = [k for k in range(1, args.kernels + 1) if math.gcd(k, args.kernels) == 1]
        nodes = [Node(k, made.randrange(args.kernels), made.choice(steps)) if args.own_order else Node(k, 0, 1)
                 for k in range(args.nodes)]
        self.events = [(made.random() * args.start, node.number, node) for node in nodes]
        heapq.heapify(self.events)

    def ask(self, node, now, size):
        """When the answer is there; None where the node gives up."""
        back = self.server.serve(now + self.half, size) + self.half
        if back - now <= WAIT:
            node.breaks = 0.0
            return back
        node.breaks = min(2 * node.breaks, LONGEST_BREAK) or BREAK
        node.broken_until = now + WAIT + node.breaks
        self.given_up += 1
        return None

    def compile_here(self, node, kernel, now, push):
        self.compiles += 1
        node.pushes = kernel if push else None
        node.done += 1
        node.looks = 0
        return now + self.compile

    def push(self, node, now):
        kernel, node.pushes = node.pushes, None
        self.there[kernel] = min(self.there[kernel], self.server.serve(now + self.half, self.args.bytes))
        self.leased[kernel] = min(self.leased[kernel], self.there[kernel])

    def step(self, node, now):
        """One step of a node; when it goes on. Steps come in the order of time, as the server takes them."""
        kernel = (node.first + node.done * node.step) % self.args.kernels
        if now < node.broken_until:
            return self.compile_here(node, kernel, now, False)
        if not node.asks_lease:
            hit = self.there[kernel] <= now + self.half
            back = self.ask(node, now, self.args.bytes if hit else 5)
            node.done += back is not None and hit
            if back is None:
                return now + WAIT
            node.looks = 0 if hit else node.looks + 1
            node.asks_lease = not hit and (not self.leases or node.looks % LOOKS == 1)
            return back if hit or node.asks_lease else back + PAUSES[min(node.looks, len(PAUSES)) - 1]
        node.asks_lease = False
        if self.leases:
            free = self.leased[kernel] <= now + self.half
            back = self.ask(node, now, 5)
            if back is None:
                return now + WAIT
            if not free:
                return back + PAUSES[min(node.looks, len(PAUSES)) - 1]
            if self.there[kernel] <= back:  # it looks once more
                return back
            self.leased[kernel] = back + LEASE
            now = back
        return self.compile_here(node, kernel, now, True)

    def run(self):
        """The sorted times at which nodes are warm."""
        ends = []
        while self.events:
            now, number, node = self.events[0]
            if node.pushes is not None:
                self.push(node, now)
            if node.done == self.args.kernels:
                heapq.heappop(self.events)
                ends.append(now)
            else:
                heapq.heapreplace(self.events, (self.step(node, now), number, node))
        return ends


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--kernels", type=int, default=500)
    parser.add_argument("--start", type=float, default=60)
    parser.add_argument("--rtt-us", type=float, default=200)
    parser.add_argument("--compile-ms", type=float, default=30)
    parser.add_argument("--request-us", type=float, default=8)
    parser.add_argument("--bytes", type=int, default=20000)
    parser.add_argument("--gbit", type=float, default=10)
    parser.add_argument("--own-order", action="store_true")
    args = parser.parse_args()
    print(f"# {args.nodes} nodes that start within {args.start:g} s, {args.kernels} kernels of {args.bytes} bytes and {args.compile_ms:g} ms; "
          f"{args.rtt_us:g} us there and back, {args.request_us:g} us a request, {args.gbit:g} Gbit/s")
    print(f"{'fleet':15} {'compiles':>9} {'requests':>10} {'GB':>6} {'server s':>9} {'half s':>7} {'99% s':>7} {'all s':>7} "
          f"{'gave up':>8}")
    for name, leases, filled in (("without leases", False, False), ("with leases", True, False), ("filled before", True, True)):
        fleet = Fleet(args, leases, filled)
        ends, server = fleet.run(), fleet.server
        print(f"{name:15} {fleet.compiles:9} {server.requests:10} {server.bytes / 1e9:6.1f} {server.busy:9.1f} {ends[len(ends) // 2]:7.1f} "
              f"{ends[int(len(ends) * 0.99)]:7.1f} {ends[-1]:7.1f} {fleet.given_up:8}", flush=True)


if __name__ == "__main__":
    main()
