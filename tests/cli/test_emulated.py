"""The CUDA text of templates that reduce, compiled for the cpu and run thread by thread: what no GPU is needed to find.

Each kernel runs twice, with its threads and blocks in opposite orders, on rows that are random, far from 0, rising,
constant, or hold NaN and infinities. Results must have equal bits, and be near NumPy's in float64."""

import ctypes
import os
import re
import shutil
import subprocess
import unittest

import numpy as np

from support import STORAGE, UNIT, KilnTest, layer_norm, logsumexp, narrow, softmax, widen

F64 = np.float64
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "emulated_cuda.h")
ROWS = 20  # two of each kind

# asm("NAME %0, %1;" : "=f"(out) : "f"(in)), whose parentheses are three deep at most
NESTED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
ASM = re.compile(rf'asm(?: volatile)?\((?P<all>{NESTED})\);')
ONE = re.compile(rf'"(?P<name>[\w.]+) %0[^"]*"\s*:\s*"[=+]\w"\((?P<out>\w+)\)(?:\s*:\s*"\w"\((?P<x>{NESTED})\)'
                 rf'(?:, "\w"\((?P<y>{NESTED})\))?)?')


def as_call(match):
    """An instruction as a call of emulated_cuda.h; a trap for those that it lacks."""
    text = match["all"]
    if text.startswith('"cp.async.cg'):
        return "ptx_cp_async(to, from);"
    if text.startswith('"cp.async.wait_all'):
        return "ptx_cp_async_wait_all();"
    one = ONE.fullmatch(text.strip())
    if not one or one["name"] in ("div.full.f32", "sqrt.approx.f32"):
        return "__builtin_trap();"
    given = ", ".join(filter(None, (one["x"], one["y"]))) or one["out"]
    return f"{one['out']} = ptx_{one['name'].replace('.', '_')}({given});"


def cross_entropy(x, t):
    at = np.take_along_axis(x, np.clip(t, 0, x.shape[1] - 1), -1)
    most = x.max(-1, keepdims=True)
    return np.where(t == -100, 0, np.log(np.exp(x - most).sum(-1, keepdims=True)) + most -
                    np.where((t >= 0) & (t < x.shape[1]), at, 0))


def greatest(x):
    """The element at the position of the greatest, which a row with NaN has at the first of these."""
    return np.take_along_axis(x, np.argmax(x, -1)[:, None], -1)


def two(x):
    before = np.argmin(x, -1)[:, None] - 1
    return greatest(x) + np.where(before >= 0, np.take_along_axis(x, np.maximum(before, 0), -1)**2 / x.shape[1], 0)


# The op, its layouts, the types behind that of x, and NumPy's results from x and the others.
OPS = {
    "softmax": ("softmax", "(full)", (), softmax),
    "logsumexp": ("logsumexp(x)", "(full)", (), lambda x: logsumexp(x, -1)[:, None]),
    "norm": ("layer_norm(x,w,b)", "(full,row,row)", ("", ""), layer_norm),
    "entropy": ("cross_entropy(x,t)", "(full,column)", ("i64",), cross_entropy),
    "greatest": ("sum(index==argmax(x)?x:0)", "(full)", (), greatest),
    "sparse": ("softmax(at(x,t))", "(full,column)", ("i64",), lambda x, t: softmax(np.where(np.arange(x.shape[1]) == t, x, 0))),
    "two": ("sum(index==argmax(x)?x:0)+mean(index==argmin(x)-1?x*x:0)", "(full)", (), two),
    "scaled": ("softmax(x*?by)", "(full)", (), lambda x: softmax(x * 0.5)),
    "raised": ("x+max(x)", "(full)", (), lambda x: x + x.max(-1, keepdims=True)),
    "added": ("softmax(x+r)", "(full,full)", ("",), lambda x, r: softmax(x + r)),
    "scan": ("cumsum(x)*max(x)", "(full)", (), lambda x: np.cumsum(x, -1) * x.max(-1, keepdims=True)),
}


