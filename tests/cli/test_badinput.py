"""Bad input: status 2, one line that names the culprit and the nearest valid choice, and nothing changed."""

import os
import resource
import shutil
import subprocess
import unittest

import numpy as np

from support import KilnTest, compiler_builds_for_gpus


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


class RunCase(KilnTest):
    """`kiln run` that must fail and leave an old output file as it was."""

    def setUp(self):
        super().setUp()
        self.x = np.linspace(-5, 5, 1000, dtype=np.float32)
        self.input = self.save("x.npy", self.x)
        self.out = self.path("y.npy")
        with open(self.out, "wb") as file:
            file.write(b"old")

    def tearDown(self):
        with open(self.out, "rb") as file:
            self.assertEqual(file.read(), b"old")
        self.assertEqual([name for name in os.listdir(self.dir) if name.endswith(".tmp")], [])

    def bad(self, spec, inputs, *words, out=None, **options):
        args = ["run", spec]
        for path in inputs:
            args += ["--in", path]
        return self.assert_bad(args + ["--out", out or self.out], *words, **options)


class Specs(RunCase):
    def test_unknown_op(self):
        self.bad("op=hardsigmod", [self.input], "hardsigmod", "hardsigmoid")
        self.bad("op=tanhh", [self.input], "tanhh", "did you mean tanh?")
        for other in ("swish", "clap", "gemm", "matmul", "dropout", "softmin"):  # no slips of Kiln's ops
            self.assertNotIn("did you mean", self.bad(f"op={other}", [self.input], other, "--define-op"))
        self.bad("op=hardsigmoid(ad(x,y))", [self.input, self.input], "ad", "add")

    def test_wrong_number_of_inputs(self):
        self.bad("op=add", [self.input], "add", "2", "1")
        self.bad("op=hardsigmoid", [self.input, self.input], "hardsigmoid", "1", "2")
        self.bad("op=hardsigmoid(add(x))", [self.input], "add")

    def test_wrong_number_of_parameters(self):
        self.bad("op=hardtanh(-1,1,2)", [self.input], "hardtanh", "2", "3")
        self.bad("op=relu6(1)", [self.input], "relu6")

    def test_geometry(self):
        self.bad("op=hardsigmoid elems=3 vector=2", [self.input], "elems", "nearest: elems=2, elems=4 or vector=1")
        self.bad("op=hardsigmoid block=100", [self.input], "block", "100", "32", "96")
        self.bad("op=hardsigmoid block=2048", [self.input], "block", "2048", "1024")
        self.bad("op=hardsigmoid block=0", [self.input], "block")
        self.bad("op=hardsigmoid vector=3", [self.input], "vector", "3")
        self.bad("op=hardsigmoid blok=64", [self.input], "blok", "block")

    def test_unknown_dtype(self):
        self.bad("op=hardsigmoid dtype=f31", [self.input], "f31", "f32")
        for name, meant in (("float", "f32"), ("fp32", "f32"), ("half", "f16"), ("double", "f64"), ("bfloat16", "bf16")):
            self.bad(f"op=hardsigmoid dtype={name}", [self.input], name, f"did you mean {meant}?")

    def test_unknown_target(self):
        self.bad("op=hardsigmoid target=sn_90", [self.input], "sn_90", "sm_90")
        self.bad("op=hardsigmoid target=cpuu", [self.input], "cpuu", "cpu")

    def test_malformed(self):
        for spec in ("", "hardsigmoid", "op=", "op=hardtanh(-1,", "op=hardtanh(-1,1))", "op=hardsigmoid op=relu6"):
            with self.subTest(spec=spec):
                self.bad(spec, [self.input])

    def test_device(self):
        self.assert_bad(["run", "op=relu6", "--in", self.input, "--out", self.out, "--device", "gpu7"], "gpu7", "cuda:0")


class Files(KilnTest):
    def test_a_template_that_cannot_be_read(self):
        missing = self.path("none.cu")
        for args in (["show", f"template={missing}"], ["watch", missing, "--once"], ["templates", "--template", missing],
                     ["warm", "op=relu6 target=cpu", "--template", missing], ["warm", "--manifest", missing],
                     ["build", missing], ["tune", missing]):
            with self.subTest(args=args):
                self.assert_bad(args, missing, "No such file")

    def test_no_far_option_is_suggested(self):
        self.assertNotIn("did you mean", self.assert_bad(["run", "op=relu6", "--strict"], "unknown option --strict"))


