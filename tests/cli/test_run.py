"""kiln run: results bit for bit, shapes, places, what it prints."""

import json
import os
import signal
import subprocess
import time
import unittest

import numpy as np

from support import (DTYPES, FAKE_LIBCUDA, KILN, OPS, KilnTest, compiler_builds_for_gpus, evaluate, hardsigmoid,
                     hardsigmoid_linear, hardtanh, some_values)

MILLION = 1_000_000


class Values(KilnTest):
    def check(self, op, function, inputs, dtype, count=MILLION):
        self.check_on([some_values(dtype, count, seed) for seed in range(inputs)], op, function, dtype)

    def check_on(self, arrays, op, function, dtype):
        paths = [self.save(f"in{i}.npy", a) for i, a in enumerate(arrays)]
        out = self.path("out.npy")
        spec = f"op={op}" + (" dtype=bf16" if dtype == "bf16" else "")
        self.kiln("run", spec, *[word for path in paths for word in ("--in", path)], "--out", out)
        self.assert_same(np.load(out), evaluate(function, arrays, dtype), dtype)

    def test_every_op_and_dtype(self):
        for op, (inputs, function) in OPS.items():
            for dtype in DTYPES:
                with self.subTest(op=op, dtype=dtype):
                    self.check(op, function, inputs, dtype)

    def test_every_16_bit_value(self):
        every = np.arange(2**16, dtype=np.uint16)
        for op, function in ((op, function) for op, (inputs, function) in OPS.items() if inputs == 1):
            for dtype, values in (("f16", every.view(np.float16)), ("bf16", every)):
                with self.subTest(op=op, dtype=dtype):
                    self.check_on([values], op, function, dtype)

    def test_parameters(self):
        self.check("hardtanh(-2.5,0.75)", lambda x: hardtanh(x, -2.5, 0.75), 1, "f32")
        self.check("hardsigmoid_linear(0.1,0.25)", lambda x: hardsigmoid_linear(x, 0.1, 0.25), 1, "f64")

    def test_expression(self):
        self.check("hardsigmoid(add(x,y))", lambda x, y: hardsigmoid(x + y), 2, "f32")
        self.check("mul(add(x,y),z)", lambda x, y, z: (x + y) * z, 3, "f64")

    def test_infix_expressions(self):
        self.check("x * y - (x + y) * 2", lambda x, y: x * y - (x + y) * 2, 2, "f32", 1003)
        self.check("gate > 0 ? gate * scale1 : -scale1", lambda g, s: np.where(g > 0, g * s, -s), 2, "f64", 1003)
        self.check("z - x * y", lambda x, y, z: z - x * y, 3, "f32", 1003)

    def test_eight_arrays(self):
        for dtype in DTYPES:
            self.check("a*b + c*d + p*f - g*h", lambda a, b, c, d, p, f, g, h: a * b + c * d + p * f - g * h, 8, dtype,
                       1003)

    def test_geometry(self):
        for fields in ("block=32 elems=1 vector=1", "block=1024 elems=64", "block=96 elems=8 vector=2"):
            with self.subTest(fields=fields):
                x = some_values("f32", 10_007, 0)
                path, out = self.save("x.npy", x), self.path("y.npy")
                self.kiln("run", f"op=hardsigmoid {fields}", "--in", path, "--out", out)
                self.assert_same(np.load(out), evaluate(hardsigmoid, [x], "f32"), "f32")


class InputTypes(KilnTest):
    """The common types are those of torch.promote_types, which are not NumPy's."""

    def add(self, first, second, common):
        """The first as the common type, plus the second."""
        random = np.random.default_rng(3)
        values = {"b1": lambda: random.integers(0, 2, 1003), "u1": lambda: random.integers(0, 256, 1003)}
        x, y = (values.get(t, lambda: random.integers(-100, 100, 1003))().astype(t) for t in (first, second))
        out = self.path("out.npy")
        self.kiln("run", "op=add", "--in", self.save("x.npy", x), "--in", self.save("y.npy", y), "--out", out,
                  "--verify")
        with np.errstate(over="ignore"):  # of whole numbers in f16
            want = x.astype(common) + y.astype(common)
        self.assertEqual(np.load(out).dtype, np.dtype(common))
        np.testing.assert_array_equal(np.load(out), want)

    def test_two_types(self):
        for first, second, common in (("b1", "f4", "f4"), ("u1", "f2", "f2"), ("u1", "i1", "i2"), ("i4", "u1", "i4"),
                                      ("i8", "f2", "f2"), ("i8", "f4", "f4"), ("i2", "i8", "i8"), ("f2", "f4", "f4"),
                                      ("f4", "f8", "f8"), ("i8", "f8", "f8"), ("b1", "u1", "u1")):
            for pair in ((first, second), (second, first)):
                with self.subTest(pair=pair):
                    self.add(*pair, common)

    def test_mask(self):
        x, y = some_values("f32", 1003, 0), some_values("f32", 1003, 1)
        mask = np.arange(x.size) % 3 == 0
        paths = [self.save(f"{i}.npy", a) for i, a in enumerate((mask, x, y))]
        inputs, out = [word for path in paths for word in ("--in", path)], self.path("out.npy")
        for spec in "op=where", "op=where(keep,a,b) dtype=(bool,f32,f32) cache=stream", "op=keep ? a : b elems=1":
            with self.subTest(spec=spec):
                self.kiln("run", spec, *inputs, "--out", out)
                self.assert_same(np.load(out), np.where(mask, x, y), "f32")

    def test_bf16_needs_the_spec(self):
        x, y = np.arange(100, dtype=np.uint16), np.ones(100, np.float32)
        paths = self.save("x.npy", x), self.save("y.npy", y)
        out = self.path("out.npy")
        self.kiln("run", "op=add dtype=(bf16,f32)", "--in", paths[0], "--in", paths[1], "--out", out)
        self.assert_same(np.load(out), (x.astype(np.uint32) << 16).view(np.float32) + y, "f32")

    def test_results_and_steps_have_the_common_type(self):
        x, y = np.arange(-50, 50, dtype=np.int64), np.full(100, 0.5, np.float16)
        paths = self.save("x.npy", x), self.save("y.npy", y)
        out = self.path("out.npy")
        self.kiln("run", "op=(x > y) + x * 2", "--in", paths[0], "--in", paths[1], "--out", out)
        np.testing.assert_array_equal(np.load(out), ((x > y) + x * 2).astype(np.float16))
        self.kiln("run", "op=x > y", "--in", paths[0], "--in", paths[1], "--out", out)
        np.testing.assert_array_equal(np.load(out), x > y)