def rows_of(rows, cols, dtype, random):
    x = random.standard_normal((rows, cols))
    kinds = [lambda r: r, lambda r: r * 30, lambda r: np.linspace(-40, 40, cols), lambda r: np.linspace(40, -40, cols),
             lambda r: np.full(cols, 1.25), lambda r: np.where(np.arange(cols) == cols // 3, np.inf, r),
             lambda r: np.where(np.arange(cols) % 3 == 1, -np.inf, r), lambda r: np.where(np.arange(cols) == cols - 1, np.nan, r),
             lambda r: np.where(np.arange(cols) == cols - 1, 80, r), lambda r: np.full(cols, -np.inf)]
    x = np.stack([kinds[i % len(kinds)](row) for i, row in enumerate(x)])
    return narrow(x.astype(np.float32), dtype)


@unittest.skipUnless(shutil.which("g++"), "no g++")
class EmulatedTest(KilnTest):
    def build(self, spec, entries, changed=()):
        """The kernels of a spec, as functions of the grid, the order and the arguments. `changed`: a line, and another."""
        shown = self.kiln("show", f"{spec} target=sm_90", "--source", "--define-op", "at(x, t) = index == t ? x : 0").stdout
        if changed:
            self.assertIn(changed[0], shown)
            shown = shown.replace(*changed)
        text = ASM.sub(as_call, shown)
        text = text.replace("extern __shared__ __align__(16) unsigned char shared[];", "")
        block = int(re.search(r"#define KILN_BLOCK (\d+)", text)[1])
        calls = "".join(f"""
extern "C" void run_{entry}(unsigned grid, int backwards, void *const *arguments)
{{
    emulated_run([](void *const *a) {{ emulated_call(kiln_{entry}, a); }}, grid, {block}, backwards, arguments);
}}""" for entry in entries)
        source, library = self.path("unit.cc"), self.path(f"unit{len(os.listdir(self.dir))}.so")
        with open(source, "w") as file:
            file.write(f'#include "{HEADER}"\nstatic __attribute__((aligned(16))) unsigned char shared[1 << 18];\n{text}{calls}\n')
        built = subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-ffp-contract=off", "-fpermissive", "-shared", "-fPIC", "-o", library, source],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(built.returncode, 0, built.stdout[:4000])
        return ctypes.CDLL(library)

    def launch(self, run, grid, backwards, arrays, numbers, phases):
        """`numbers`: the extents, behind which a template with phases has memory and the number of the phase."""
        values = [ctypes.c_void_p(array.ctypes.data) for array in arrays] + [ctypes.c_ulonglong(n) for n in numbers]
        self.partials = np.full(1 << 16, 0xff, np.uint8)
        for phase in range(phases):
            given = values + ([ctypes.c_void_p(self.partials.ctypes.data), ctypes.c_uint(phase)] if phases > 1 else [])
            given.append(ctypes.c_double(0.5))  # of an op that takes a number
            run(grid, backwards, (ctypes.c_void_p * len(given))(*[ctypes.addressof(value) for value in given]))

    def arrays(self, name, shape, dtype):
        """Of an op: x and the others. Classes are also negative, and beyond the row by 0 and by 2^32."""
        (rows, cols), random = shape, np.random.default_rng(1)
        _, layout, types, _ = OPS[name]
        ins = [rows_of(rows, cols, dtype, random)]
        for place, kind in zip(layout.strip("()").split(",")[1:], types):
            extents = {"full": (rows, cols), "row": (1, cols), "column": (rows, 1)}[place]
            if kind:
                ins.append(random.integers(0, cols, extents))
                ins[-1][::2] = np.array([-100, -1, cols, cols + 2**32, 1])[np.arange(len(ins[-1][::2])) % 5, None]
            else:
                ins.append(narrow(random.standard_normal(extents).astype(np.float32), dtype))
        return ins

    def check(self, name, geometry, entries, *cols, dtype="f32", grid=lambda rows: rows, phases=1, turned=False, changed=()):
        """`turned`: the axis is the first of two dimensions."""
        op, layout, types, reference = OPS[name]
        spec = f"op={op} {geometry} layout={layout} dtype=({','.join([dtype, *(t or dtype for t in types)])})"
        library = self.build(spec, entries, changed)
        for shape in ((ROWS, n) for n in cols):
            ins = self.arrays(name, shape, dtype)
            with np.errstate(all="ignore"):
                want = reference(*(a if a.dtype == np.int64 else widen(a, dtype).astype(F64) for a in ins))
            for entry in entries:
                outs = [np.full(want.T.shape if turned else want.shape, 7).astype(STORAGE[dtype]) for _ in range(2)]
                given, numbers = ([a.T.copy() for a in ins], (1, *shape[::-1])) if turned else (ins, shape)
                for backwards, out in enumerate(outs):
                    self.launch(getattr(library, f"run_{entry}"), grid(ROWS), backwards, [out, *given], numbers, phases)
                if want.shape == ins[0].shape:  # in place
                    outs.append(given[0].copy())
                    self.launch(getattr(library, f"run_{entry}"), grid(ROWS), 0, [outs[-1], outs[-1], *given[1:]], numbers, phases)
                outs = [out.T.copy() for out in outs] if turned else outs
                with self.subTest(spec=spec, entry=entry, cols=shape[1]):
                    for other in outs[1:]:
                        self.assert_same(outs[0], other, dtype)
                    self.assert_near(widen(outs[0], dtype).astype(F64), want, dtype)

    def assert_near(self, got, want, dtype):
        with np.errstate(all="ignore"):
            size = np.where(np.isfinite(want), np.abs(want), 1).max(-1, keepdims=True)
            far = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, np.abs(got - want) / np.maximum(size, 1e-30))
        worst = np.unravel_index(np.argmax(np.nan_to_num(far, nan=np.inf)), far.shape)
        self.assertLessEqual(np.nan_to_num(far, nan=np.inf).max(), UNIT[dtype] + 2e-5, f"at {worst}: {got[worst]}, not {want[worst]}")

    def test_rows_in_registers(self):
        for name, dtype in (("softmax", "bf16"), ("softmax", "f16"), ("norm", "f32"), ("entropy", "bf16"), ("greatest", "f32")):
            self.check(name, "template=rows lanes=64 block=128 elems=16 form=kept", ("vector", "scalar"), 640, dtype=dtype,
                       grid=lambda rows: (rows + 1) // 2)
        for name in ("softmax", "entropy"):
            self.check(name, "template=rows lanes=16 block=96 elems=32 form=ends", ("vector", "scalar"), 333, 2,
                       grid=lambda rows: (rows + 5) // 6)  # threads lie behind the last row

    def test_rows_that_threads_walk_over(self):
        for name, dtype in (("softmax", "f32"), ("softmax", "bf16"), ("logsumexp", "f32"), ("norm", "f32"), ("entropy", "f16"),
                            ("two", "bf16"), ("sparse", "f32"), ("scaled", "f32"), ("added", "f32")):
            self.check(name, "template=rows lanes=64 block=64 form=walk", ("vector", "scalar"), 2048, 1003, 3, 1, dtype=dtype)
        for elems in (4, 8):
            self.check("scan", f"template=rows lanes=64 block=64 elems={elems} form=ends", ("vector", "scalar"), 1003, 64)

    def test_rows_in_shared_memory(self):
        for name, dtype in (("scaled", "f32"), ("norm", "bf16"), ("entropy", "f32"), ("added", "f16"), ("raised", "f32")):
            for rounds, blocks, words in ((0, ROWS, 1), (2, 3, 2)):  # each block takes a row, or several in turn
                self.check(name, f"template=cluster cluster=1 block=64 elems=1040 rounds={rounds}", ("spread", "walk"), 1003, dtype=dtype,
                           grid=lambda rows, blocks=blocks: blocks,
                           changed=("(KILN_CLUSTER > 1 && KILN_BLOCK <= 512 ? 2 : 1)", f"{words}"))

    def test_rows_that_blocks_share(self):
        for name in ("scaled", "norm", "entropy", "two"):
            self.check(name, "template=split split=4 block=64", ("vector", "scalar"), 2048, 1003, 3, 1,
                       grid=lambda rows: 4 * rows, phases=4)  # of 3 elements some parts have none
        self.check("scan", "template=split split=4 block=64 elems=4 form=ends", ("vector", "scalar"), 1003, 3,
                   grid=lambda rows: 4 * rows, phases=4)

    def test_columns(self):
        for name, dtype in (("softmax", "f32"), ("softmax", "bf16"), ("logsumexp", "f16"), ("greatest", "f32"), ("added", "f32"),
                            ("scan", "f32")):
            self.check(name, "template=columns cluster=1 across=4 vector=2 block=64", ("vector", "scalar"), 300, 64, 7,
                       dtype=dtype, grid=lambda rows: (rows + 7) // 8, turned=True)


if __name__ == "__main__":
    unittest.main()
