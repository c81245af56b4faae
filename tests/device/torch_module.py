"""The Python module on a GPU: its results against PyTorch's, and its first calls against torch's load_inline.

    KILN_LIBRARY=libkiln.so python3 tests/device/torch_module.py [--size 4096x393216] [--processes 11] [--slow]
                                                                [--parts results,times] [--out FILE.json]

Results must be equal bit for bit, any NaN being equal to any NaN. Times are taken in fresh processes, in which torch
and the CUDA context are ready and kiln is imported before the clock starts; it stops when the result is there.
With --slow torch's load_inline also builds the same three kernels, with nvcc and ninja: about a minute."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))

# Three kernels as people write them: one element for each thread, four of them, and float4.
KERNELS = r"""
#define BLOCK 256
__global__ void hardsigmoid(float *y, const float *x, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = fminf(fmaxf(x[i] + 3.0f, 0.0f), 6.0f) / 6.0f;
}
__global__ void hardtanh(float *y, const float *x, long long n, float lo, float hi) {
    long long first = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * 4;
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (first + k < n) y[first + k] = fminf(fmaxf(x[first + k], lo), hi);
}
__global__ void add(float *z, const float *x, const float *y, long long n) {
    long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n) {
        float4 a = *reinterpret_cast<const float4 *>(x + i), b = *reinterpret_cast<const float4 *>(y + i);
        *reinterpret_cast<float4 *>(z + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    } else
        for (; i < n; i++) z[i] = x[i] + y[i];
}
"""
WRAPPER = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#define BLOCKS(per_thread) (n + BLOCK * per_thread - 1) / (BLOCK * per_thread)
#define LAUNCH(kernel, per_thread, ...) \
    kernel<<<BLOCKS(per_thread), BLOCK, 0, at::cuda::getCurrentCUDAStream()>>>(__VA_ARGS__)
torch::Tensor run_hardsigmoid(torch::Tensor x) {
    auto y = torch::empty_like(x); long long n = x.numel();
    LAUNCH(hardsigmoid, 1, y.data_ptr<float>(), x.data_ptr<float>(), n); return y;
}
torch::Tensor run_hardtanh(torch::Tensor x) {
    auto y = torch::empty_like(x); long long n = x.numel();
    LAUNCH(hardtanh, 4, y.data_ptr<float>(), x.data_ptr<float>(), n, -1.0f, 1.0f); return y;
}
torch::Tensor run_add(torch::Tensor x, torch::Tensor y) {
    auto z = torch::empty_like(x); long long n = x.numel();
    LAUNCH(add, 4, z.data_ptr<float>(), x.data_ptr<float>(), y.data_ptr<float>(), n); return z;
}
"""
DECLARATIONS = ("torch::Tensor run_hardsigmoid(torch::Tensor x); torch::Tensor run_hardtanh(torch::Tensor x);"
                "torch::Tensor run_add(torch::Tensor x, torch::Tensor y);")