class Outputs(KilnTest):
    ADAM = ("adam(p, g, m, v; lr=0.001, b1=0.9, b2=0.999, eps=1e-8) = (p - lr * m2 / (sqrt(v2) + eps), m2, v2) "
            "where m2 = b1 * m + (1 - b1) * g, v2 = b2 * v + (1 - b2) * g * g")

    def run_on(self, spec, inputs, outputs, *words):
        paths = [self.save(f"in{i}.npy", array) for i, array in enumerate(inputs)]
        outs = [self.path(f"out{i}.npy") for i in range(outputs)]
        files = [word for path in paths for word in ("--in", path)] + [word for path in outs for word in ("--out", path)]
        self.kiln("run", spec, *files, *words)
        return [np.load(path) for path in outs]

    def test_several(self):
        x, y = some_values("f32", 10_007, 1), some_values("f32", 10_007, 2)
        for fields in "", " elems=1", " cache=stream":
            total, less = self.run_on("op=(x + y, x < y)" + fields, [x, y], 2)
            with np.errstate(invalid="ignore", over="ignore"):
                self.assert_same(total, x + y, "f32")
            np.testing.assert_array_equal(less, x < y)

    def test_types(self):
        x = some_values("f32", 1003, 1)
        half, same, flag = self.run_on("op=(x, x, x > 0) out=(f16,f32,u8)", [x], 3)
        with np.errstate(over="ignore"):
            self.assert_same(half, x.astype(np.float16), "f16")
        self.assert_same(same, x, "f32")
        np.testing.assert_array_equal(flag, (x > 0).astype(np.uint8))

    def test_eight(self):
        x = some_values("f64", 1003, 1)
        many = self.run_on("op=(" + ",".join(f"x*{k}" for k in range(8)) + ")", [x], 8)
        for k, result in enumerate(many):
            self.assert_same(result, x * k, "f64")

    def test_adam_in_place(self):
        random, f = np.random.default_rng(1), np.float32
        p, g, m, v = (np.abs(random.standard_normal(10_007)).astype(f) for _ in range(4))
        paths = [self.save(f"{n}.npy", a) for n, a in zip("pgmv", (p, g, m, v))]
        m2 = f(0.9) * m + f(0.1) * g
        v2 = f(0.999) * v + f(0.001) * (g * g)
        self.kiln("run", "--define-op", self.ADAM, "op=(p,m,v)=adam(p,g,m,v,lr=?)", "--arg", "lr=0.01",
                  *[word for path in paths for word in ("--in", path)],
                  *[word for path in (paths[0], paths[2], paths[3]) for word in ("--out", path)])
        for path, want in zip((paths[0], paths[2], paths[3]), (p - f(0.01) * m2 / (np.sqrt(v2) + f(1e-8)), m2, v2)):
            np.testing.assert_allclose(np.load(path), want, rtol=1e-4, atol=1e-5)

    def test_references_of_all_outputs(self):
        x = np.ones(100, np.float32)
        define = ["--define-op", "f(x; p=1) = (x * p, x * 1.5) within 2 ulp of (x, x * 1.5)", "--verify", "--device", "cpu"]
        self.run_on("op=f", [x], 2, *define)
        paths = [self.save("x.npy", x), self.path("a.npy"), self.path("b.npy")]
        files = ["--in", paths[0], "--out", paths[1], "--out", paths[2]]
        self.kiln("run", "op=f(1.5)", *files, *define, status=1)
        self.kiln("run", "op=f(?)", *files, *define, "--arg", "p=1.5", status=1)
        self.kiln("run", "op=f(?)", *files, *define, "--arg", "p=1")

    def test_one_kernel_for_every_scalar(self):
        x, y = some_values("f32", 1003, 1), some_values("f32", 1003, 2)
        cache, entries = self.path("kernels"), set()
        for rate in 0.1, -3, 0:
            result, = self.run_on("op=y - ?rate * x", [x, y], 1, "--arg", f"rate={rate}", "--cache-dir", cache)
            with np.errstate(invalid="ignore", over="ignore"):
                self.assert_same(result, y - np.float32(rate) * x, "f32")
            entries.add(json.loads(self.kiln("cache", "stat", "--json", "--cache-dir", cache).stdout)["entries"])
        self.assertEqual(len(entries), 1)

    def test_scalars_of_every_type(self):
        for dtype in "f64", "f16", "i32":
            x = np.arange(1, 100).astype(dtype.replace("f", "float").replace("i", "int"))
            result, = self.run_on("op=x * ?", [x], 1, "--arg", "s0=0.5")
            np.testing.assert_array_equal(result, x.astype(np.float64) * 0.5)

    def test_a_scalar_as_a_condition(self):
        x, y = np.arange(100).astype(np.int32), np.arange(100, 200).astype(np.int32)
        for value, want in (0.5, x), (0, y):
            result, = self.run_on("op=?first ? x : y", [x, y], 1, "--arg", f"first={value}")
            np.testing.assert_array_equal(result, want)

    def test_scalars_are_named(self):
        self.kiln("run", "op=x * ?k", "--in", self.save("x.npy", np.ones(4, np.float32)), "--out", self.path("y.npy"),
                  "--arg", "s0=1", status=2)