class Temporaries(KilnTest):
    @unittest.skipUnless(shutil.which("objdump"), "no objdump")
    def test_no_place_for_a_temporary_file(self):
        result = self.kiln("show", "op=relu6 target=cpu", "--sass", "--cache-dir", "", status=1,
                           env=dict(self.env, TMPDIR=self.path("none")))
        self.assertEqual(result.stdout, "")
        self.assertIn(self.path("none"), result.stderr)


class WarmCase(KilnTest):
    def assert_nothing_compiled(self):
        kinds = self.kiln_json("cache", "stat")["kinds"]
        self.assertNotIn("kernel", kinds)


class Targets(WarmCase):
    def test_target_that_cannot_be_built(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        for target in ("sm_35", "sm_70", "sm_91", "sm_80a", "sm_90f"):
            with self.subTest(target=target):
                self.assert_bad(["show", f"op=relu6 target={target}", "--ptx"], target, "sm_")
                self.assert_bad(["warm", f"op=relu6 dtype=f32 target={target}"], target, "the nearest is sm_")
                self.assert_bad(["warm", "op=relu6", "--target", f"sm_90,{target}", "--json"], target)
        self.assert_nothing_compiled()
        self.assertEqual(self.kiln_json("warm", "op=relu6 target=sm_90,sm_90a")["compiled"], 2)


class WarmSpecs(WarmCase):
    """Specs that are wrong only once every field is known: nothing is compiled before they are found."""

    def test_constraint_of_an_open_field(self):
        self.assert_bad(["warm", "op=relu6 target=cpu", "op=relu6 vector=8 elems=8 target=sm_90"],
                        "vector=8 dtype=f32 target=sm_90", "nearest: vector=4")
        self.assert_nothing_compiled()

    def test_no_op(self):
        self.assert_bad(["warm", "op=relu6 target=cpu", "dtype=f32 target=cpu", "--json"], "no op")
        self.assert_nothing_compiled()

    def test_line_of_a_manifest(self):
        manifest = self.path("kernels.txt")
        with open(manifest, "w", encoding="utf-8") as file:
            file.write("op=relu6 target=cpu\n\nop=relu6 vector=16 target=sm_90\n")
        self.assert_bad(["warm", "-m", manifest], "kernels.txt:3: ", "vector=16")
        self.assert_nothing_compiled()


class Arrays(RunCase):
    def write(self, name, data):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def header(self, text, version=1, length=None):
        text = text.encode() + b"\n"
        size = (len(text) if length is None else length).to_bytes(2 if version == 1 else 4, "little")
        return b"\x93NUMPY" + bytes([version, 0]) + size + text

    def test_truncated(self):
        with open(self.input, "rb") as file:
            data = file.read()
        for length in (0, 3, 8, 9, 60, 128, 129, len(data) - 1):
            with self.subTest(length=length):
                path = self.write("short.npy", data[:length])
                self.bad("op=hardsigmoid", [path], "short.npy", "truncated" if length > 8 else "")

    def test_truncated_in_other_orders(self):
        x = np.asfortranarray(self.x.reshape(10, 100).astype(">f4"))
        with open(self.save("odd.npy", x), "rb") as file:
            data = file.read()[:-1]
        self.bad("op=hardsigmoid", [self.write("odd.npy", data)], "odd.npy", "data should have 4000 bytes and has 3999")
        reader, writer = os.pipe()
        os.write(writer, data)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            self.bad("op=hardsigmoid", ["-"], "standard input", "data should have 4000 bytes and has 3999", stdin=pipe)

    def test_trailing(self):
        with open(self.input, "rb") as file:
            self.bad("op=hardsigmoid", [self.write("long.npy", file.read() + b"x")], "long.npy", "1 bytes after")

    def test_order_and_types(self):
        grid = np.zeros((3, 4), np.float32)
        cases = {
            "has dtype >u2, and argument x is f32, in a file <f4; name dtype=bf16": grid.astype(">u2"),
            "has dtype >u4, and argument x is f32, in a file <f4": grid.astype(">u4"),
            "structured": np.zeros(3, dtype=[("a", "<f4"), ("b", "<f8", (2,))]),
            "objects": np.array([{}], dtype=object),
            "bf16": grid.astype(np.uint16),
            "has dtype <u4, and argument x is f32, in a file <f4": grid.astype(np.uint32),
            "has dtype <c8; expected <f2, <f4, <f8, |i1, <i2, <i4, <i8, |u1, |b1, <u2, <u4 or <u8, "
            "or one of them in big-endian order (>)": grid.astype(np.complex64),
            "has dtype >c16; expected": np.asfortranarray(grid.astype(">c16")),
            "has dtype <f16; expected": grid.astype("f16"),
            "has dtype <U3; expected": grid.astype("U3"),
            "has dtype |S3; expected": grid.astype("S3"),
            "has dtype >M8[s]; expected": grid.astype(">M8[s]"),
        }
        for words, array in cases.items():
            with self.subTest(words=words):
                path = self.path("odd.npy")
                np.save(path, array, allow_pickle=True)
                self.bad("op=hardsigmoid", [path], "odd.npy", words)

    def test_spec_and_file_disagree(self):
        self.bad("op=hardsigmoid dtype=f64", [self.input], "x.npy", "<f4", "f64")
        self.bad("op=hardsigmoid dtype=bf16", [self.input], "x.npy", "<f4", "<u2")

    def test_the_hint_names_a_dtype_that_the_files_have(self):
        """The types of the other files stay, and so does what the spec says about their bits."""
        f32, u8 = self.input, self.save("u8.npy", self.x.astype("u1"))
        u16, i8 = self.save("u16.npy", self.x.astype("u2")), self.save("i8.npy", self.x.astype("i1"))
        add, bits = "op=a + b dtype=", "name dtype={} in the spec if it holds the bits of bf16 values"
        for spec, files, hint in ((add + "(f8e4m3,f32)", (u8, u8), "|u1, and argument b is f32, in a file <f4; name dtype=(f8e4m3,u8) in the spec"),
                                  (add + "(f8e5m2,f8e5m2)", (u8, f32), "; name dtype=(f8e5m2,f32) in the spec"),
                                  (add + "(bf16,f32)", (u16, i8), "; name dtype=(bf16,i8) in the spec"),
                                  (add + "(f8e4m3,f32)", (u16, f32), bits.format("(bf16,f32)")),
                                  (add + "f32", (u16, f32), bits.format("(bf16,f32)")),
                                  (add + "f8e4m3", (f32, f32), "; leave dtype out of the spec or name dtype=f32"),
                                  (add + "(u8,f16)", (u8, i8), "; leave dtype out of the spec or name dtype=(u8,i8)"),
                                  ("op=copy dtype=f8e4m3", (f32,), "; leave dtype out of the spec or name dtype=f32")):
            with self.subTest(spec=spec):
                self.assertTrue(self.bad(spec, files).endswith(hint))
        whole = self.bad("op=bitwise_and dtype=i32", (f32, f32), "has dtype <f4, and argument x is i32")
        self.assertTrue(whole.endswith("in a file <i4"), whole)
        rows = self.save("rows.npy", np.zeros((3, 4), np.int32))
        line = self.bad("template=rowsum op=copy dtype=f32", [rows], "has dtype <i4, and argument x is f32")
        self.assertTrue(line.endswith("in a file <f4"), line)

    def test_partners_disagree(self):
        other = self.save("other.npy", self.x.astype(np.float64))
        self.bad("op=add dtype=f32", [self.input, other], "other.npy", "<f8", "<f4", "dtype=(f32,f64)")
        self.bad("op=bitwise_and", [self.input, other], "bitwise_and", "whole numbers")
        other = self.save("other.npy", self.x.reshape(10, 100))
        self.bad("op=add", [self.input, other], "other.npy", "(10, 100)", "(1000,)")
        self.bad("op=add template=rowsum", [other, self.save("one.npy", self.x[:100].reshape(1, 100))], "one.npy", "rows")

    def test_headers_that_lie(self):
        good = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
        body = bytes(16)
        cases = [
            self.header(good, length=10) + body,
            self.header(good, length=60000) + body,
            self.header(good, version=2, length=0xFFFFFFFF) + body,
            self.header(good, version=9) + body,
            self.header(good.replace("(4,)", "(4)")) + body,
            self.header(good.replace("(4,)", "(-4,)")) + body,
            self.header(good.replace("(4,)", "(4,,)")) + body,
            self.header(good.replace("(4,)", "[4]")) + body,
            self.header(good.replace("False", "0")) + body,
            self.header(good.replace("'descr': '<f4', ", "")) + body,
            self.header(good.replace("'descr'", "'shape': (4,), 'descr'")) + body,
            self.header(good + " x") + body,
            self.header(good[:-1]) + body,
            self.header("") + body,
            b"\x93NUMPZ" + bytes(100),
            bytes(200),
        ]
        for number, data in enumerate(cases):
            with self.subTest(number=number):
                self.bad("op=hardsigmoid", [self.write("lie.npy", data)], "lie.npy")

    def test_absurd_shapes(self):
        for shape in ("(4294967296, 4294967296)", "(9223372036854775807,)", "(99999999999999999999,)",
                      "(" + "1, " * 65 + ")", "(4611686018427387904, 2)"):
            with self.subTest(shape=shape):
                text = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % shape
                self.bad("op=hardsigmoid", [self.write("huge.npy", self.header(text) + bytes(16))], "huge.npy", "large")
        text = "{'descr': '>f4', 'fortran_order': True, 'shape': (4611686018427387904, 2), }"
        self.bad("op=hardsigmoid", [self.write("huge.npy", self.header(text) + bytes(16))], "huge.npy", "large")
        text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"
        self.bad("op=hardsigmoid", [self.write("huge.npy", self.header(text) + bytes(16))], "huge.npy", "truncated")

    def test_no_such_file(self):
        self.bad("op=hardsigmoid", [self.path("none.npy")], "none.npy", "No such file")
        self.bad("op=hardsigmoid", [self.dir], self.dir, "directory")


class Outputs(RunCase):
    def test_cannot_be_written(self):
        self.bad("op=hardsigmoid", [self.input], "none/y.npy", "No such file", out=self.path("none/y.npy"))
        self.bad("op=hardsigmoid", [self.input], "directory", out=self.dir)
        self.bad("op=hardsigmoid", [self.input], "x.npy/y.npy", out=self.input + "/y.npy")

    def test_two_results_in_one_file(self):
        os.mkdir(self.path("real"))
        os.symlink("real", self.path("other"))
        os.symlink("y.npy", self.path("link.npy"))
        os.link(self.out, self.path("hard.npy"))
        for first, second in (("y.npy", "y.npy"), ("y.npy", "./y.npy"), ("y.npy", self.out), ("link.npy", "y.npy"),
                              ("hard.npy", "y.npy"), ("new.npy", "./new.npy"), ("new.npy", self.path("new.npy")),
                              ("real/new.npy", "other/new.npy"), ("-", "-"), ("a=new.npy", "b=real/../new.npy")):
            with self.subTest(first=first, second=second):
                self.assert_bad(["run", "op=(a,b)=(x + 1, x)", "--in", self.input, "--out", first, "--out", second],
                                "are one file: give each result its own", cwd=self.dir)
        self.assertEqual(sorted(os.listdir(self.dir)), ["hard.npy", "link.npy", "other", "real", "x.npy", "y.npy"])
        self.assertEqual(os.listdir(self.path("real")), [])

    def test_results_with_one_name_in_two_places(self):
        os.mkdir(self.path("real"))
        for first, second in (("new.npy", "real/new.npy"), ("a=new.npy", "b=real/new.npy"), ("x.npy", "real/x.npy")):
            self.kiln("run", "op=(a,b)=(x + 1, x)", "--in", self.input, "--out", first, "--out", second, cwd=self.dir)
            np.testing.assert_array_equal(np.load(self.path(first[first.find("=") + 1:])), self.x + np.float32(1))
            np.testing.assert_array_equal(np.load(self.path(second[second.find("=") + 1:])), self.x)

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_no_permission(self):
        closed = self.path("closed")
        os.mkdir(closed, 0o500)
        self.bad("op=hardsigmoid", [self.input], "Permission denied", out=os.path.join(closed, "y.npy"))
        os.chmod(self.out, 0o400)
        self.bad("op=hardsigmoid", [self.input], "Permission denied")

    def test_device_that_is_full(self):
        self.bad("op=hardsigmoid", [self.input], "/dev/full", "No space left", out="/dev/full")

    def test_file_size_limit(self):
        big = self.save("big.npy", np.zeros(1 << 20, np.float32))
        self.kiln("run", "op=hardsigmoid", "--in", self.input, "--out", self.path("z.npy"))
        self.bad("op=hardsigmoid", [big], "y.npy", "unchanged", preexec_fn=limit_file_size)

    def test_no_space_left(self):
        small = self.path("small")
        os.mkdir(small)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], stderr=subprocess.DEVNULL,
                               check=False)
        if mount.returncode != 0:
            self.skipTest("cannot mount")
        self.addCleanup(subprocess.run, ["umount", small], check=True)
        out = os.path.join(small, "y.npy")
        with open(out, "wb") as file:
            file.write(b"old")
        big = self.save("big.npy", np.zeros(1 << 20, np.float32))
        self.bad("op=hardsigmoid", [big], "small/y.npy", "No space left", "unchanged", out=out)
        with open(out, "rb") as file:
            self.assertEqual(file.read(), b"old")
        self.assertEqual(os.listdir(small), ["y.npy"])


