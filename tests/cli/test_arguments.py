"""Templates with arguments of their own: tuned, swept and watched at named sizes, and refused in one line."""

import os
import unittest

from support import FAKE_LIBCUDA, compiler_builds_for_gpus
from test_watch import Watching, example

SIZES = ("--size", "rows=129", "--size", "cols=2^8")
AXPY = """//! template axpy
//! size     n
//! param    block 32..1024 step 32 = 64
//! tune     block 64,128
//! arg      y     inout f32[n]
//! arg      x     in f32[n]
//! arg      alpha float
//! arg      n     uint64 = n
//! traffic  3 * n * bytes
//! grid     (n + block - 1) / block
//! entry    axpy align 4
extern "C" __global__ void axpy(float *y, const float *x, float alpha, unsigned long long n)
{
    unsigned long long i = blockIdx.x * (unsigned long long)KILN_BLOCK + threadIdx.x;
    if (i < n)
        y[i] = __fadd_rn(__fmul_rn(alpha, x[i]), y[i]);
}
"""
AXPY_TWIN = """__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args);
void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    float *y = *(float *const *)args[0], alpha = *(const float *)args[2];
    const float *x = *(const float *const *)args[1];
    const unsigned long long n = *(const unsigned long long *)args[3];
    for (unsigned long long i = begin * KILN_BLOCK; i < end * KILN_BLOCK && i < n; i++)
        y[i] = alpha * x[i] + y[i];
}
"""
PAIR = """//! template pair
//! dtype    f64
//! size     n
//! arg      out out dtype[n] inplace
//! arg      x   in dtype[n]
//! arg      y   in dtype[n]
//! arg      n   uint64 = n
//! param    block 32..1024 step 32 = 64
//! tile     block
//! grid     (n + tile - 1) / tile
//! entry    pair align 8
extern "C" __global__ void pair(double *out, const double *x, const double *y, unsigned long long n) {}
"""
PAIR_TWIN = """__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args);
void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    double *out = *(double *const *)args[0];
    const double *x = *(const double *const *)args[1], *y = *(const double *const *)args[2];
    const unsigned long long n = *(const unsigned long long *)args[3];
    for (unsigned long long i = begin * KILN_TILE; i < end * KILN_TILE && i < n; i++)
        out[i] = x[i] + y[i];
}
"""
TWICE = """//! template twice
//! dtype    f32, f64
//! size     n
//! arg      out out f64[n]
//! arg      x   in dtype[n]
//! arg      n   uint64 = n
//! param    block 32..1024 step 32 = 64
//! tile     block
//! grid     (n + tile - 1) / tile
//! entry    twice align 4
"""
TWICE_TWIN = """#ifdef KILN_DTYPE_F64
typedef double real;
#else
typedef float real;
#endif
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args);
void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    double *out = *(double *const *)args[0];
    const real *x = *(const real *const *)args[1];
    const unsigned long long n = *(const unsigned long long *)args[2];
    for (unsigned long long i = begin * KILN_TILE; i < end * KILN_TILE && i < n; i++)
        out[i] = 2 * x[i];
}
"""
TURN_TWIN = TWICE_TWIN.replace("double *out = *(double", "real *out = *(real").replace("2 * x[i]", "x[n - 1 - i]")


class Arguments(Watching):
    def setUp(self):
        super().setUp()
        self.transpose = self.write("transpose.cu", example("transpose.cu"))
        self.write("transpose.c", example("transpose.c"))
        self.axpy = self.write("axpy.cu", AXPY)
        self.write("axpy.c", AXPY_TWIN)