class Steps(KilnTest):
    """Each step of an expression has a type of its own; with round=eager it rounds to it."""

    def run_on(self, spec, *inputs):
        words = [word for i, x in enumerate(inputs) for word in ("--in", self.save(f"in{i}.npy", x))]
        self.kiln("run", spec, *words, "--out", self.path("out.npy"), "--verify")
        return np.load(self.path("out.npy"))

    def test_whole_numbers_wrap_around_before_they_are_divided(self):
        x, y = np.array([2147483647, 5, -7], np.int32), np.array([1, 2, 3], np.int32)
        with np.errstate(over="ignore"):
            want = (x + y).astype(np.float32) * np.float32(0.5)
        np.testing.assert_array_equal(self.run_on("op=(x + y) / 2", x, y), want)

    def test_comparisons_are_bools(self):
        x, y = some_values("f32", 1003, 0), some_values("f32", 1003, 1)
        np.testing.assert_array_equal(self.run_on("op=(x > 0) + (y > 0)", x, y), (x > 0) | (y > 0))
        np.testing.assert_array_equal(self.run_on("op=1 - (x > y)", x, y), 1 - (x > y).astype(np.int64))

        z = some_values("f32", 1003, 2)
        with np.errstate(invalid="ignore"):
            want = ((x > 0) | (y > 0)) * z
        self.assert_same(self.run_on("op=((x > 0) + (y > 0)) * z", x, y, z), want, "f32")

    def test_numbers_that_a_narrow_type_does_not_hold(self):
        x = np.array([1, 65504, np.inf, -np.inf], np.float16)
        np.testing.assert_array_equal(self.run_on("op=x > 70000", x), [False, False, True, False])
        with np.errstate(over="ignore"):
            want = (np.float32(70000) / x).astype(np.float16)
        np.testing.assert_array_equal(self.run_on("op=70000 / x", x), want)
        np.testing.assert_array_equal(self.run_on("op=x == 0.1", np.full(4, 0.1, np.float16)), [True] * 4)

    def test_templates_of_users(self):
        """One stores by kiln_store_out, and the results of the other have the dtype."""
        for dtype, store, want in (("otype", "kiln_store_out", [2.5, 7.5, -5]), ("dtype", "kiln_store", [2, 7, -5])):
            element = "kiln_out_t" if dtype == "otype" else "kiln_store_t"
            step = f"out[i] = {store}(kiln_value(KILN_EACH(KILN_LANE)));"
            lane = "#define KILN_LANE(k) KILN_VALUE(k, x##k[i])\n"
            with open(self.path("my.cu"), "w", encoding="utf-8") as file:
                file.write(f"""//! template my
//! dtype i32
//! inputs 1
//! size n
//! arg out out {dtype}[n]
//! arg x... in dtype[n]
//! arg n uint64 = n
//! param block 32..1024 step 32 = 64
//! tile block
//! grid (n + (tile - 1)) / tile
//! entry my align 1
{lane}extern "C" __global__ void my({element} *out, const kiln_store_t *x0, unsigned long long n)
{{ unsigned long long i = blockIdx.x * 64ull + threadIdx.x; if (i < n) {{ {step} }} }}
""")
            with open(self.path("my.c"), "w", encoding="utf-8") as file:
                file.write(f"""{lane}__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
    void *const *args)
{{
    {element} *out = *({element} *const *)args[0];
    const kiln_store_t *x0 = *(kiln_store_t *const *)args[1];
    unsigned long long n = *(const unsigned long long *)args[2];
    for (unsigned long long i = begin * 64; i < end * 64 && i < n; i++) {{ {step} }}
}}
""")
            with self.subTest(dtype):
                spec, x = f"template={self.path('my.cu')}", self.save("x.npy", np.array([1, 3, -2], np.int32))
                self.kiln("run", "op=x / 2 + x * 2 " + spec, "--in", x, "--out", self.path("out.npy"))
                np.testing.assert_array_equal(np.load(self.path("out.npy")), want)
                self.assert_bad(("run", "op=x + index " + spec, "--in", x, "--out", self.path("out.npy")),
                                "takes no ops of the index")
                if compiler_builds_for_gpus(self):
                    self.kiln("warm", f"op=x / 2 + x * 2 {spec} target=sm_90")

    def test_eager_rounds_each_step(self):
        x, y, z = (some_values("f16", 10_007, k) for k in range(3))
        with np.errstate(all="ignore"):
            eager = (x * y + z) - x  # NumPy rounds each to f16
            fused = ((x.astype(np.float32) * y.astype(np.float32) + z) - x).astype(np.float16)
        self.assert_same(self.run_on("op=x * y + z - x round=eager", x, y, z), eager, "f16")
        self.assert_same(self.run_on("op=x * y + z - x", x, y, z), fused, "f16")
        self.assertGreater(np.count_nonzero(eager.view(np.uint16) != fused.view(np.uint16)), 100)

    def test_eager_rounds_to_the_type_of_each_step(self):
        x, y = some_values("f16", 1003, 0), some_values("f64", 1003, 1)
        with np.errstate(all="ignore"):
            want = (x * x).astype(np.float64) + y
        self.assert_same(self.run_on("op=x * x + y round=eager", x, y), want, "f64")
        small = np.arange(-128, 128).astype(np.int8)
        with np.errstate(over="ignore"):
            wrapped = (small + small) > 0
        np.testing.assert_array_equal(self.run_on("op=x + x > 0 round=eager", small), wrapped)
        np.testing.assert_array_equal(self.run_on("op=x + x > 0", small), small > 0)

    def test_outputs_of_several_types(self):
        x = np.arange(-500, 503).astype(np.int64)
        outs = [self.path(f"out{i}.npy") for i in range(3)]
        self.kiln("run", "op=(x, x / 2, x > 0)", "--in", self.save("x.npy", x), *[w for o in outs for w in ("--out", o)])
        for out, want in zip(outs, (x, (x / 2).astype(np.float32), x > 0)):
            self.assertEqual(np.load(out).dtype, want.dtype)
            np.testing.assert_array_equal(np.load(out), want)

    def test_index(self):
        for n in 1, 1000, 70_001:
            x = some_values("f16", n, 0)
            np.testing.assert_array_equal(self.run_on("op=x > 0 ? index : -index", x),
                                          np.where(x > 0, np.arange(x.size), -np.arange(x.size)))
        x, row = some_values("f32", 12_000, 1)[:12_000].reshape(40, 300), some_values("f32", 300, 2)[:300]
        self.assert_same(self.run_on("op=index < 5000 ? x : bias", x, row),
                         np.where(np.arange(12_000).reshape(40, 300) < 5000, x, row), "f32")

    def test_what_has_no_meaning(self):
        x = self.save("x.npy", np.ones(4, np.float32))
        for spec, words in (("op=index", "takes no array"), ("op=f(x, index)", "unknown op"),
                            ("op=x + ?index", "'index' cannot name a scalar"),
                            ("op=copy round=never", "unknown round 'never': fused, eager"),
                            ("op=bitwise_and(x, index)", "takes whole numbers")):
            with self.subTest(spec):
                self.assert_bad(("run", spec, "--in", x, "--out", self.path("y.npy")), words)

    def test_the_steps_of_a_gpu_stay_apart(self):
        """ptxas joins a product by a power of two with a function before it, and takes abs.s64 for positive."""
        show = lambda *words: self.kiln("show", *words).stdout
        self.assertIn("kiln_times(kiln_op_exp(x), (kiln_real)0x1p+1)", show("op=2 * exp(x) round=eager target=sm_90", "--source"))
        self.assertIn("kiln_mul((kiln_real)0x1p+1, kiln_op_exp(x))", show("op=2 * exp(x) target=sm_90", "--source"))
        ptx = show("op=atan2(x, abs(y)) dtype=(f32,i64) target=sm_90", "--ptx")
        self.assertIn("neg.s64", ptx)
        self.assertNotIn("abs.s64", ptx)


