"""kiln run of ops that reduce an axis: results against NumPy in float64, for every reduction, axis, layout and type."""

import json
import unittest

import numpy as np

from support import UNIT, KilnTest, compiler_builds_for_gpus, kept, layer_norm, logsumexp, narrow, softmax, widen

F64 = np.float64


def norm(x, axis):
    return np.sqrt((x * x).sum(axis=axis))


REDUCTIONS = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min, "argmax": np.argmax,
              "argmin": np.argmin, "any": np.any, "all": np.all, "var": np.var, "std": np.std, "norm": norm,
              "logsumexp": logsumexp}
SCANS = {"cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}
EXACT = ("max", "min", "argmax", "argmin", "any", "all")


def rms_norm(x, w):
    return x / np.sqrt(kept(np.mean, x * x) + 1e-5) * w


def cross_entropy(x, t, smoothing=0.0):
    logs = np.log(softmax(x))
    rows = -(1 - smoothing) * np.take_along_axis(logs, np.maximum(t, 0), -1) - smoothing * kept(np.mean, logs)
    return np.where(t == -100, 0, rows)[:, 0]


def gradient(function, x, grad, step=1e-6):
    """Of the sum of grad * function(x), for each element of x, by central differences."""
    out = np.empty_like(x)
    for i in np.ndindex(x.shape):
        moved = x.copy()
        moved[i] = x[i] + step
        above = (grad * function(moved)).sum()
        moved[i] = x[i] - step
        out[i] = (above - (grad * function(moved)).sum()) / (2 * step)
    return out


class Reductions(KilnTest):
    def run_op(self, spec, inputs, outputs=1, dtype=None, options=()):
        words = [word for i, a in enumerate(inputs) for word in ("--in", self.save(f"i{i}.npy", a))]
        outs = [self.path(f"o{i}.npy") for i in range(outputs)]
        self.kiln("run", spec + (" dtype=bf16" if dtype == "bf16" else ""), *words,
                  *[word for out in outs for word in ("--out", out)], *options)
        arrays = [np.load(out) for out in outs]
        return arrays[0] if outputs == 1 else arrays

    def assert_near(self, got, want, dtype, size=1.0, count=1):
        """Within the rounding of the result and that of a sum of so many terms of this size."""
        want = np.asarray(want, dtype=F64)
        self.assertEqual(got.shape, want.shape)
        got = widen(got, dtype).astype(F64) if dtype in UNIT else got.astype(F64)
        step = 2.0**-53 if dtype == "f64" else 2.0**-24
        least = {"f16": 2.0**-24, "bf16": 2.0**-133}.get(dtype, 0)
        allowed = 2 * UNIT.get(dtype, step) * abs(want) + step * (16 + 2 * np.sqrt(count)) * size + least
        wrong = ~((abs(got - want) <= allowed) | (got == want) | (np.isnan(got) & np.isnan(want)))
        self.assertFalse(wrong.any(), f"{got[wrong][:3]} for {want[wrong][:3]}")

    def values(self, shape, dtype, seed=1):
        random = np.random.default_rng(seed)
        if dtype in UNIT:
            return narrow(random.standard_normal(shape).astype(F64 if dtype == "f64" else np.float32), dtype)
        if dtype == "bool":
            return random.integers(0, 2, shape).astype(bool)
        return random.integers(-100 if dtype[0] == "i" else 0, 100, shape).astype(dtype.replace("i", "int").replace("u", "uint"))

    def check_reductions(self, dtype, shape, names, beside=0):
        """Of rows, or with beside=2 of the first of two dimensions, or with beside=3 of the second of three."""
        x = self.values(shape, dtype)
        wide = widen(x, dtype).astype(F64) if dtype in UNIT else x.astype(np.int64)
        given = {0: x, 2: x.T, 3: x.reshape(1, *x.shape).swapaxes(1, 2)}[beside]
        got = self.run_op("op=(" + ",".join(f"{name}(x)" for name in names) + ")" + (" axis=-2" if beside else ""),
                          [np.ascontiguousarray(given)], len(names), dtype)
        for name, array in zip(names, got):
            array = array[0] if beside == 3 else array
            with self.subTest(name=name, dtype=dtype, shape=shape):
                want = REDUCTIONS[name](wide.astype(F64) if name in ("norm", "logsumexp") else wide, axis=-1)
                terms = np.prod(abs(wide), axis=-1) if name == "prod" else (abs(wide) + wide * wide * 1.0).sum(axis=-1)
                exact = name in EXACT or dtype not in UNIT and name in ("sum", "prod")
                result = "i64" if exact or dtype not in UNIT else dtype
                if name in ("max", "min") and dtype in UNIT:
                    result = dtype
                if name in ("var", "std", "norm", "logsumexp", "mean") and dtype not in UNIT:
                    result = "f32"
                size = 0 if exact else terms if name in ("sum", "prod", "var") else terms / np.sqrt(shape[-1])
                self.assert_near(array, want, result, size, shape[-1])

    def test_every_reduction_of_real_numbers(self):
        names = list(REDUCTIONS)
        for dtype in UNIT:
            for shape in ((3, 1), (5, 17), (4, 1000), (2, 70001)):
                for part in (names[:7], names[7:]):
                    if shape[1] < 1000 or "prod" not in part:
                        self.check_reductions(dtype, shape, part)
                    else:
                        self.check_reductions(dtype, shape, [name for name in part if name != "prod"])

    def test_every_reduction_of_an_axis_before_other_dimensions(self):
        names = [name for name in REDUCTIONS if name != "prod"]
        for dtype in (*UNIT, "i32", "u8"):
            for shape in ((3, 1), (5, 17), (33, 1000)):
                self.check_reductions(dtype, shape, names[:6], 2 + (shape[0] == 33))
                self.check_reductions(dtype, shape, names[6:], 2)
            self.check_reductions(dtype, (70, 5), ["prod", "sum"], 3)

    def test_every_reduction_of_whole_numbers(self):
        names = [name for name in REDUCTIONS if name not in ("logsumexp",)]
        for dtype in ("i8", "i16", "i32", "i64", "u8", "bool"):
            for part in (names[:6], names[6:]):
                self.check_reductions(dtype, (7, 9 if dtype == "bool" else 5), part)
        names = [name for name in names if name != "prod"]
        for dtype in ("i8", "i16", "i32", "u8", "bool"):  # gcc has lost terms of long rows
            for cols in (1024, 1100, 70001):
                self.check_reductions(dtype, (2, cols), names[:6])
                self.check_reductions(dtype, (2, cols), names[6:])

    def test_whole_numbers_outside_their_type(self):
        """max and its kin pick one of the values that the type has."""
        x = np.array([[100, 120, 90, 110], [-128, -1, 0, 127]], np.int8)
        wide, negated = x + x, (-x.astype(np.int16)).astype(np.uint8)
        for rounding in ("fused", "eager"):
            got = self.run_op("op=(max(x + x),min(x + x),argmax(x + x),argmin(x + x),cummin(x + x),min(abs(x)))"
                              f" round={rounding}", [x], 6)
            want = (wide.max(-1), wide.min(-1), wide.argmax(-1), wide.argmin(-1), np.minimum.accumulate(wide, -1),
                    np.abs(x).min(-1))
            for array, right in zip(got, want):
                np.testing.assert_array_equal(array, right)
            u8 = x.astype(np.uint8)
            np.testing.assert_array_equal(self.run_op(f"op=max(-x) round={rounding}", [u8]), negated.max(-1))
            got = self.run_op(f"op=argmin(-x) + y round={rounding}", [u8, np.full((2, 1), 0.5, np.float32)])
            np.testing.assert_array_equal(got, negated.argmin(-1) + 0.5)

    def test_logsumexp_of_other_types(self):
        for dtype in ("f32", "f64", "f16", "i8", "i32", "i64", "u8", "bool"):
            x = self.values((3, 40), dtype)
            result = dtype if dtype in UNIT else "f32"
            got = self.run_op("op=logsumexp(x > 0)", [x])
            self.assert_near(got, logsumexp((x > 0).astype(F64), -1), "f32", 10, 40)
            y = np.ones((3, 40), np.float64)
            want = logsumexp(x.astype(F64), -1)
            got = self.run_op("op=(logsumexp(x) + y,logsumexp(index) + y)", [x, y], 2)
            self.assert_near(got[0], (want + 1)[:, None] * y, result, 100, 40)
            self.assert_near(got[1], (logsumexp(np.arange(40.0)[None], -1) + 1)[:, None] * y, "f32", 100, 40)

    def test_axes(self):
        x = self.values((3, 5, 4, 6), "f32")
        wide = x.astype(F64)
        for axis, numpy in (("", -1), ("-1", -1), ("3", 3), ("(2,3)", (2, 3)), ("(-3,-2,-1)", (1, 2, 3)),
                            ("all", (0, 1, 2, 3)), ("(0,1,2,3)", (0, 1, 2, 3)), ("0", 0), ("-3", 1), ("2", 2),
                            ("(0,1)", (0, 1)), ("(1,2)", (1, 2)), ("(0,1,2)", (0, 1, 2))):
            for keep in (False, True):
                with self.subTest(axis=axis, keep=keep):
                    want = wide.sum(axis=numpy, keepdims=keep)
                    field = (f" axis={axis}" if axis else "") + (" keep=1" if keep else "")
                    self.assert_near(self.run_op("op=sum(x)" + field, [x]), want, "f32", 60, 360)
                    options = (["--axis", axis] if axis else []) + (["--keep"] if keep else [])
                    self.assert_near(self.run_op("op=sum(x)", [x], options=options), want, "f32", 60, 360)
        flat = wide.reshape(3, 5, 24)
        self.assert_near(self.run_op("op=softmax axis=(2,3)", [x]), softmax(flat).reshape(x.shape), "f32")
        first = softmax(wide.reshape(15, 24).T).T.reshape(x.shape)
        self.assert_near(self.run_op("op=softmax axis=(0,1)", [x], options=["--verify"]), first, "f32")

    def test_inputs_broadcast(self):
        x, row = self.values((3, 5, 40), "f32"), self.values((40,), "f32", 2)
        column, one, part = self.values((3, 5, 1), "f32", 3), self.values((1,), "f32", 4), self.values((5, 1), "f32", 5)
        wide = [a.astype(F64) for a in (x, row, column, one, part)]
        for text, inputs, want in (
                ("softmax(x * y)", (0, 1), softmax(wide[0] * wide[1])),
                ("sum(x * y)", (0, 2), (wide[0] * wide[2]).sum(axis=-1)),
                ("sum(x) * y", (0, 2), wide[0].sum(axis=-1) * wide[2][..., 0]),
                ("max(x) + y", (0, 3), wide[0].max(axis=-1) + wide[3][0]),
                ("x - max(x) * y", (0, 4), wide[0] - kept(np.max, wide[0]) * wide[4]),
                ("mean(a * b) * b", (0, 1), kept(np.mean, wide[0] * wide[1]) * wide[1]),
                ("layer_norm(x, w, b)", (0, 1, 1), layer_norm(wide[0], wide[1], wide[1]))):
            with self.subTest(text=text):
                arrays = [(x, row, column, one, part)[i] for i in inputs]
                self.assert_near(self.run_op("op=" + text, arrays), want, "f32", 60, 40)

    def test_inputs_broadcast_beside_the_axis(self):
        x, along = self.values((3, 40, 5), "f32"), self.values((40, 1), "f32", 2)
        beside, one = self.values((3, 1, 5), "f32", 3), self.values((1,), "f32", 4)
        part = self.values((5,), "f32", 5)
        wide = [a.astype(F64) for a in (x, along, beside, one, part)]
        for text, inputs, want in (
                ("sum(x * y)", (0, 1), (wide[0] * wide[1]).sum(axis=1)),
                ("sum(x * y)", (0, 2), (wide[0] * wide[2]).sum(axis=1)),
                ("sum(x) * y", (0, 2), (wide[0].sum(axis=1) * wide[2][:, 0])),
                ("max(x) + y", (0, 3), wide[0].max(axis=1) + wide[3][0]),
                ("mean(x * y)", (0, 4), (wide[0] * wide[4]).mean(axis=1)),
                ("x - max(x) * y", (0, 2), wide[0] - kept(np.max, wide[0], 1) * wide[2])):
            with self.subTest(text=text):
                arrays = [(x, along, beside, one, part)[i] for i in inputs]
                self.assert_near(self.run_op("op=" + text + " axis=1", arrays, options=["--verify"]), want, "f32", 60, 40)

    def test_several_results(self):
        x, w = self.values((6, 33), "f32"), self.values((33,), "f32", 2)
        wide = x.astype(F64)
        y, mean, inverse = self.run_op("op=native_layer_norm(x, w, b)", [x, w, w], 3)
        self.assert_near(y, layer_norm(wide, w, w), "f32", 8, 33)
        self.assert_near(mean, wide.mean(axis=-1), "f32")
        self.assert_near(inverse, 1 / np.sqrt(wide.var(axis=-1) + 1e-5), "f32", 4)
        most, where = self.run_op("op=(max(x), argmax(x)) keep=1", [x], 2)
        np.testing.assert_array_equal(most, kept(np.max, x))
        np.testing.assert_array_equal(where, x.argmax(axis=-1)[:, None])

    def check_scan(self, name, dtype, shape, axis, reverse, exclusive):
        x = self.values(shape, dtype)
        wide = widen(x, dtype).astype(F64) if dtype in UNIT else x.astype(np.int64)
        wide = np.flip(wide, axis) if reverse else wide
        want = SCANS[name](wide, axis)
        terms = np.maximum.accumulate(abs(want), axis) if name == "cumprod" else np.cumsum(abs(wide), axis)
        if exclusive:
            first, rest = np.split(want, [1], axis)[0], np.delete(want, -1, axis)
            want = np.concatenate([np.full_like(first, dict(cumsum=0, cumprod=1).get(name, 0)), rest], axis)
        want, terms = (np.flip(a, axis) if reverse else a for a in (want, terms))
        options = ("", ",reverse=1")[reverse] + ("", ",exclusive=1")[exclusive]
        got = self.run_op(f"op={name}(x{options}) axis={axis}", [x], dtype=dtype)
        result = dtype if dtype in UNIT else "i64"
        with self.subTest(name=name, dtype=dtype, shape=shape, axis=axis, options=options):
            self.assert_near(got, want, result, terms if dtype in UNIT and name not in ("cummax", "cummin") else 0,
                             shape[axis])

    def test_every_scan(self):
        for dtype in (*UNIT, "i8", "i32", "i64", "u8", "bool"):
            for shape, axis in (((3, 1), 1), ((5, 17), 1), ((2, 1000), -1), ((17, 5), 0), ((3, 70, 33), 1)):
                for name in SCANS:
                    if (name, len(shape)) == ("cumprod", 3) or (name, shape) == ("cumprod", (2, 1000)):
                        continue
                    self.check_scan(name, dtype, shape, axis, shape[-1] == 17, False)
        for dtype in ("f32", "bf16", "i32"):
            for name in ("cumsum", "cumprod"):
                self.check_scan(name, dtype, (3, 20), 1, False, True)
                self.check_scan(name, dtype, (20, 3), 0, True, True)
        self.check_scan("cumsum", "f32", (2, 70001), 1, False, False)
        self.check_scan("cumsum", "f32", (70001, 2), 0, True, False)

    def test_scans_beside_other_values(self):
        x, w = self.values((6, 33), "f32"), self.values((33,), "f32", 2)
        wide, row = x.astype(F64), w.astype(F64)
        scan, total, both = self.run_op("op=(cumsum(x * y), sum(x * y), cumsum(x - mean(x)) * y)", [x, w], 3)
        self.assert_near(scan, (wide * row).cumsum(axis=1), "f32", 30, 33)
        self.assert_near(total, (wide * row).sum(axis=1), "f32", 30, 33)
        self.assert_near(both, (wide - kept(np.mean, wide)).cumsum(axis=1) * row, "f32", 60, 33)
        part = self.run_op("op=cumsum(x) / sum(x)", [abs(x)], options=["--verify"])
        self.assert_near(part, abs(wide).cumsum(axis=1) / kept(np.sum, abs(wide)), "f32", 4, 33)
        share = self.run_op("op=share(x)", [abs(x)], options=["--define-op", "share(x; a=1) = a * cumsum(x) / sum(x)"])
        self.assert_near(share, part.astype(F64), "f32", 4, 33)
        path = self.save("x.npy", x)
        self.kiln("run", "op=cumsum(x)", "--in", path, "--out", path)
        self.assert_near(np.load(path), wide.cumsum(axis=1), "f32", 30, 33)
        first = self.run_op("op=(cummax(x,exclusive=1),cummin(x,exclusive=1))", [np.array([[3, 4]], dtype=np.int8)], 2)
        self.assertEqual([a.tolist() for a in first], [[[-128, 3]], [[127, 3]]])
        special = np.array([[1, np.nan, 3], [-np.inf, np.inf, 2]], dtype=np.float32)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(self.run_op("op=cumsum(x)", [special]), special.cumsum(axis=1))
        np.testing.assert_array_equal(self.run_op("op=cummax(x)", [special]), np.maximum.accumulate(special, 1))
        empty = np.zeros((2, 0), dtype=np.float32)
        np.testing.assert_array_equal(self.run_op("op=cumsum(x)", [empty]), empty)

    def test_few_long_rows(self):
        """The cores share a row: template split. All walks, the scans and the results have parts of it."""
        shape = (3, 600001)
        told = json.loads(self.kiln("run", "op=sum(x)", "--in", self.save("x.npy", self.values(shape, "f32")), "--out",
                                    self.path("out.npy"), "--json").stdout)
        self.assertIn("template=split", told["spec"])
        names = [name for name in REDUCTIONS if name != "prod"]
        for dtype in ("f32", "bf16", "f64", "i16", "bool"):
            fitting = [name for name in names if dtype in UNIT or name != "logsumexp"]
            self.check_reductions(dtype, shape, fitting[:6])
            self.check_reductions(dtype, shape, fitting[6:])
        for name, dtype, reverse, exclusive in (("cumsum", "f32", False, True), ("cumsum", "i32", True, False),
                                                ("cummax", "f64", False, False)):
            self.check_scan(name, dtype, shape, 1, reverse, exclusive)
        x, w, c = self.values(shape, "f32"), self.values(shape[1:], "f32", 2), self.values((3, 1), "f32", 3)
        path = self.save("x.npy", x)
        self.kiln("run", "op=softmax", "--in", path, "--out", path, "--verify")
        self.assert_near(np.load(path), softmax(x.astype(F64)), "f32")
        scan, y, most = self.run_op("op=(cumsum(softmax(x)), (x - mean(x)) * w + c, max(x))", [x, w, c], 3)
        wide = x.astype(F64)
        self.assert_near(scan, softmax(wide).cumsum(axis=1), "f32", 1, shape[1])
        self.assert_near(y, (wide - kept(np.mean, wide)) * w + c, "f32", 8)
        np.testing.assert_array_equal(most, x.max(axis=1))
        x[1, 400000] = np.nan
        self.assertEqual(self.run_op("op=argmax(x)", [x])[1], 400000)

    def test_an_op_of_which_the_arguments_decide_a_part(self):
        x = self.values((3, 5), "f32")
        wide = x.astype(F64)
        for op, text, want in (("center(x, on=0)", "center(x; on=1) = on == 0 ? x : x - mean(x)", wide),
                               ("center(x)", "center(x; on=1) = on == 0 ? x : x - mean(x)", wide - kept(np.mean, wide)),
                               ("ramp(x)", "ramp(x; n=0) = n == 0 ? x * index : x * index / sum(x)", wide * np.arange(5)),
                               ("part(x, 2)", "part(x; n=0) = n == 2 ? sum(x) : n == 1 ? mean(x) : max(x)", wide.sum(axis=1)),
                               ("part(x)", "part(x; n=0) = n == 2 ? sum(x) : n == 1 ? mean(x) : max(x)", wide.max(axis=1))):
            with self.subTest(op=op):
                self.assert_near(self.run_op("op=" + op, [x], options=["--define-op", text]), want, "f32", 5)

    def test_losses(self):
        x, y = self.values((6, 50), "f32"), self.values((6, 50), "f32", 2)
        t = np.array([[3], [0], [49], [-100], [7], [7]])
        wide, other = x.astype(F64), y.astype(F64)
        self.assert_near(self.run_op("op=cross_entropy(x, t) dtype=(f32,i64)", [x, t], options=["--verify"]),
                         cross_entropy(wide, t), "f32", 4, 50)
        self.assert_near(self.run_op("op=cross_entropy(x, t, label_smoothing=0.1) dtype=(f32,i64)", [x, t]),
                         cross_entropy(wide, t, 0.1), "f32", 4, 50)
        square, classes = x[:, :6].copy(), np.array([5, 0, 3, 1, -100, 2])
        for axis, shape in ((-1, (6,)), (-1, (6, 1)), (0, (6,)), (0, (1, 6))):
            got = self.run_op(f"op=cross_entropy(x, t) dtype=(f32,i64) axis={axis}", [square, classes.reshape(shape)])
            self.assert_near(got, cross_entropy(np.moveaxis(square, axis, -1).astype(F64), classes[:, None]), "f32", 4, 50)
        cube, of_matrix = x[:, :48].reshape(2, 3, 48), np.array([[[3], [0], [7]]])  # one class for both matrices
        got = self.run_op("op=cross_entropy(x, t) dtype=(f32,i64)", [cube, of_matrix])
        self.assert_near(got, cross_entropy(cube.reshape(6, 48).astype(F64), np.tile(of_matrix.reshape(3, 1), (2, 1))).reshape(2, 3),
                         "f32", 4, 50)
        infinite = np.array([[np.inf, 0, 1], [-np.inf, 0, 1], [-np.inf, -np.inf, -np.inf]], dtype=np.float32)
        loss = self.run_op("op=cross_entropy(x, t) dtype=(f32,i64)", [infinite, np.array([[1], [2], [0]])])
        self.assertEqual(np.isnan(loss).tolist(), [True, False, True])
        squares = (wide - other) ** 2
        self.assert_near(self.run_op("op=mean(mse_loss(x, y)) axis=all", [x, y]), squares.mean(), "f32", 2)
        self.assert_near(self.run_op("op=sum(l1_loss(x, y)) axis=all", [x, y]), abs(wide - other).sum(), "f32", 20, 300)
        x[:, 1] = -np.inf
        want = cross_entropy(np.delete(wide, 1, axis=1), t - (t > 1))
        self.assert_near(self.run_op("op=cross_entropy(x, t) dtype=(f32,i64)", [x, t]), want, "f32", 4, 50)
        small = narrow(wide[:, 2:].astype(np.float32), "bf16")
        want = cross_entropy(widen(small, "bf16").astype(F64), t - 2 * (t > 0))
        got = self.run_op("op=cross_entropy(x, t) dtype=(bf16,i64)", [small, t - 2 * (t > 0)])
        self.assert_near(got, want, "bf16", 4, 50)

    def test_gradients(self):
        x, grad, w, b = (self.values((4, 7), "f64", seed) for seed in range(4))
        w, b, column = w[0], b[0], grad[:, :1].copy()
        t = np.array([[3], [-100], [0], [6]])
        mean, inverse = kept(np.mean, x), 1 / np.sqrt(kept(np.var, x) + 1e-5)
        rms = 1 / np.sqrt(kept(np.mean, x * x) + 1e-5)
        _, given = self.run_op("op=fused_rms_norm(x, w, eps=1e-5)", [x, w], 2)
        self.assert_near(given, rms[:, 0], "f64", 4)
        for text, inputs, want in (
                ("softmax_backward", (grad, softmax(x)), gradient(softmax, x, grad)),
                ("log_softmax_backward", (grad, np.log(softmax(x))), gradient(lambda v: np.log(softmax(v)), x, grad)),
                ("layer_norm_backward", (grad, x, mean, inverse, w), gradient(lambda v: layer_norm(v, w, b), x, grad)),
                ("layer_norm_weight_backward axis=0", (grad, x, mean, inverse),
                 (gradient(lambda v: layer_norm(x, v, b), w, grad), gradient(lambda v: layer_norm(x, w, v), b, grad))),
                ("rms_norm_backward", (grad, x, rms, w), gradient(lambda v: rms_norm(v, w), x, grad)),
                ("rms_norm_weight_backward axis=0", (grad, x, rms), gradient(lambda v: rms_norm(x, v), w, grad)),
                ("cross_entropy_backward dtype=(f64,f64,i64)", (column, x, t),
                 gradient(lambda v: cross_entropy(v, t)[:, None], x, column)),
                ("cross_entropy_backward(g, x, t, label_smoothing=0.2) dtype=(f64,f64,i64)", (column, x, t),
                 gradient(lambda v: cross_entropy(v, t, 0.2)[:, None], x, column))):
            with self.subTest(text=text):
                wants = want if isinstance(want, tuple) else (want,)
                got = self.run_op("op=" + text, inputs, len(wants))
                for array, wanted in zip((got,) if len(wants) == 1 else got, wants):
                    np.testing.assert_allclose(array, wanted, rtol=1e-7, atol=1e-8)

    def test_special_values(self):
        inf, nan = np.inf, np.nan
        x = np.array([[1, nan, 3], [inf, 2, nan], [-inf, -inf, -inf], [inf, 1, inf], [-0.0, 0.0, -0.0]], dtype=np.float32)
        with np.errstate(invalid="ignore"):
            want = {"max": x.max(axis=1), "min": x.min(axis=1), "argmax": [1, 2, 0, 0, 0], "argmin": [1, 2, 0, 1, 0],
                    "sum": x.sum(axis=1), "logsumexp": [nan, nan, -inf, inf, np.log(3)], "any": [1, 1, 1, 1, 0],
                    "all": [1, 1, 1, 1, 0]}
        got = self.run_op("op=(" + ",".join(f"{name}(x)" for name in want) + ")", [x], len(want))
        for name, array in zip(want, got):
            np.testing.assert_allclose(array, want[name], rtol=1e-6, err_msg=name)
        self.assert_near(self.run_op("op=softmax", [x]), np.where([[1]] * 4 + [[0]], nan, 1 / 3) * np.ones((5, 3)), "f32")
        large = np.array([[1e4, 1e4, -1e4]], dtype=np.float32)
        self.assert_near(self.run_op("op=softmax", [large]), [[0.5, 0.5, 0]], "f32")
        self.assert_near(self.run_op("op=logsumexp(x)", [large]), [1e4 + np.log(2)], "f32")

    def test_equal_elements(self):
        """The variance of equal elements is 0, and their mean beside a variance is the element, which mean(x) alone is not."""
        x = np.repeat(self.values((500, 1), "f32"), 1000, axis=1)
        deviation, unbiased, mean = self.run_op("op=(std(x), var(x, correction=1), mean(x))", [x], 3)
        np.testing.assert_array_equal(deviation, np.zeros(500))
        np.testing.assert_array_equal(unbiased, np.zeros(500))
        np.testing.assert_array_equal(mean, x[:, 0])
        self.assertTrue((self.run_op("op=mean(x)", [x]) != mean).any())
        weights = [self.values((1000,), "f32") for _ in range(2)]
        result = self.run_op("op=layer_norm", [x, *weights])
        np.testing.assert_array_equal(result, np.broadcast_to(weights[1], x.shape))

    def test_a_variance_that_overflows(self):
        large = self.values((50, 1000), "f32") * np.float32(1e28)
        np.testing.assert_array_equal(self.run_op("op=std(x)", [large]), np.full(50, np.inf))

    def test_nothing(self):
        empty = np.zeros((2, 0), dtype=np.float32)
        results = {"sum": 0, "prod": 1, "mean": np.nan, "max": -np.inf, "min": np.inf, "any": 0, "all": 1, "norm": 0}
        got = self.run_op("op=(" + ",".join(f"{name}(x)" for name in results) + ")", [empty], len(results))
        for array, want in zip(got, results.values()):
            np.testing.assert_array_equal(array, np.full(2, want))
        np.testing.assert_array_equal(self.run_op("op=softmax", [empty]), empty)
        np.testing.assert_array_equal(self.run_op("op=sum(x)", [np.zeros((0, 4), dtype=np.float32)]), np.zeros(0))
        np.testing.assert_array_equal(self.run_op("op=sum(x)", [np.array(3, dtype=np.float32)]), 3)

    def test_rounding_at_each_step_and_scalars(self):
        x = self.values((4, 50), "f16")
        got = self.run_op("op=x - max(x) * ?by round=eager", [x], options=["--arg", "by=0.3"])
        step = (x.max(axis=1, keepdims=True).astype(np.float32) * np.float32(0.3)).astype(np.float16)
        np.testing.assert_array_equal(got, x - step)
        wide = x.astype(F64)
        want = (wide * np.arange(50)).sum(axis=1)
        self.assert_near(self.run_op("op=sum(x * index)", [x]), want, "f16", 2000, 50)

    def test_in_place(self):
        x = self.values((40, 300), "f32")
        path = self.save("x.npy", x)
        self.kiln("run", "op=softmax", "--in", path, "--out", path, "--verify")
        self.assert_near(np.load(path), softmax(x.astype(F64)), "f32")

    def test_builds_for_gpus(self):
        """Each template that reduces, with the folds of all kinds, in CUDA."""
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        texts = ("(sum(x),argmax(x),any(x))", "softmax(x*y)", "softmax(x*?by)", "native_layer_norm layout=(full,row,row)",
                 "(logsumexp(x),std(x))", "(logsumexp(x > 0),max(x + x))",
                 "cross_entropy_backward(g,x,t) layout=(column,full,column)", "(cumsum(x),cummax(x,exclusive=1),max(x))",
                 "cumprod(x-mean(x),reverse=1)")
        lines = [f"op={text} template={template} dtype={dtype} n={n}" for text in texts
                 for template, dtype, n in (("rows", "f16,i32", "1000x300"), ("rows", "bf16", "10x100000"),
                                            ("cluster", "f32", "10x100000"), ("split", "f32,u8", "1x1000000"),
                                            ("columns", "f32,f64", "1000x300"))
                 if "cum" not in text or template != "cluster"]
        lines += ["op=(cumsum(x),cumsum(x*x),cumprod(x)) " + rest for rest in
                  ("template=columns dtype=i32 n=65536x1024", "dtype=u8,f64 n=1x10000000", "dtype=u8 n=10000x1000")]
        self.kiln("warm", *lines, "--target", "sm_90")
        self.kiln("warm", *[line for line in lines if "cluster" not in line][::5], "--target", "sm_80")

    def test_bad_input(self):
        x = self.save("x.npy", self.values((3, 4, 5), "f32"))
        out = self.path("out.npy")
        for spec, option, words in (("op=sum(x) axis=0", "--axis=1", "the spec has axis=0, and --axis is given"),
                                    ("op=sum(x) keep=0", "--keep", "the spec has keep=0, and --keep is given"),
                                    ("op=softmax layout=(row)", "--axis=-1",
                                     "the shapes of the inputs give layout=(full): leave layout=(row) out")):
            with self.subTest(spec=spec):
                self.assert_bad(["run", spec, option, "--in", x, "--out", out], words)
        self.assert_bad(["run", "op=cross_entropy", "--in", x, "--in", self.save("t.npy", np.arange(5)), "--out", out],
                        "cross_entropy takes a column as t, of one element for each row")
        for spec, words in (("op=sum(x) axis=1 template=rows", "template rows takes an axis that is not followed by"),
                            ("op=sum(x) template=columns", "template columns takes an axis that is followed by"),
                            ("op=sum(x) axis=3", "none of the 3 dimensions"),
                            ("op=sum(x) axis=-4", "none of the 3 dimensions"), ("op=max", "'max' reduces an array: write max(x)"),
                            ("op=relu axis=0", "axis and keep are for ops that reduce or scan an axis"),
                            ("op=sum(x) axis=(0,2)", "neighbours such as (1,2)")):
            with self.subTest(spec=spec):
                self.assert_bad(["run", spec, "--in", x, "--out", out], words)


if __name__ == "__main__":
    unittest.main()