def inline_calls(load_inline):
    """The three kernels through kiln.load_inline, called as torch's operations are."""
    import torch
    module = load_inline("wild", KERNELS, ["hardsigmoid", "hardtanh", "add"])

    def blocks(x, per_thread):
        return -(-x.numel() // (256 * per_thread))

    def hardsigmoid(x):
        y = torch.empty_like(x)
        module.hardsigmoid[blocks(x, 1), 256](y, x, x.numel())
        return y

    def hardtanh(x):
        y = torch.empty_like(x)
        module.hardtanh[blocks(x, 4), 256](y, x, x.numel(), -1.0, 1.0)
        return y

    def add(x, y):
        z = torch.empty_like(x)
        module.add[blocks(x, 4), 256](z, x, y, x.numel())
        return z

    return hardsigmoid, hardtanh, add


def torch_inline_calls():
    from torch.utils.cpp_extension import load_inline
    module = load_inline("wild_by_torch", cpp_sources=DECLARATIONS, cuda_sources=KERNELS + WRAPPER,
                         functions=["run_hardsigmoid", "run_hardtanh", "run_add"],
                         build_directory=os.environ["WILD_BUILD"])
    return module.run_hardsigmoid, module.run_hardtanh, module.run_add


# ---- Times: one fresh process for each ------------------------------------------------------------------------------


def child(way):
    """Prints how long the first call took in this process, and all three kernels."""
    import torch
    x, y = torch.randn(2, 1 << 20, device="cuda")
    torch.nn.functional.hardtanh(x)
    torch.cuda.synchronize()
    ms = {}
    start = time.perf_counter()
    if way != "torch":
        import kiln
        ms["import"] = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    if way == "op":
        calls = [kiln.op(op) for op in ("hardsigmoid", "hardtanh(-1,1)", "add(x,y)")]
    else:
        calls = inline_calls(kiln.load_inline) if way == "inline" else torch_inline_calls()
    results = []
    for call, inputs in zip(calls, ((x,), (x,), (x, y))):
        results.append(call(*inputs))
        torch.cuda.synchronize()
        ms.setdefault("first", (time.perf_counter() - start) * 1e3)
    ms["all three"] = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    calls[0](x)
    torch.cuda.synchronize()
    ms["again"] = (time.perf_counter() - start) * 1e3
    if not torch.equal(results[1], x.clamp(-1, 1)) or not torch.equal(results[2], x + y):
        raise SystemExit(f"{way}: wrong results")
    print(json.dumps(ms))


def run_child(way, **environment):
    command = [sys.executable, os.path.abspath(__file__), "--child", way]
    result = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"a process that timed {way} ended with status {result.returncode}")
    return json.loads(result.stdout.splitlines()[-1])


def time_kiln(processes):
    """Samples by way and state of the cache: empty for each process, or filled by one before them."""
    samples = {}
    for way in ("op", "inline"):
        with tempfile.TemporaryDirectory() as warm:
            run_child(way, KILN_CACHE_DIR=warm)
            for _ in range(processes):
                with tempfile.TemporaryDirectory() as cold:
                    samples.setdefault((way, "empty"), []).append(run_child(way, KILN_CACHE_DIR=cold))
                samples.setdefault((way, "filled"), []).append(run_child(way, KILN_CACHE_DIR=warm))
    return samples


def time_torch():
    import torch
    from torch.utils.cpp_extension import CUDA_HOME
    missing = [tool for tool in ("ninja", "c++") if shutil.which(tool) is None]
    if CUDA_HOME is None or not os.path.exists(os.path.join(CUDA_HOME, "bin", "nvcc")):
        missing.append("nvcc")
    if missing:
        print(f"torch's load_inline is left out: {', '.join(missing)} is missing here\n")
        return {}
    major, minor = torch.cuda.get_device_capability()
    with tempfile.TemporaryDirectory() as build:
        environment = {"WILD_BUILD": build, "MAX_JOBS": "8", "TORCH_CUDA_ARCH_LIST": f"{major}.{minor}"}
        return {("torch", state): [run_child("torch", **environment)] for state in ("empty", "filled")}


def report_times(samples):
    names = {"op": "Kiln, `op`", "inline": "Kiln, `load_inline`", "torch": "torch, `load_inline`"}
    print("| way | cache | processes | first call ms (min to max) | three kernels ms | call again ms | import ms |")
    print("|---|---|---|---|---|---|---|")
    for (way, state), rows in samples.items():
        middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        first = [row["first"] for row in rows]
        loading = f"{middle['import']:.1f}" if "import" in middle else "-"
        print(f"| {names[way]} | {state} | {len(rows)} | {middle['first']:.2f} ({min(first):.2f} to {max(first):.2f}) "
              f"| {middle['all three']:.2f} | {middle['again']:.3f} | {loading} |")
    print()
    for state, limit in (("empty", 60), ("filled", 1)):
        median = statistics.median(row["first"] for row in samples["op", state])
        print(f"goal: first call of op, {state} cache, median <= {limit} ms: {median:.2f} ms, "
              f"{'met' if median <= limit else 'MISSED'}")
    if ("torch", "empty") in samples:
        print(f"torch's load_inline in the same run: {samples['torch', 'empty'][0]['first'] / 1e3:.1f} s")