class Broadcast(KilnTest):
    def run_on(self, spec, *arrays, words=(), **options):
        paths = [self.save(f"in{i}.npy", array) for i, array in enumerate(arrays)]
        out = self.path("out.npy")
        self.kiln("run", spec, *[word for path in paths for word in ("--in", path)], "--out", out, *words, **options)
        return np.load(out)

    def test_shapes(self):
        random = np.random.default_rng(1)
        for first, second in (((7, 13), (13,)), ((7, 13), (7, 1)), ((2, 3, 4), (4,)), ((2, 3, 4), (3, 4)),
                              ((2, 3, 4), (2, 1, 1)), ((2, 3, 4), ()), ((1,), (3, 4)), ((3, 1), (1, 4)), ((3,), (1, 3)),
                              ((0, 3), (3,)), ((5, 1, 1), (5, 2, 3)), ((3, 70_000), (70_000,)), ((1000, 3), (1000, 1)),
                              ((1, 1), ())):
            with self.subTest(first=first, second=second):
                x, y = (random.standard_normal(shape).astype(np.float32) for shape in (first, second))
                self.assert_same(self.run_on("op=x - y", x, y, words=["--verify"]), np.asarray(x - y), "f32")

    def test_shapes_of_more_than_rows_and_columns(self):
        random = np.random.default_rng(3)
        for shapes in (((2, 3, 4), (2, 1, 4)), ((5, 1, 3, 1), (4, 1, 2)), ((2, 1, 3), (1, 4, 1), (1,)),
                       ((3, 1, 2), (1, 0, 1)), ((1, 2, 1, 3, 1), (2, 2, 1, 3, 2), (3, 2))):
            with self.subTest(shapes=shapes):
                arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
                arrays[0] = np.asfortranarray(arrays[0])
                want = arrays[0] - arrays[1] if len(arrays) == 2 else arrays[0] - arrays[1] + arrays[2]
                op = "op=x - y" + (" + z round=eager" if len(arrays) == 3 else "")
                self.assert_same(self.run_on(op, *arrays, words=["--verify"]), want, "f32")

    def test_types_outputs_and_scalars(self):
        random = np.random.default_rng(2)
        x, bias = random.standard_normal((30, 50)).astype(np.float16), random.standard_normal(50).astype(np.float32)
        keep = random.random((30, 1)) < 0.5
        result = self.run_on("op=keep ? x + bias * ?k : 0", keep, x, bias, words=["--arg", "k=2"])
        self.assert_same(result, np.where(keep, x.astype(np.float32) + bias * np.float32(2), np.float32(0)), "f32")

    def test_in_place(self):
        x, y = np.ones((4, 5), np.float32), np.arange(5, dtype=np.float32)
        paths = self.save("x.npy", x), self.save("y.npy", y)
        self.kiln("run", "op=x + y", "--in", paths[0], "--in", paths[1], "--out", paths[0])
        self.assert_same(np.load(paths[0]), x + y, "f32")

    def test_geometry_is_kept(self):
        x, y = np.ones((40, 50), np.float32), np.arange(50, dtype=np.float32)
        for fields in "block=32 elems=1", "elems=8 vector=2", "cache=stream":
            self.assert_same(self.run_on("op=x + y " + fields, x, y), x + y, "f32")

    def test_layout_by_name(self):
        x, y = np.ones((4, 5), np.float32), np.arange(4, dtype=np.float32).reshape(4, 1)
        self.assert_same(self.run_on("op=x + y template=broadcast layout=(full,column)", x, y), x + y, "f32")

    def test_what_does_not_go(self):
        x = np.ones((2, 3, 4), np.float32)
        for other, words in (((3, 3), "does not broadcast"), ((5,), "does not broadcast with (2, 3, 4)")):
            paths = self.save("x.npy", x), self.save("y.npy", np.ones(other, np.float32))
            result = self.kiln("run", "op=x + y", "--in", paths[0], "--in", paths[1], "--out", self.path("z.npy"),
                               status=2)
            self.assertIn(words, result.stderr)
            self.assertFalse(os.path.exists(self.path("z.npy")))

    def test_what_no_memory_holds(self):
        words = []
        for axis in range(3):
            shape = [1, 1, 1]
            shape[axis] = 1 << 21
            words += ["--in", self.save(f"in{axis}.npy", np.zeros(shape, np.float32))]
        result = self.kiln("run", "op=x + y + z", *words, "--out", self.path("z.npy"), status=1)
        self.assertIn("larger than any memory", result.stderr)


