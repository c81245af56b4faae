"""Parts "launch" and "latency": what the host waits for."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import peers_contenders as contenders
from peers_contenders import Arrays
from peers_stats import orders, ratio_text, ratio, table

ELEMENTS = 4096


def run_program(run, name, arguments):
    """What one of the C benchmarks prints, or why it does not; shown as it is."""
    path = os.path.join(run.options.build, "tests", name)
    if not os.path.exists(path):
        return f"left out: there is no {path}"
    command = [path, *arguments]
    if run.device.kind == "cuda":
        command += ["--libcuda", "libcuda.so.1"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=run.left() + 60)
    except subprocess.TimeoutExpired:
        return f"left out: {name} took too long"
    return done.stdout + (f"FAILED with status {done.returncode}: {done.stderr}" if done.returncode else "")


# ---- Launching

def launch_contenders(run):
    arrays = Arrays(ELEMENTS, "f32", run.device.torch)
    inputs, out = arrays.take("hardsigmoid", ELEMENTS)
    ready = {"kiln": run.kiln.launcher(run.kiln.get("op=hardsigmoid dtype=f32"), out, inputs, run.device.handle),
             "torch": contenders.torch_into("hardsigmoid", inputs, out)}
    for name, make in contenders.PEERS.items():
        if name not in run.options.contenders:
            continue
        try:
            ready[name], _ = make("hardsigmoid", inputs, out, run.device)
        except Exception as trouble:
            run.say(f"  {name} left out: {type(trouble).__name__}: {trouble}"[:200])
    return ready, arrays


def launch(run):
    """Microseconds of the calling thread for one call, queue and GPU never full."""
    ready, arrays = launch_contenders(run)
    names, calls = list(ready), 200
    samples = {name: [] for name in names}
    for r, order in enumerate(orders(len(names), run.options.rounds, seed=2)):
        for i in order:
            function = ready[names[i]]
            start = time.perf_counter()
            for _ in range(calls):
                function()
            took = time.perf_counter() - start
            run.device.sync()
            if r >= 2:
                samples[names[i]].append(took / calls * 1e6)
    rows = run.part("launch")
    rows += [{"contender": name, "us": statistics.median(values), "over_kiln": ratio(values, samples["kiln"])}
             for name, values in samples.items()]
    print(f"\n### Host cost of a launch from Python, {ELEMENTS} float32 elements, hardsigmoid\n")
    print(table(["contender", "us", "/ Kiln"], [[r["contender"], f"{r['us']:.2f}", ratio_text(r["over_kiln"], 2)] for r in rows]))
    text = run_program(run, "bench_launch_cost", ["--calls", "200"])
    rows.append({"bench_launch_cost": text})
    print(f"\nFrom C, without Python:\n\n```\n{text.rstrip()}\n```")
    run.save()


# ---- Latency

START = """
import sys, time
import torch
x = torch.rand(1 << 20, device="cuda"); y = torch.empty_like(x); torch.cuda.synchronize()
sys.path.insert(0, {here!r})
"""
STOP = "\ntorch.cuda.synchronize(); print('ms', (time.perf_counter() - t) * 1e3)\n"
CLAMP = "v = x + 3.f; v = v < 0.f ? 0.f : v; v = v > 6.f ? 6.f : v;"

FRESH = {
    "kiln": "import os\nfrom peers_kiln import Kiln\nt = time.perf_counter()\n"
            "k = Kiln({library!r}, 'cuda:0', os.environ['PEERS_KILN'])\n"
            "k.launcher(k.get('op=hardsigmoid dtype=f32'), y, [x], 0)()",
    "cupy": "import cupy\nx = cupy.asarray(x)\nt = time.perf_counter()\n"
            "k = cupy.ElementwiseKernel('float32 x', 'float32 y', 'float " + CLAMP + " y = v * (1.f / 6.f)', 'peer')\ny = k(x)",
    "cupy_raw": "import cupy\nx, y = cupy.asarray(x), cupy.asarray(y)\nt = time.perf_counter()\n"
                "k = cupy.RawKernel('extern \"C\" __global__ void k(const float *a, float *y, int n) {{ int i = blockIdx.x * "
                "blockDim.x + threadIdx.x; if (i < n) {{ float x = a[i], " + CLAMP + " y[i] = v * (1.f / 6.f); }} }}', 'k')\n"
                "k((4096,), (256,), (x, y, 1 << 20))",
    "triton": "import peers_triton\nt = time.perf_counter()\npeers_triton.launcher('hardsigmoid', y, [x], 1024, 4)()",
    "jiterator": "from peers_contenders import JITERATOR_CODE\n"
                 "f = torch.cuda.jiterator._create_jit_fn(JITERATOR_CODE['hardsigmoid'])\nt = time.perf_counter()\ny = f(x)",
}
SLOW = {
    "torch_compile": "f = torch.compile(torch.nn.functional.hardsigmoid)\nt = time.perf_counter()\ny = f(x)",
    "load_inline": "from torch.utils.cpp_extension import load_inline\n"
                   "c = '''#include <torch/extension.h>\n#include <cuda_runtime.h>\n"
                   "__global__ void k(const float *a, float *y, int n) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; "
                   "if (i < n) {{ float x = a[i], " + CLAMP + " y[i] = v * (1.f / 6.f); }} }}\n"
                   "torch::Tensor hs(torch::Tensor x) {{ auto n = x.numel(); auto o = torch::empty_like(x); "
                   "k<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), o.data_ptr<float>(), n); return o; }}'''\n"
                   "t = time.perf_counter()\n"
                   "m = load_inline(name='peer', cpp_sources='torch::Tensor hs(torch::Tensor x);', cuda_sources=c, "
                   "functions=['hs'])\ny = m.hs(x)",
}


def fresh_environment(directory):
    env = dict(os.environ, HOME=directory, CUDA_CACHE_DISABLE="1", MAX_JOBS="8", TORCH_CUDA_ARCH_LIST="9.0")
    for name in ("TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR",
                 "PYTORCH_KERNEL_CACHE_PATH", "PEERS_KILN"):
        env[name] = os.path.join(directory, name.lower())
        os.makedirs(env[name], exist_ok=True)
    return env


def fresh_times(run, name, code, count):
    """Milliseconds to the first result in `count` processes, one after the other, that share caches which begin empty."""
    here = os.path.dirname(os.path.abspath(__file__))
    text = (START + code).format(here=here, library=run.library) + STOP
    out = []
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(count):
            try:
                done = subprocess.run([sys.executable, "-c", text], env=fresh_environment(directory), capture_output=True,
                                      text=True, timeout=300)
            except subprocess.TimeoutExpired:
                return out, "took too long"
            found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ms ")]
            if not found:
                return out, (done.stdout + done.stderr).strip()[-200:]
            out.append(float(found[0]))
    return out, ""


def latency(run):
    """Fresh processes: Kiln from C, then everyone from Python with the driver initialised."""
    rows = run.part("latency")
    quick = ["--compiles", "3", "--starts", "11"] if run.options.quick else []
    text = run_program(run, "bench_latency", quick)
    rows.append({"bench_latency": text})
    print(f"\n### Latency in fresh processes, from C\n\n{text.rstrip()}")
    run.save()
    if run.device.kind == "cpu":
        return
    for name, code in {**FRESH, **(SLOW if run.options.slow else {})}.items():
        if run.is_late(f"latency {name}"):
            break
        times, trouble = fresh_times(run, name, code, 2 if run.options.quick else 3)
        rows.append({"contender": name, "ms": times, "trouble": trouble})
        run.say(f"  {name}: " + " ".join(f"{ms:.2f}" for ms in times) + (f" FAILED: {trouble}" if trouble else ""))
        run.save()
    print("\n### Latency in fresh processes, from Python: ms to the first result, 2^20 float32 elements, driver initialised\n")
    print(table(["contender", "first process, caches empty", "later processes"],
                [[r["contender"], f"{r['ms'][0]:.2f}" if r["ms"] else r["trouble"],
                  " ".join(f"{ms:.2f}" for ms in r["ms"][1:])] for r in rows if "contender" in r]))