class Tune(Arguments):
    def test_the_transpose_is_tuned(self):
        result = self.kiln_json("tune", self.transpose, *SIZES, "--hot", "--budget", "8")["results"][0]
        self.assertEqual((result["elements"], result["bytes"]), (129 * 256, 2 * 4 * 129 * 256))
        self.assertEqual((result["variants"], result["out"]), (8, 0))
        self.assertEqual((result["sizes"], result["args"]), ({"rows": 129, "cols": 256}, {}))
        self.assertEqual(result["against"], "the default variant")
        self.assertEqual(result["variant_results"][0]["verdict"], "winner")

    def test_numbers_reach_the_process_that_tunes(self):
        args = ("tune", f"template={self.axpy}", "--size", "n=5000", "--arg", "alpha=0.5", "--hot", "--budget", "4")
        for box in ("--sandbox", "--no-sandbox"):
            result = self.kiln_json(*args, box)["results"][0]
            self.assertEqual((result["sizes"], result["args"]), ({"n": 5000}, {"alpha": "0.5"}))
            self.assertEqual((result["bytes"], result["out"]), (3 * 4 * 5000, 0))
        text = self.kiln(*args, "--csv", self.path("a.csv"), "--plot", self.path("a.svg")).stdout
        self.assertIn("n=5000; alpha=0.5; results agree with the default variant", text)
        with open(self.path("a.svg"), encoding="utf-8") as file:
            self.assertIn(">axpy f32: speed by geometry<", file.read())

    def test_arrays_of_one_size_have_a_plot_too(self):
        text = AXPY.replace("axpy", "fixed").replace("//! size     n\n", "").replace("[n]", "[4096]").replace("= n\n", "= 4096\n")
        self.write("fixed.cu", text.replace("3 * n *", "3 * 4096 *").replace("(n + block", "(4096 + block"))
        self.write("fixed.c", AXPY_TWIN)
        self.kiln("tune", self.path("fixed.cu"), "--arg", "alpha=2", "--hot", "--budget", "2", "--plot", self.path("f.svg"))
        with open(self.path("f.svg"), encoding="utf-8") as file:
            self.assertIn(">fixed f32: speed by geometry<", file.read())

    def test_bad_input(self):
        for command in ("tune", "sweep", "bench"):
            self.assert_bad((command, self.transpose), "rows is not given", "--size rows=N --size cols=N")
            self.assert_bad((command, self.transpose, "--size", "rows=5"), "cols is not given")
            self.assert_bad((command, self.transpose, "--size", "2^20"), "rows is not given")
            self.assert_bad((command, self.transpose, *SIZES, "--size", "depth=3"), "depth=3")
            self.assert_bad((command, self.transpose, *SIZES, "--size", "5"), "--size")
            self.assert_bad((command, self.transpose, *SIZES, "--size", "rows=3"), "--size rows is given twice")
            self.assert_bad((command, self.transpose, "--size", "rows=many", "--size", "cols=3"), "rows=many")
            self.assert_bad((command, self.transpose, *SIZES, "--arg", "alpha=1"), "--arg")
            self.assert_bad((command, self.axpy, "--size", "n=9"), "argument alpha", "--arg alpha=VALUE")
            self.assert_bad((command, self.axpy, "--size", "n=9", "--arg", "alpha=x"), "VALUE that is one")
            self.assert_bad((command, "op=relu6", "--size", "rows=5"), "--size rows=5")
            self.assert_bad((command, "op=relu6", "--size", "5", "--size", "6"), "given twice")
            self.assert_bad((command, "op=relu6", "--size", "5", "--arg", "alpha=6"), "--arg alpha=6")

    def test_a_sweep(self):
        line = f"template={self.transpose} tile=16,32 target=cpu"
        result = self.kiln_json("sweep", line, *SIZES, "--hot", "--rounds", "3")["results"][0]
        self.assertEqual((result["elements"], result["variants"], result["out"]), (129 * 256, 6, 0))
        self.assertEqual(result["against"], "the default variant")
        self.assertGreater(result["ceiling_ms"], 0)

    def test_run_takes_sizes_too(self):
        import numpy as np
        self.write("ramp.cu", AXPY.replace("axpy", "ramp").replace("y     inout", "y     out").replace("f32[n]\n//! arg      alpha",
                   "f32[1]\n//! arg      alpha"))
        self.write("ramp.c", AXPY_TWIN.replace("alpha * x[i] + y[i]", "alpha * (float)i + x[0]"))
        args = ("run", f"template={self.path('ramp.cu')}", "--in", self.save("x.npy", np.ones(1, "f4")), "--out",
                self.path("y.npy"), "--arg", "alpha=0.5")
        self.kiln(*args, "--size", "n=5")
        self.assertEqual(np.load(self.path("y.npy")).tolist(), [1, 1.5, 2, 2.5, 3])
        self.assert_bad(args, "size n is the extent of no input: give --size n=N")
        self.assert_bad((*args, "--size", "n=5", "--size", "m=5"), "--size m=5: the template declares no such size")