class Shapes(KilnTest):
    def run_on(self, array):
        path, out = self.save("x.npy", array), self.path("y.npy")
        self.kiln("run", "op=hardsigmoid", "--in", path, "--out", out, "--verify")
        return np.load(out)

    def test_shape_is_kept(self):
        for shape in ((), (1,), (7,), (3, 5), (2, 3, 4), (0,), (3, 0, 2), (1,) * 20):
            with self.subTest(shape=shape):
                x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
                self.assert_same(self.run_on(np.asarray(x)), np.asarray(evaluate(hardsigmoid, [x], "f32")), "f32")

    def test_header_versions(self):
        x = np.linspace(-4, 4, 1001, dtype=np.float32)
        for version in ((1, 0), (2, 0), (3, 0)):
            with self.subTest(version=version):
                path, out = self.path("x.npy"), self.path("y.npy")
                with open(path, "wb") as file:
                    np.lib.format.write_array(file, x, version=version)
                self.kiln("run", "op=relu6", "--in", path, "--out", out)
                self.assert_same(np.load(out), np.clip(x, 0, 6) + np.float32(0), "f32")

    def test_one_dimensional_fortran_order_is_plain(self):
        path, out = self.path("x.npy"), self.path("y.npy")
        x = np.arange(6, dtype=np.float32)
        with open(path, "wb") as file:
            header = b"{'shape': (6,), 'fortran_order': True, 'descr': \"<f4\"}"
            header += b" " * (117 - len(header)) + b"\n"
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + x.tobytes())
        self.kiln("run", "op=relu6", "--in", path, "--out", out)
        self.assert_same(np.load(out), x, "f32")