class Usage(KilnTest):
    def test_unknown_command(self):
        self.assert_bad(["rum"], "rum", "run")
        self.assert_bad(["wram"], "wram", "warm")
        self.assert_bad(["help", "benhc"], "benhc", "bench")
        self.assertEqual(self.kiln(status=2).stdout, "")

    def test_unknown_option(self):
        self.assert_bad(["run", "op=relu6", "--verfy"], "--verfy", "--verify")
        self.assert_bad(["warm", "op=relu6", "--targets", "all"], "--targets", "--target")
        self.assert_bad(["ops", "-q"], "-q")

    def test_missing_and_surplus(self):
        self.assert_bad(["run"], "SPEC")
        self.assert_bad(["run", "op=relu6"], "--in")
        self.assert_bad(["run", "op=relu6", "--in", "x.npy"], "--out")
        self.assert_bad(["run", "op=relu6", "op=add", "--in", "x", "--out", "y"], "'op=add' begins another")
        self.assert_bad(["run", "op=relu6", "--in", "x", "--out"], "--out", "value")
        self.assert_bad(["run", "op=relu6", "--in", "x", "--out", "y", "--out", "y"], "2 --out are given")
        self.assert_bad(["run", "op=relu6", "--in", "x", "--out", "y", "--out", "z"], "--out once for each")
        self.assert_bad(["run", "op=add", *["--in", "x"] * 4, "--out", "y"], "reads 2 arrays, 4 given")
        self.assert_bad(["warm"], "SPEC")
        self.assert_bad(["bench"], "SPEC")
        self.assert_bad(["show"], "SPEC")
        self.assert_bad(["show", "op=relu6", "--ptx", "--sass"], "one")
        self.assert_bad(["ops", "all"], "all")
        self.assert_bad(["doctor", "x"], "x")
        self.assert_bad(["templates", "elementwise"], "elementwise", "--print")

    def test_values(self):
        for size in ("0", "-1", "4096x", "x", "2^", "2^99", "1e6", "64Mi", "99999999999999999999", "4294967296x4294967296"):
            with self.subTest(size=size):
                self.assert_bad(["bench", "op=relu6", "--size=" + size], size, "4096x393216")
        self.assert_bad(["warm", "op=relu6", "-j", "0"], "0")
        self.assert_bad(["warm", "op=relu6", "-j", "many"], "many")
        self.assert_bad(["bench", "op=relu6", "--rounds", "-3"], "-3")

    def test_environment(self):
        self.assert_bad(["show", "op=relu6"], "KILN_ISOLATE", "sometimes", "always",
                        env=dict(self.env, KILN_ISOLATE="sometimes"))

    def test_cache_and_templates(self):
        self.assert_bad(["cache"], "stat")
        self.assert_bad(["cache", "stats"], "stats", "stat")
        self.assert_bad(["cache", "stat", "--damaged"], "purge")
        self.assert_bad(["templates", "--print", "elementwize"], "elementwize", "elementwise")

    def test_warm(self):
        self.assert_bad(["warm", "op=relu6 dtype=f32,f61", "--target", "cpu"], "f61")
        self.assert_bad(["warm", "op=relu6 block=64..32", "--target", "cpu"], "64..32")
        self.assert_bad(["warm", "--manifest", self.path("none"), "--target", "cpu"], "none", "No such file")
        manifest = self.path("kernels.txt")
        with open(manifest, "w", encoding="utf-8") as file:
            file.write("# two kernels\nop=relu6 dtype=f32\n\nop=relu7 dtype=f32  # a slip\n")
        self.assert_bad(["warm", "--manifest", manifest, "--target", "cpu"], "kernels.txt:4", "relu7", "relu?")
        self.assertFalse(os.path.exists(os.path.join(self.cache, "x")))

    def test_warm_without_a_target(self):
        env = dict(self.env, KILN_DEVICE="cpu")
        self.assert_bad(["warm", "op=relu6 dtype=f32"], "--target", env=env)

    def test_a_target_that_the_default_device_cannot_run(self):
        """One cause has one status, whichever command meets it."""
        env = dict(self.env, KILN_DEVICE="cpu")
        files = ("--in", self.save("x.npy", np.zeros(3, np.float32)), "--out", self.path("y.npy"))
        for command in (("run", *files), ("bench",), ("tune",), ("sweep", "--size", "1K")):
            with self.subTest(command=command):
                told = self.kiln(command[0], "op=relu6 target=sm_90", *command[1:], status=1, env=env).stderr
                self.assertIn("a kernel for sm_90 needs a GPU and the default device is the cpu", told)

    def test_expand_only_where_allowed(self):
        x = self.save("x.npy", np.zeros(3, np.float32))
        self.assert_bad(["run", "op=relu6 block=64,128", "--in", x, "--out", self.path("y.npy")], "block")


if __name__ == "__main__":
    unittest.main()