# ---- Results --------------------------------------------------------------------------------------------------------


class Results:
    """Compares with torch, prints a line for each comparison, counts what is wrong."""

    def __init__(self):
        import torch
        from kiln import op
        functional = torch.nn.functional
        self.torch, self.wrong = torch, 0
        self.pairs = {"hardsigmoid": (op("hardsigmoid"), functional.hardsigmoid),
                      "hardtanh": (op("hardtanh(-1,1)"), functional.hardtanh),
                      "relu6": (op("relu6"), functional.relu6), "add": (op("add(x,y)"), torch.add)}

    def same(self, a, b):
        torch = self.torch
        if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
            return False
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
        a, b = a.reshape(-1), b.reshape(-1)
        return all(bool(((p.view(bits) == q.view(bits)) | (p.isnan() & q.isnan())).all())
                   for p, q in zip(a.split(1 << 27), b.split(1 << 27)))

    def check(self, what, good):
        print(f"{'right' if good else 'WRONG':5}  {what}", flush=True)
        self.wrong += not good

    def check_ops(self, what, x, y):
        for name, (ours, theirs) in self.pairs.items():
            inputs = (x, y) if name == "add" else (x,)
            self.check(f"{name} {what} {str(x.dtype)[6:]} {tuple(x.shape)}", self.same(ours(*inputs), theirs(*inputs)))

    def large(self, shape):
        torch = self.torch
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            x = torch.empty(shape, device="cuda", dtype=dtype).normal_(0, 3)
            self.check_ops("large", x, x.flip(-1))
            del x
            torch.cuda.empty_cache()

    def special(self):
        torch = self.torch
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            facts = torch.finfo(dtype)
            values = [0, 1, 3, 2.5, 6, facts.max, facts.tiny, facts.smallest_normal / 4, float("inf"), float("nan")]
            x = torch.tensor(values + [-v for v in values], device="cuda", dtype=dtype)
            self.check_ops("special values", *torch.broadcast_tensors(x[:, None], x[None, :]))

    def shapes(self):
        torch = self.torch
        base = torch.randn(6, 34, 40, 8, device="cuda")
        for what, view in (("transposed", base.permute(3, 1, 0, 2)), ("strided", base[:, ::3, 1::2]),
                           ("odd", base[1, 1, 1, 1:]), ("channels last", base.to(memory_format=torch.channels_last)),
                           ("expanded", base[0, 0, 0].expand(5, 8)), ("one", base[0, 0, 0, 0]), ("empty", base[:0])):
            self.check_ops(what, view, view.flip(0) if view.dim() else view)
        add, hardtanh = self.pairs["add"][0], self.pairs["hardtanh"][0]
        self.check("add broadcast", self.same(add(base, base[0, 0]), base + base[0, 0]))
        out = torch.empty(base.shape[::-1], device="cuda").permute(3, 2, 1, 0)
        self.check("out strided", hardtanh(base, out=out) is out and self.same(out, base.clamp(-1, 1)))
        copy = base.clone()
        self.check("in place", self.same(hardtanh(copy, out=copy), base.clamp(-1, 1)))

    def streams(self):
        """Work that is late in its stream: whoever launches in another one reads what was there before."""
        torch, hardtanh = self.torch, self.pairs["hardtanh"][0]
        streams = [torch.cuda.Stream() for _ in range(4)]
        inputs, results = [torch.zeros(1 << 20, device="cuda") for _ in streams], []
        torch.cuda.synchronize()
        for i, (stream, x) in enumerate(zip(streams, inputs)):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(50_000_000)
                x.fill_(0.1 * (i + 1))
                results.append(hardtanh(x) + 0)
        torch.cuda.synchronize()
        self.check("4 streams", all(self.same(x, y) for x, y in zip(inputs, results)))
        x, out, graph = torch.randn(1000, device="cuda"), torch.empty(1000, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            hardtanh(x, out=out)
        x.normal_(0, 3)
        graph.replay()
        self.check("graph", self.same(out, x.clamp(-1, 1)))
        if torch.cuda.device_count() > 1:
            x = torch.randn(1000, device="cuda:1")
            self.check("second GPU", self.same(hardtanh(x), x.clamp(-1, 1)) and torch.cuda.current_device() == 0)

    def wild(self, shape):
        torch = self.torch
        from kiln import load_inline
        hardsigmoid, hardtanh, add = inline_calls(load_inline)
        for size in (shape, (1001,), (3,)):
            x = torch.randn(size, device="cuda").mul_(3)
            want = (x + 3).clamp_(0, 6).div_(torch.tensor([6.0], device="cuda"))  # by a tensor: a true division
            self.check(f"load_inline: scalar hardsigmoid {size}", self.same(hardsigmoid(x), want))
            del want
            self.check(f"load_inline: hardtanh, 4 per thread {size}", self.same(hardtanh(x), x.clamp(-1, 1)))
            self.check(f"load_inline: float4 add {size}", self.same(add(x, x), x + x))

    def call_cost(self):
        """The host's time for a call of small tensors: microseconds, the median and the ratio of paired rounds."""
        torch, costs = self.torch, {}
        x, y = torch.randn(2, 16, 16, device="cuda")
        for what, name, inputs in (("one input", "hardtanh", (x,)), ("relu6", "relu6", (x,)), ("two inputs", "add", (x, y)),
                                   ("a broadcast", "add", (x, y[0]))):
            spent = ([], [])
            for turn in range(21):
                for way in (0, 1) if turn % 2 else (1, 0):
                    call = self.pairs[name][way]
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    for _ in range(200):  # fewer than the launches that a stream holds
                        call(*inputs)
                    spent[way].append((time.perf_counter() - start) * 1e6 / 200)
            ours, theirs = map(statistics.median, spent)
            ratio = statistics.median(a / b for a, b in zip(*spent))
            costs[what] = ours, theirs, ratio
            print(f"host time of a call, {what}: Kiln {ours:.2f} us, torch {theirs:.2f} us, {ratio:.2f} of it", flush=True)
        return costs

    def seeds(self, shape, rounds=9):
        """The three seeds of the idea as torch calls them: the time of a call over that of torch's, paired."""
        torch = self.torch
        x = torch.empty(shape, device="cuda").normal_(0, 3)
        y = x.flip(-1)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for name in ("hardsigmoid", "hardtanh", "add"):
            inputs, spent = (x, y) if name == "add" else (x,), ([], [])
            for turn in range(rounds + 1):
                for way in (0, 1) if turn % 2 else (1, 0):
                    start.record()
                    for _ in range(5):
                        self.pairs[name][way](*inputs)
                    end.record()
                    end.synchronize()
                    spent[way].append(start.elapsed_time(end) / 5)
            ratio = statistics.median(a / b for a, b in zip(spent[0][1:], spent[1][1:]))
            print(f"{name} float32 {shape}: {statistics.median(spent[0][1:]):.3f} ms, {ratio:.3f} of torch's", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="4096x393216")
    parser.add_argument("--processes", type=int, default=11)
    parser.add_argument("--slow", action="store_true", help="also torch's load_inline")
    parser.add_argument("--parts", default="results,times")
    parser.add_argument("--out")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    shape = tuple(map(int, options.size.split("x")))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["KILN_CACHE_DIR"] = cache
        results, cost, samples = Results(), None, {}
        print(f"{results.torch.cuda.get_device_name()}, PyTorch {results.torch.__version__}\n")
        if "results" in options.parts:
            with results.torch.no_grad():
                for part in (results.special, results.shapes, results.streams):
                    part()
                results.large(shape)
                results.wild(shape)
                results.seeds(shape)
                cost = results.call_cost()
            results.torch.cuda.empty_cache()
            print(f"goal: bits equal to torch's: {'met' if results.wrong == 0 else f'MISSED, {results.wrong} wrong'}\n")
        if "times" in options.parts:
            samples = time_kiln(options.processes)
            if options.slow:
                samples.update(time_torch())
            report_times(samples)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"call_us": cost, "wrong": results.wrong,
                       "ms": {" ".join(key): rows for key, rows in samples.items()}}, file, indent=1)
    return int(results.wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