class Orders(KilnTest):
    """Files in either memory order and byte order give what np.ascontiguousarray gives in the machine's byte order."""

    TYPES = {"f16": "f2", "f32": "f4", "f64": "f8", "bf16": "u2", "f8e4m3": "u1", "f8e5m2": "u1", "i8": "i1", "i16": "i2",
             "i32": "i4", "i64": "i8", "u8": "u1", "bool": "b1"}
    SHAPES = ((), (7,), (0, 3), (1, 5, 1), (129, 65), (3, 300), (5, 4, 3), (2, 70, 3, 50), (2,) * 10)

    def arrays(self, kind, shape):
        """Four arrays of any finite bits: C and Fortran order, little endian and big."""
        random = np.random.default_rng(5)
        for order in "CF":
            for endian in "<>":
                values = random.integers(0, 2 if kind == "b1" else 120, (*shape, np.dtype(kind).itemsize), np.uint8)
                yield np.asarray(values.view(kind)[..., 0].astype(endian + kind), order=order)

    def run_on(self, spec, arrays):
        paths = [self.save(f"in{i}.npy", array) for i, array in enumerate(arrays)]
        outs = [self.path(f"out{i}.npy") for i in range(len(paths))]
        self.kiln("run", spec, *[word for path in paths for word in ("--in", path)],
                  *[word for path in outs for word in ("--out", path)], "--verify")
        return outs

    def assert_plain(self, path, want):
        """The file holds the values in C order, little endian."""
        with open(path, "rb") as file:
            data = file.read()
        self.assertIn(b"'fortran_order': False", data)
        want = np.array(want, want.dtype.newbyteorder("<"), order="C")
        got = np.load(path)
        self.assertEqual((got.dtype.str, got.shape), (want.dtype.str, want.shape))
        self.assertEqual(data[len(data) - want.nbytes:], want.tobytes())

    def test_every_dtype(self):
        for dtype, kind in self.TYPES.items():
            for shape in self.SHAPES:
                with self.subTest(dtype=dtype, shape=shape):
                    arrays = list(self.arrays(kind, shape))
                    for path, want in zip(self.run_on(f"op=(a,b,c,d) dtype={dtype}", arrays), arrays):
                        self.assert_plain(path, want)

    def test_the_file_tells_the_dtype(self):
        for kind in "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "b1":
            arrays = list(self.arrays(kind, (3, 5)))
            for path, want in zip(self.run_on("op=(a,b,c,d)", arrays), arrays):
                self.assert_plain(path, want)

    def test_versions(self):
        x = np.asfortranarray(np.linspace(-4, 4, 1001 * 3).reshape(1001, 3).astype(">f4"))
        for version in ((1, 0), (2, 0), (3, 0)):
            with open(self.path("x.npy"), "wb") as file:
                np.lib.format.write_array(file, x, version=version)
            self.kiln("run", "op=copy", "--in", self.path("x.npy"), "--out", self.path("y.npy"))
            self.assert_plain(self.path("y.npy"), x)

    def test_bytes_have_no_order(self):
        x = np.arange(6, dtype=np.uint8)
        path = self.save("x.npy", x)
        with open(path, "rb") as file:
            data = file.read()
        for descr in b"'<u1'", b"'>u1'":
            with open(path, "wb") as file:
                file.write(data.replace(b"'|u1'", descr))
            self.assert_plain(self.run_on("op=copy", [np.load(path)])[0], x)
            self.kiln("run", "op=copy", "--in", path, "--out", self.path("y.npy"))
            self.assert_plain(self.path("y.npy"), x)

    def test_large(self):
        for kind, shape in ((">f8", (1000, 1037)), (">f2", (1_000_003,)), ("<f4", (2, 200_000, 3)), ("|u1", (3, 1 << 19))):
            x = np.asfortranarray(np.arange(np.prod(shape), dtype="i4").reshape(shape).astype("u1").astype(kind))
            self.assert_plain(self.run_on("op=copy", [x])[0], x)

    def test_rows_and_broadcast(self):
        x = np.asfortranarray(np.arange(70 * 31).reshape(70, 31).astype(">f4"))
        bias = np.arange(31).astype(">f8")
        line = ("--in", self.save("x.npy", x), "--out", self.path("y.npy"))
        self.kiln("run", "template=rowsum op=copy", *line)
        self.assert_plain(self.path("y.npy"), x.sum(axis=1))
        self.kiln("run", "op=x + bias", "--in", f"bias={self.save('bias.npy', bias)}", *line, "--verify")
        self.assert_plain(self.path("y.npy"), x + bias)

    def test_in_place_and_pipes(self):
        x = np.asfortranarray(np.arange(300 * 500).reshape(300, 500).astype(">i4"))
        path = self.save("x.npy", x)
        with open(path, "rb") as file:
            self.kiln("run", "op=copy", "--in", "-", "--out", self.path("y.npy"), stdin=file)
        self.assert_plain(self.path("y.npy"), x)
        self.kiln("run", "op=copy", "--in", path, "--out", path)
        self.assert_plain(path, x)