class Bench(Arguments):
    def test_named_sizes(self):
        result = self.kiln_json("bench", self.transpose, "height=4,8", *SIZES, "--rounds", "3")
        for row in result["results"]:  # they share arrays, and are timed in the same rounds
            self.assertEqual((row["elements"], row["bytes"], row["group"]), (129 * 256, 2 * 4 * 129 * 256, 0))
            self.assertEqual((row["sizes"], row["args"], row["against"]), ({"rows": 129, "cols": 256}, {}, "a second launch"))
        self.assertEqual([row["bytes"] for row in result["ceilings"]], [2 * 4 * 129 * 256] * 2)
        table = self.kiln("bench", self.transpose, *SIZES, "--rounds", "2", "--csv", self.path("t.csv")).stdout
        self.assertRegex(table, r"rows=129 cols=256, 33024 elements, .* read and written")
        self.assertRegex(table, r"(?m)^transpose +f32 +tile=32 height=8 .* same twice ")
        with open(self.path("t.csv"), encoding="utf-8") as file:
            self.assertIn(",transpose,f32,33024,264192,", file.read())
        table = self.kiln("bench", self.transpose, *SIZES, "--rounds", "2", "--no-verify").stdout
        self.assertRegex(table, r"(?m)^transpose .* skipped ")

    def test_other_shapes_are_another_group(self):
        rows = self.kiln_json("bench", "template=rowsum op=copy,mul(x,y)", self.transpose, *SIZES, "--rounds", "2")["results"]
        self.assertEqual([row["group"] for row in rows], [0, 1, 2])

    def test_numbers(self):
        args = ("bench", self.axpy, "--size", "n=5000", "--rounds", "2")
        row = self.kiln_json(*args, "--arg", "alpha=0.5")["results"][0]
        self.assertEqual((row["sizes"], row["args"], row["bytes"]), ({"n": 5000}, {"alpha": "0.5"}, 3 * 4 * 5000))
        self.assert_bad(args, "argument alpha", "--arg alpha=VALUE")

    def test_a_template_without_an_op_has_a_row_for_each_size(self):
        path = self.write("turn.cu", TWICE.replace("twice", "turn").replace("out f64[n]", "out dtype[n]"))
        self.write("turn.c", TURN_TWIN)
        table = self.kiln("bench", path, "--size", "1k,4k", "--rounds", "2").stdout
        self.assertRegex(table, r"(?m)^2\^10 +turn .*\n2\^10 +\((memory copy|copy kernel)\).*\n2\^12 +turn ")