class Rows(KilnTest):
    """The template rowsum, whose sizes come from the shapes of the inputs."""

    def test_rows_are_summed(self):
        random = np.random.default_rng(3)
        x, y = (random.integers(-8, 9, (70, 301)).astype(np.float32) for _ in range(2))
        ins = ["--in", self.save("x.npy", x), "--in", self.save("y.npy", y)]
        out = self.path("out.npy")
        self.kiln("run", "template=rowsum op=mul(x,y)", *ins, "--out", out)
        self.assert_same(np.load(out), (x * y).sum(axis=1), "f32")
        for shape in ((3, 0), (0, 3)):
            empty = self.save("empty.npy", np.zeros(shape, np.float32))
            self.kiln("run", "template=rowsum op=copy", "--in", empty, "--out", out)
            self.assert_same(np.load(out), np.zeros(shape[0], np.float32), "f32")
        self.kiln("run", "template=rowsum op=copy", *ins, "--out", out, status=2)
        flat = self.save("flat.npy", x.reshape(-1))
        self.assert_bad(["run", "template=rowsum op=copy", "--in", flat, "--out", out], "has 1 dimensions")


class Places(KilnTest):
    def setUp(self):
        super().setUp()
        self.x = np.linspace(-5, 5, 4096, dtype=np.float32)
        self.want = evaluate(hardsigmoid, [self.x], "f32")
        self.input = self.save("x.npy", self.x)

    def test_output_may_be_the_input(self):
        self.kiln("run", "op=hardsigmoid", "--in", self.input, "--out", self.input)
        self.assert_same(np.load(self.input), self.want, "f32")

    def test_one_file_may_be_both_inputs(self):
        out = self.path("y.npy")
        self.kiln("run", "op=add", "--in", self.input, "--in", self.input, "--out", out)
        self.assert_same(np.load(out), self.x + self.x, "f32")

    def test_output_through_a_link_and_mode(self):
        target, link = self.path("target.npy"), self.path("link.npy")
        np.save(target, np.zeros(3))
        os.symlink(target, link)
        for mode in (0o600, 0o604, 0o666, 0o2750):
            os.chmod(target, mode)
            self.kiln("run", "op=hardsigmoid", "--in", self.input, "--out", link, umask=0o027)
            self.assertTrue(os.path.islink(link))
            self.assert_same(np.load(target), self.want, "f32")
            self.assertEqual(os.stat(target).st_mode & 0o7777, mode)

    def test_mode_of_a_new_file(self):
        self.kiln("run", "op=hardsigmoid", "--in", self.input, "--out", self.path("y.npy"), umask=0o027)
        self.assertEqual(os.stat(self.path("y.npy")).st_mode & 0o7777, 0o640)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_owner_of_a_replaced_file(self):
        target = self.save("y.npy", self.x)
        os.chown(target, 12345, 54321)
        os.chmod(target, 0o640)
        self.kiln("run", "op=hardsigmoid", "--in", self.input, "--out", target)
        info = os.stat(target)
        self.assertEqual((info.st_uid, info.st_gid, info.st_mode & 0o7777), (12345, 54321, 0o640))

    def test_nothing_is_left_behind(self):
        self.kiln("run", "op=hardsigmoid", "--in", self.input, "--out", self.path("y.npy"))
        self.assertEqual(sorted(os.listdir(self.dir)), ["cache", "x.npy", "y.npy"])

    def test_interrupt_removes_the_temporary_file(self):
        with open(self.input, "rb") as file:
            data = file.read()
        process = subprocess.Popen([KILN, "run", "op=hardsigmoid", "--in", "/dev/stdin", "--out", self.path("y.npy")], env=self.env,
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        process.stdin.write(data[:-1])
        process.stdin.flush()
        end = time.monotonic() + 60
        while not any(name.startswith(".kiln-") for name in os.listdir(self.dir)) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
        process.stdin.close()
        self.assertEqual(sorted(os.listdir(self.dir)), ["cache", "x.npy"])

    def test_pipes(self):
        with open(self.input, "rb") as file:
            data = file.read()
        for out in ("/dev/stdout", "-"):
            result = subprocess.run([KILN, "run", "op=hardsigmoid", "--in", "/dev/stdin", "--out", out], cwd=self.dir,
                                    env=self.env, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
            with open(self.path("y.npy"), "wb") as file:
                file.write(result.stdout)
            self.assert_same(np.load(self.path("y.npy")), self.want, "f32")
            self.assertIn(b"hardsigmoid", result.stderr)
            self.assertFalse(os.path.exists(self.path("-")))


class Names(KilnTest):
    """Files by the names of their arrays."""

    def setUp(self):
        super().setUp()
        self.x, self.odd = np.arange(5, dtype=np.float32), np.full(5, 9, np.float32)
        self.save("x.npy", self.x)
        self.save("x=x.npy", self.odd)

    def run_in_place(self, spec, *words):
        self.kiln("run", spec, *words, cwd=self.dir)

    def result(self, name):
        return np.load(self.path(name))

    def test_a_name_goes_before_a_file_that_is_called_so(self):
        self.run_in_place("op=x + 1", "--in", "x=x.npy", "--out", "y.npy")
        self.assert_same(self.result("y.npy"), self.x + 1, "f32")
        self.run_in_place("op=x + 1", "--in", "./x=x.npy", "--out", "y.npy")
        self.assert_same(self.result("y.npy"), self.odd + 1, "f32")
        self.run_in_place("op=x + 1", "--in", "x=x=x.npy", "--out", "y.npy")
        self.assert_same(self.result("y.npy"), self.odd + 1, "f32")

    def test_a_file_whose_path_begins_with_the_name_of_no_array(self):
        self.run_in_place("op=a + 1", "--in", "x=x.npy", "--out", "y.npy")
        self.assert_same(self.result("y.npy"), self.odd + 1, "f32")

    def test_of_results_too(self):
        self.run_in_place("op=(x,m)=(a + 1, a)", "--in", "x.npy", "--out", "./x=x.npy", "--out", "x=m.npy")
        self.assert_same(self.result("m.npy"), self.x + 1, "f32")
        self.assert_same(self.result("x=x.npy"), self.x, "f32")

    def test_by_name_in_any_order(self):
        self.run_in_place("op=a - b", "--in", "b=./x=x.npy", "--in", "x.npy", "--out", "y.npy")
        self.assert_same(self.result("y.npy"), self.x - self.odd, "f32")
        self.assert_bad(["run", "op=a - b", "--in", "b=x.npy", "--in", "b=y.npy", "--out", "z.npy"],
                        "--in b=y.npy: the array has a file already, x.npy", cwd=self.dir)
        self.assert_bad(["run", "op=a - b", "--in", "b=x.npy", "--in", "c=y.npy", "--out", "z.npy"],
                        "--in c=y.npy: the kernel reads no such array: a, b", cwd=self.dir)


class Report(KilnTest):
    def setUp(self):
        super().setUp()
        self.input = self.save("x.npy", np.ones((3, 1000), np.float32))
        self.args = ("run", "op=hardsigmoid", "--in", self.input, "--out", self.path("y.npy"))

    def test_json(self):
        first = self.kiln_json(*self.args)
        second = self.kiln_json(*self.args, "--verify", "--time")
        self.assertEqual(first["device"], "cpu")
        self.assertIn("dtype=f32", first["spec"])
        self.assertIn("target=cpu", first["spec"])
        self.assertEqual((first["source"], second["source"]), ("compiled", "disk"))
        self.assertGreater(first["compile_ms"], 0)
        self.assertGreater(first["time_ms"], 0)
        self.assertGreater(first["gbps"], 0)
        self.assertEqual((first["elements"], first["bytes"]), (3000, 24000))
        self.assertEqual((first["verified"], second["verified"]), (None, True))

    def test_text(self):
        first = self.kiln(*self.args, "--verify")
        self.assertIn("compiled in ", first.stdout)
        self.assertIn("GB/s", first.stdout)
        self.assertIn("3000 elements equal", first.stdout)
        self.assertEqual(first.stderr, "")
        self.assertIn("kernel    disk", self.kiln(*self.args).stdout)

    def test_without_a_cache(self):
        self.kiln(*self.args, "--cache-dir", "")
        self.assertEqual(self.kiln_json(*self.args, "--cache-dir=")["source"], "compiled")
        self.assertFalse(os.path.exists(self.cache))

    def test_cache_dir_option(self):
        self.kiln(*self.args, "--cache-dir", self.path("other"))
        self.assertTrue(os.path.isdir(self.path("other")))
        self.assertFalse(os.path.exists(self.cache))


@unittest.skipUnless(FAKE_LIBCUDA, "no stand-in driver")
class StandInDriver(KilnTest):
    """The stand-in driver loads and launches but computes nothing, so every result must be found wrong."""

    device = "cuda:0"

    def setUp(self):
        super().setUp()
        self.env["KILN_LIBCUDA"] = FAKE_LIBCUDA
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        self.args = ("run", "op=hardsigmoid", "--in", self.save("x.npy", np.ones(100, np.float32)), "--out",
                     self.path("y.npy"))
        with open(self.path("y.npy"), "wb") as file:
            file.write(b"old")

    def test_verify_finds_what_was_not_computed(self):
        result = self.kiln(*self.args, "--verify", status=1)
        self.assertIn("the first is element 0 of out: it is 0xa5a5a5a5", result.stderr)
        with open(self.path("y.npy"), "rb") as file:
            self.assertEqual(file.read(), b"old")
        result = self.kiln(*self.args, "--verify", "--json", status=1)
        self.assertIs(json.loads(result.stdout)["verified"], False)

    def test_output_is_poisoned(self):
        self.assertEqual(self.kiln_json(*self.args)["device"], "cuda:0")
        self.assertEqual(set(np.load(self.path("y.npy")).view(np.uint32)), {0xA5A5A5A5})

    def test_one_launch_is_timed_after_another(self):
        env = dict(self.env, KILN_FAKE_CUDA="fail=cuLaunchKernel:719:2")
        self.assertGreater(json.loads(self.kiln(*self.args, "--json", env=env).stdout)["time_ms"], 0)

    def test_a_failed_launch_says_why(self):
        for skip, more in ((0, ()), (1, ()), (0, ("--time",)), (9, ("--time",))):
            env = dict(self.env, KILN_FAKE_CUDA=f"fail=cuLaunchKernel:701:{skip}")
            result = self.kiln(*self.args, *more, status=1, env=env)
            self.assertEqual(result.stdout, "")
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", result.stderr)
            with open(self.path("y.npy"), "rb") as file:
                self.assertEqual(file.read(), b"old")

    def test_bench_refuses_to_time_what_is_wrong(self):
        result = self.kiln("bench", "op=hardsigmoid", "--size", "64k", status=1)
        self.assertIn("was not timed", result.stderr)
        self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