class OneSize(Arguments):
    """Templates of one size, which is the extent of all arrays, but not such as Kiln's own."""

    def test_arrays_of_two_types(self):
        import numpy as np
        self.write("twice.c", TWICE_TWIN)
        path = self.write("twice.cu", TWICE)
        for dtype in ("f4", "f8"):
            x = np.linspace(-5, 8, 1003).astype(dtype)
            self.kiln("run", f"template={path}", "--in", self.save("x.npy", x), "--out", self.path("y.npy"))
            result = np.load(self.path("y.npy"))
            self.assertEqual(result.dtype, np.float64)
            self.assertTrue((result == 2 * x.astype("f8")).all())
        result = self.kiln_json("sweep", f"template={path} target=cpu block=64", "--size", "5000", "--rounds", "2")["results"][0]
        self.assertEqual((result["bytes"], result["out"]), (5000 * 12, 0))
        row = self.kiln_json("watch", path, "--once", "--size", "n=5000")["rows"][0]
        self.assertEqual((row["verified"], row["other_arguments"]), ("same twice", False))
        result = self.kiln_json("bench", path, "--size", "4k,5000", "--rounds", "2")["results"]
        self.assertEqual([(row["elements"], row["bytes"], row["against"]) for row in result],
                         [(n, n * 12, "a second launch") for n in (4096, 5000)])

    def test_two_outputs(self):
        import numpy as np
        path = self.write("twice.cu", TWICE.replace("//! arg      x ", "//! arg      more out f64[n]\n//! arg      x "))
        self.write("twice.c", TWICE_TWIN.replace("args[2]", "args[3]").replace("args[1]", "args[2]").replace(
            "out[i] =", "(*(double *const *)args[1])[i] = out[i] ="))
        self.assert_bad(("run", f"template={path}", "--in", self.save("x.npy", np.ones(5, "f4")), "--out", self.path("y.npy")),
                        "writes 2 arrays")
        self.assertEqual(self.kiln_json("bench", path, "--size", "n=5000", "--rounds", "2")["results"][0]["bytes"], 5000 * 20)
        self.assertEqual(self.kiln_json("watch", path, "--once", "--size", "5000")["rows"][0]["verified"], "same twice")

    def test_elements_that_come_from_elsewhere(self):
        """More than is compared at once of an elementwise kernel."""
        import numpy as np
        path = self.write("turn.cu", TWICE.replace("twice", "turn").replace("out f64[n]", "out dtype[n]"))
        self.write("turn.c", TURN_TWIN)
        x = np.arange(17 << 20, dtype="f4")
        self.kiln("run", f"template={path}", "--in", self.save("x.npy", x), "--out", self.path("y.npy"), "--verify")
        self.assertTrue((np.load(self.path("y.npy")) == x[::-1]).all())

    def test_a_comparison(self):
        spec = "template=compare dtype=f32 target=cpu block=1024 elems=64"
        bounds = ("--arg", "ulp=2", "--arg", "relative=0", "--arg", "absolute=0.5")
        result = self.kiln_json("sweep", spec, "--size", "n=5000", *bounds, "--rounds", "2")["results"][0]
        self.assertEqual((result["elements"], result["out"]), (5000, 0))
        for command in ("bench", "sweep"):
            self.assert_bad((command, spec, "--size", "5000", *bounds), "template compare", "n is not given: expected --size n=N")


class Watch(Arguments):
    def test_sizes_are_what_it_takes(self):
        row = self.kiln_json("watch", self.transpose, "--once", *SIZES)["rows"][0]
        self.assertEqual((row["verified"], row["ms_old"]), ("same twice", None))
        self.assertGreater(row["ms"], 0)
        self.assertGreater(row["of_copy"], 0)
        row = self.kiln_json("watch", self.transpose, "--once")["rows"][0]
        self.assertEqual((row["verified"], row["ms"]), ("not run: no --size", None))
        round = self.kiln_json("watch", self.transpose, "--once", "--size", "rows=4", status=2)
        self.assertIn("cols is not given", round["messages"])

    def test_old_kernels_run_on_the_same_arguments_only(self):
        self.watch(self.axpy, "--size", "n=5000", "--arg", "alpha=2")
        first = self.next_round("good")["rows"][0]
        self.assertEqual((first["other_arguments"], first["change"]), (False, None))

        self.write("axpy.c", AXPY_TWIN.replace("i < n; i++", "i < n; ++i"))
        row = self.next_round("good")["rows"][0]
        self.assertEqual(row["other_arguments"], False)
        self.assertGreater(row["ms_old"], 0)
        self.assertLessEqual(row["change_low"], row["change_high"])

        self.write("axpy.c", AXPY_TWIN.replace("y[i] = alpha * x[i] + y[i]", "y[i] = alpha * x[i / 4] + y[i]"))
        last = self.next_round("good")["rows"][0]
        self.save_by_rename("axpy.cu", AXPY.replace("x     in f32[n]", "x     in f32[(n + 3) / 4]"))
        row = self.next_round("good")["rows"][0]
        self.assertEqual((row["other_arguments"], row["ms_old"], row["change"]), (True, last["ms"], None))
        self.interrupt()

    def test_fewer_inputs_of_another_type(self):
        path = self.write("pair.cu", PAIR)
        self.write("pair.c", PAIR_TWIN)
        self.watch(path, "--size", "100000")
        first = self.next_round("good")["rows"][0]
        self.write("pair.c", PAIR_TWIN.replace("double", "float").replace("args[2]", "args[1]").replace("args[3]", "args[2]"))
        self.next_round("failed")  # the file beside it is still as it was
        self.save_by_rename("pair.cu", PAIR.replace("//! arg      y   in dtype[n]\n", "").replace("dtype    f64", "dtype    f32"))
        row = self.next_round("good")["rows"][0]
        self.assertEqual((row["other_arguments"], row["change"]), (True, None))
        self.assertGreater(row["ms_old"], 0)
        self.assertIn("dtype=f32", row["spec"])
        self.assertFalse(first["other_arguments"])
        self.interrupt()


@unittest.skipUnless(FAKE_LIBCUDA, "no stand-in driver")
class OnGpus(Arguments):
    """The stand-in driver computes relu6 for kernels of three parameters, and nothing for others."""

    device = None

    def setUp(self):
        super().setUp()
        if os.environ.get("KILN_SANITIZE") == "thread":
            self.skipTest("ThreadSanitizer does not see the locks inside NVRTC")
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        self.env.update(KILN_LIBCUDA=FAKE_LIBCUDA, KILN_FAKE_CUDA="relu6=1")

    def relu6(self, value, shape):
        """A template that takes a number of elements, with the shape "n", or one that does not, with another."""
        text = AXPY.replace("axpy", "relu").replace("x     in f32[n]", f"x     in f32[{shape}]").replace("//! arg      alpha float\n", "").replace("inout", "out").replace(
            ", float alpha", "").replace("__fadd_rn(__fmul_rn(alpha, x[i]), y[i])", "x[i]")
        self.write("relu.cu", text)
        self.write("relu.c", AXPY_TWIN.replace(", alpha = *(const float *)args[2]", "").replace("args[3]", "args[2]").replace(
            "alpha * x[i] + y[i]", value))
        return self.path("relu.cu")

    def test_results_agree_with_the_twin(self):
        for shape in ("n", "max(n, 1)"):
            with self.subTest(shape):
                path = self.relu6("x[i] > 0 ? x[i] < 6 ? x[i] : 6 : 0", shape)
                result = self.kiln_json("tune", path, "--size", "n=5000", "--hot", "--budget", "2")["results"][0]
                self.assertEqual((result["against"], result["out"]), ("the cpu twin", 0))
                self.assertEqual(self.kiln_json("watch", path, "--once", "--size", "n=5000")["rows"][0]["verified"], "yes")

    def test_a_kernel_that_computes_something_else(self):
        for shape in ("n", "max(n, 1)"):
            with self.subTest(shape):
                path = self.relu6("x[i]", shape)
                result = self.kiln("tune", path, "--size", "n=5000", "--hot", "--budget", "2", status=1)
                self.assertIn("is not equal to the cpu twin", result.stderr)
                self.assertIn("not equal to the cpu twin",
                              self.kiln_json("watch", path, "--once", "--size", "n=5000", status=1)["messages"])


if __name__ == "__main__":
    unittest.main()
