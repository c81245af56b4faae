"""Ops and templates of users' own on the command line: defined, listed, run, verified, warmed, and refused in one line."""

import json
import os
import re
import signal
import subprocess
import unittest

import numpy as np
from support import FAKE_LIBCUDA, KILN, KilnTest, compiler_builds_for_gpus

SWISH = "swish(x; hi=6) = x * fminf(fmaxf(x + 3.0f, 0.0f), hi) / 6.0f"
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples/templates")


def example(name):
    return os.path.join(EXAMPLES, f"{name}.cu")


class Own(KilnTest):
    def setUp(self):
        super().setUp()
        self.x = np.linspace(-5, 8, 1003, dtype=np.float32)
        self.input = self.save("x.npy", self.x)
        self.output = self.path("y.npy")

    def run_spec(self, spec, *options, **more):
        return self.kiln("run", spec, "--in", self.input, "--out", self.output, *options, **more)

    def write(self, name, text):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Ops(Own):
    def test_a_defined_op_runs_and_is_verified(self):
        x, six = self.x, np.float32(6)
        want = x * np.minimum(np.maximum(x + np.float32(3), np.float32(0)), np.float32(4))
        self.run_spec("op=swish(hi=4)", "--define-op", SWISH, "--verify")
        self.assert_same(np.load(self.output), want * (np.float32(1) / six), "f32")
        self.run_spec("op=swish(hi=4) math=portable", "--define-op", SWISH, "--verify")
        self.assert_same(np.load(self.output), want / six, "f32")

    def test_several_are_defined_and_call_each_other(self):
        self.run_spec("op=twice", "--define-op", SWISH, "--define-op=twice = 2 * swish(x, 6)")
        self.run_spec("op=relu6(swish(x))", "--define-op", SWISH, "--verify")

    def test_the_reference_bounds_the_result(self):
        result = self.run_spec("op=third", "--define-op", "third = div(x, 3) within 0.5 ulp", "--verify")
        self.assertIn("reference", result.stdout)
        before = open(self.output, "rb").read()
        result = self.run_spec("op=soft", "--define-op", "soft = x / (1 + abs(x)) within 4 ulp of tanh(x)", "--verify",
                               status=None)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("from the reference", result.stderr)
        self.assertEqual(open(self.output, "rb").read(), before)

    def test_lists_show_where_an_op_comes_from(self):
        ops = self.kiln_json("ops", "--define-op", SWISH)["ops"]
        swish = next(op for op in ops if op["name"] == "swish")
        self.assertEqual((swish["origin"], swish["signature"]), ("defined", "swish(x; hi=6)"))
        self.assertIn(SWISH, swish["doc"])
        self.assertTrue(all(op["origin"] == "" for op in ops if op["name"] != "swish"))
        self.assertIn("swish(x; hi=6)", self.kiln("ops", "--define-op", SWISH).stdout)

    def test_mistakes_are_one_line(self):
        for text, *words in (
                ("swish = x * fminq(x, 1)", "op swish, character 13", "did you mean fmin?"),
                ("swish = (x", "op swish, character 11: ')' is missing"),
                ("add = x + y", "op add is one of Kiln's own"),
                ("swish = gamma(x)", "unknown function or op 'gamma'"),
                ("", "expected NAME(x) = EXPRESSION")):
            self.assert_bad(("run", "op=copy", "--in", self.input, "--out", self.output, "--define-op", text), *words)
        self.assert_bad(("ops", "--define-op", "a = x", "--define-op", "a = x + 1"), "defined already, and otherwise: 'a = x'")
        self.assert_bad(("run", "op=bell math=portable", "--in", self.input, "--out", self.output, "--define-op",
                         "bell = exp(-x * x) * erf(x)"), "op bell calls a function of CUDA that has no portable form")
        self.assertFalse(os.path.exists(self.output))

    def test_a_manifest_defines(self):
        manifest = self.write("m.txt", f"define op {SWISH}   # an op\nop=swish,relu6 dtype=f32 target=cpu\n")
        self.assertEqual(self.kiln_json("warm", "--manifest", manifest)["compiled"], 2)
        self.run_spec("op=swish", "--define-op", SWISH)
        manifest = self.write("bad.txt", "op=relu6 target=cpu\ndefine op a = (x\n")
        self.assert_bad(("warm", "--manifest", manifest), "bad.txt:2: op a, character 7")
        manifest = self.write("worse.txt", "define opp a = x\n")
        self.assert_bad(("warm", "--manifest", manifest), "worse.txt:1: write define op NAME(x) = EXPRESSION")

    def test_what_check_prints_is_a_manifest(self):
        twice = "twice(x; by=2) = by * x"
        first = self.write("first.txt", f"define op {SWISH}\ndefine template {example('transpose')}\n"
                           f"op=swish dtype=f32,f16\ntemplate=transpose\ntemplate={example('hardsigmoid256')}\nop=relu6\n")
        self.kiln("warm", "op=relu6", "--target", "cpu")
        line = ("warm", "--manifest", first, "op=relu6(twice(x)) dtype=f32", "--define-op", twice, "--target", "cpu", "--check")
        missing = self.kiln(*line, status=1).stdout
        self.assertEqual(missing.splitlines()[:4], [f"define op {twice}", f"define op {SWISH}",
                                                    f"define template {example('transpose')}",
                                                    f"define template {example('hardsigmoid256')}"])
        self.assertEqual(len(missing.splitlines()), 4 + 5)
        self.assertNotIn("op=relu6 ", missing)
        told = self.kiln_json(*line, status=1)
        self.assertEqual([*told["definitions"], *(row["spec"] for row in told["to_compile"])], missing.splitlines())
        second = self.write("second.txt", missing)
        self.assertEqual(self.kiln_json("warm", "--manifest", second)["compiled"], 5)
        self.assertEqual(self.kiln(*line).stdout, "")
        self.assertEqual(self.kiln_json("warm", "--manifest", second, "--check")["missing"], 0)

    def test_a_path_in_a_manifest_may_have_a_hash(self):
        os.makedirs(self.path("a#b"))
        for ending in ("cu", "c"):
            with open(example("hardsigmoid256")[:-2] + ending) as file:
                self.write(f"a#b/h.{ending}", file.read())
        missing = self.kiln("warm", self.path("a#b/h.cu"), "--target", "cpu", "--check", status=1).stdout
        self.assertIn("define template " + self.path("a#b/h.cu"), missing)
        manifest = self.write("hash.txt", missing + " # a comment\n")
        self.assertEqual(self.kiln_json("warm", "--manifest", manifest)["compiled"], 1)

    def test_a_record_is_replayed(self):
        record = self.path("record.txt")
        env = dict(self.env, KILN_RECORD=record)
        self.run_spec("op=swish", "--define-op", SWISH, env=env)
        self.run_spec(f"template={example('hardsigmoid256')}", env=env)
        line = ("warm", "--manifest", record, "--target", "cpu", "--cache-dir", self.path("image"))
        self.assertEqual(self.kiln_json(*line)["compiled"], 2)
        with open(record, "a", encoding="utf-8") as file:
            file.write("define template /nowhere/gone.cu\ntemplate=gone dtype=f32\ndefine op swish = x\n"
                       "template=/nowhere/gone.cu dtype=f32\n")
        result = self.kiln_json(*line)
        self.assertEqual((result["hits"], result["skipped"]), (2, 4))


    def test_the_line_of_strict_mode_runs_as_printed(self):
        own = self.write("it's.cu", open(example("hardsigmoid256"), encoding="utf-8").read())
        twin = open(example("hardsigmoid256")[:-1], encoding="utf-8").read()
        self.write("it's.c", twin)
        strict = dict(self.env, KILN_STRICT="1")
        path = os.path.dirname(KILN) + os.pathsep + self.env["PATH"]
        for spec, options in (("op=relu6(twice(x)) dtype=f32", ("--define-op", SWISH, "--define-op", "twice = 2 * swish(x, 6)")),
                              ("template=hardsigmoid256 dtype=f32", ("--template", own))):
            result = self.run_spec(spec, *options, env=strict, status=1)
            line = re.search(r"run (kiln warm .*)", result.stderr)
            self.assertIsNotNone(line, result.stderr)
            subprocess.run(line[1], shell=True, check=True, env=dict(strict, PATH=path), stdout=subprocess.DEVNULL)
            self.run_spec(spec, *options, env=strict)


class Templates(Own):
    def test_by_path_and_by_name(self):
        path = example("hardsigmoid256")
        self.run_spec(f"template={path}", "--verify")
        first = np.load(self.output)
        self.run_spec("template=hardsigmoid256 block=64", "--template", path, "--verify")
        self.run_spec("op=hardsigmoid")
        self.assert_same(first, np.load(self.output), "f32")

    def test_what_is_wrong_is_named(self):
        path = example("hardtanh4")
        show = lambda spec: ("show", f"template={path} {spec} target=sm_90")
        self.assert_bad(show("block=1024 elems=16"), "block=1024 elems=16: a block must not take more than 8192 elements",
                        "nearest: block=512 or elems=8")
        self.assert_bad(show("elems=17"), "elems=17 is above 16")
        self.assert_bad(show("op=relu6"), "takes no op")
        self.assert_bad(show("dtype=bf16"), "template hardtanh4 takes no dtype=bf16: f32, f64")
        self.assert_bad(("show", f"template={path} target=cpu"), "template hardtanh4 has no cpu twin")
        self.assert_bad(("show", "template=./nowhere.cu"), "./nowhere.cu cannot be read")
        bad = self.write("bad.cu", "//! template bad\n//! inputs 1\n//! parm x 1..2 = 1\n")
        self.assert_bad(("show", f"template={bad}"), "bad.cu:3: unknown declaration 'parm': did you mean param?")
        unnamed = self.write("unnamed.cu", "__global__ void k() {}\n")
        self.assert_bad(("templates", "--template", unnamed), "unnamed.cu:1: the declaration 'template NAME' is missing")
        builtin = self.write("e.cu", open(path, encoding="utf-8").read().replace("template  hardtanh4", "template compare"))
        self.assert_bad(("templates", "--template", builtin), "template compare is one of Kiln's own")

    def test_lists_show_where_a_template_comes_from(self):
        path = example("transpose")
        found = self.kiln_json("templates", "--template", path)["templates"]
        mine = next(row for row in found if row["name"] == "transpose")
        self.assertEqual(os.path.realpath(path), mine["origin"])
        self.assertTrue(all(row["origin"] == "" for row in found if row["name"] != "transpose"))
        self.assertIn("from /", self.kiln("templates", "--template", path).stdout)
        self.assertEqual(self.kiln("templates", "--template", path, "--print", "transpose").stdout,
                         open(path, encoding="utf-8").read())

    def test_lists_show_what_a_template_takes(self):
        found = {row["name"]: row for row in self.kiln_json("templates", "--template", example("minmax"))["templates"]}
        mine, usual = found["minmax"], found["elementwise"]
        self.assertEqual(mine["dtypes"], ["f32", "f64", "f16", "bf16"])
        self.assertEqual((mine["sizes"], mine["grid"], mine["block"], mine["shared"], mine["tile"]),
                         (["rows", "cols"], ["rows", "1", "1"], ["block", "1", "1"], "2 * block * bytes", ""))
        self.assertEqual(mine["args"][1:], [
            {"name": "greatest", "role": "out", "type": "dtype", "shape": ["rows"], "value": None},
            {"name": "x", "role": "in", "type": "dtype", "shape": ["rows", "cols"], "value": None},
            {"name": "cols", "role": "number", "type": "u64", "shape": [], "value": "cols"}])
        self.assertEqual([(arg["name"], arg["role"]) for arg in usual["args"]],
                         [("out", "out inplace")] + [(name, "in") for name in "x y z x4 x5 x6 x7 x8".split()] + [("n", "number")])
        self.assertEqual((usual["tile"], usual["shared"]), ("block * elems", ""))
        text = self.kiln("templates", "--template", example("length")).stdout.split("\nlength: ")[1]
        for line in (r"dtypes  f16", r"sizes   n", r"tile    block \* elems", r"grid    \(n \+ tile - 1\) / tile", r"block   block",
                     r"out +out +f32 +\[n\]", r"x +in +f16 +\[n\]", r"n +number +u64 += n"):
            self.assertRegex(text, f"(?m)^{line}$")
        self.assertNotIn("shared", text)
        self.assertIn("\nshared  2 * block * bytes\n", self.kiln("templates", "--template", example("minmax")).stdout)

    def test_warms_for_gpus(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        line = ("warm", f"template={example('transpose')},{example('axpy_float4')} dtype=f32", "--target", "sm_75,sm_90")
        self.assertEqual(self.kiln_json(*line)["compiled"], 4)
        self.assertEqual(self.kiln_json(*line)["hits"], 4)
        manifest = self.write("m.txt", f"template={example('hardtanh4')} elems=2,4 target=sm_90\n"
                                       f"define template {example('hardsigmoid256')}\n"
                                       "template=hardsigmoid256 target=sm_90\n")
        self.assertEqual(self.kiln_json("warm", "--manifest", manifest)["compiled"], 3)

    def test_tunes_on_the_cpu(self):
        result = self.kiln("tune", f"template={example('hardsigmoid256')}", "--size", "20000", "--budget", "1")
        self.assertIn("winner", result.stdout)

    def toy(self, body, declarations="", twin=""):
        """A template toy that stores to n elements of out, with its twin."""
        self.write("toy.c", twin + "\n__attribute__((visibility(\"default\")))\n"
                                   "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args);\n"
                                   "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args)\n"
                                   "{\n    float *out = *(float *const *)args[0];\n"
                                   "    for (unsigned long long i = b; i < e; i++)\n        out[i] = VALUE;\n}\n")
        return self.write("toy.cu", "//! template toy\n//! size n\n//! arg out out f32[n]\n//! dtype f32\n//! grid n\n"
                                    "//! block 32\n//! entry toy align 4\n" + declarations + body +
                                    "extern \"C\" __global__ void toy(float *out) { out[blockIdx.x] = VALUE; }\n")

    def test_includes_headers(self):
        x, y = (np.random.default_rng(3).standard_normal(1003).astype(np.float16) for _ in range(2))
        spec = f"template={example('length')}"
        self.kiln("run", spec, "--in", self.save("p.npy", x), "--in", self.save("q.npy", y), "--out", self.output, "--verify")
        wide = [values.astype(np.float32) for values in (x, y)]
        self.assertTrue(np.allclose(np.load(self.output), np.hypot(*wide), rtol=1e-6))
        self.assertIn("winner", self.kiln("tune", spec, "--size", "20000", "--budget", "1").stdout)

    def test_an_edited_header_is_noticed(self):
        path = self.toy("#include \"value.h\"\n", twin="#include \"value.h\"")
        targets = ["cpu", "sm_90"] if compiler_builds_for_gpus(self) else ["cpu"]
        line = ("warm", f"template={path}", "--target", ",".join(targets))
        for value, compiled in ((1, True), (1, False), (2, True), (1, False)):
            self.write("value.h", f"#define VALUE {value}\n")
            self.assertEqual(self.kiln_json(*line)["compiled"], compiled * len(targets))
            self.kiln("run", f"template={path}", "--size", "n=5", "--out", self.output)
            self.assertTrue((np.load(self.output) == value).all())

    def test_errors_name_the_file_and_line(self):
        path = self.toy("#include \"value.h\"\n", twin="#include \"value.h\"")
        self.write("value.h", "#define VALUE 1\n\nint broken = nonsense;\n")
        header, twin, folder = self.path("value.h"), self.path("toy.c"), os.path.realpath(self.dir)
        run = ("run", f"template={path}", "--size", "n=5", "--out", self.output)
        lines = [(run, r"value\.h:3:\d+: error: .*nonsense"),
                 (("warm", f"template={path}", "--target", "cpu"), r"value\.h:3:\d+: error: .*nonsense"),
                 (("tune", f"template={path}", "--size", "n=5", "--budget", "1"), r"value\.h:3:\d+: error: .*nonsense")]
        if compiler_builds_for_gpus(self):
            lines += [(("warm", f"template={path}", "--target", "sm_90"), r"value\.h\(3\): error: .*nonsense"),
                      (("show", f"template={path} target=sm_90", "--ptx"), r"value\.h\(3\): error: .*nonsense")]
        for arguments, words in lines:
            result = self.kiln(*arguments, status=1)
            self.assertRegex(result.stderr, re.escape(folder) + "/" + words)
        self.write("value.h", "")
        self.assertRegex(self.kiln(*run, status=1).stderr, re.escape(folder) + r"/toy\.c:8:\d+: error: .*VALUE")
        if compiler_builds_for_gpus(self):
            self.assertRegex(self.kiln("warm", f"template={path}", "--target", "sm_90", status=1).stderr,
                             re.escape(folder) + r"/toy\.cu\(9\): error: .*VALUE")

    def test_errors_without_a_line_of_a_compiler_name_the_file_too(self):
        path = self.toy("#define VALUE 1\n", "//! reference nothing(x)\n", "#define VALUE 1\n")
        real = os.path.realpath(path)
        for command in (("show", path, "target=sm_90"), ("templates", "--template", path), ("warm", path), ("tune", path),
                        ("run", path, "--size", "n=5", "--out", self.output), ("watch", path, "--once")):
            self.assertIn(f"kiln: {real}:8: reference: unknown op 'nothing'", self.kiln(*command, status=2).stderr)
        path = self.toy("#define VALUE 1\n", "", "#define VALUE 1\n")
        with open(self.path("toy.c"), encoding="utf-8") as file:
            twin = file.read()
        words = f"{real[:-1]}: the twin exports no function kiln_cpu: define it"
        for text in (twin.replace("__attribute__((visibility(\"default\")))", ""), twin.replace("kiln_cpu", "kiln_gpu"), ""):
            self.write("toy.c", text)
            for command in (("warm", path, "--target", "cpu"), ("tune", path, "--size", "5"), ("watch", path, "--once"),
                            ("run", path, "--size", "n=5", "--out", self.output)):
                self.assertIn(words, self.kiln(*command, status=1).stderr)
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for wrong, words in ((text.replace("void toy", "void toi"), f"{real}: the cubin for sm_90 has no entry point 'toy'"),
                             (text.rstrip().rstrip("}"), f"{real}: compiling for sm_90 failed: At end of source: error: ")):
            self.write("toy.cu", wrong)
            for command in (("warm", path, "--target", "sm_90"), ("show", path, "target=sm_90", "--ptx")):
                self.assertIn(words, self.kiln(*command, status=1).stderr)

    def test_headers_lie_beside_the_file(self):
        path = self.toy("#include \"value.h\"\n", twin="#include \"value.h\"")
        elsewhere, run = self.path("elsewhere"), ("run", f"template={path}", "--size", "n=5", "--out", self.output)
        os.mkdir(elsewhere)
        self.write("elsewhere/value.h", "#error not this one\n")
        self.write("value.h", "#define VALUE 7\n")
        self.kiln(*run, cwd=elsewhere)
        self.assertTrue((np.load(self.output) == 7).all())
        os.remove(self.path("value.h"))
        self.assertIn("toy.c:1:", self.kiln(*run, cwd=elsewhere, status=1).stderr)
        self.write("value.h", "#include \"deeper.h\"\n")
        self.write("deeper.h", "#define VALUE missing()\n")
        text = self.kiln(*run, status=1).stderr
        self.assertIn("/deeper.h:1:", text.splitlines()[0])
        self.assertIn("/toy.c:8:", text)
        self.write("deeper.h", "int broken = nonsense;\n")
        text, folder = self.kiln(*run, status=1).stderr, os.path.realpath(self.dir)
        for words in (f"{folder}/deeper.h:1:", f"In file included from {folder}/value.h:1", f" from {folder}/toy.c:1:"):
            self.assertIn(words, text)
        self.assertNotIn("kiln-temporary", text)
        outside = self.write("elsewhere/outside.h", "#define VALUE 1\n")
        for name in (outside, "elsewhere/../../outside.h"):
            path = self.toy(f"#include \"{name}\"\n", twin=f"#include \"{name}\"")
            if compiler_builds_for_gpus(self):
                self.assertIn("/toy.cu(8): ", self.kiln("show", f"template={path} target=sm_90", status=1).stderr)
            self.assertIn("/toy.c", self.kiln(*run, status=None).stderr)
        self.assertIn(f"/toy.c includes \"{outside}\": name headers as they lie", self.kiln(
            "show", f"template={self.toy('', twin=f'#include {chr(34)}{outside}{chr(34)}')} target=cpu", status=2).stderr)

    def test_names_options(self):
        bad = lambda option: ("templates", "--template", self.toy("", f"//! option {option}\n"))
        self.assert_bad(bad(""), "toy.cu:8: write option OPTION, such as -std=c++20")
        self.assert_bad(bad("-std=c++20 -I."), "toy.cu:8: option '-I.' is not taken")
        self.assert_bad(bad("-rdc=true"), "toy.cu:8:", "option '-rdc=true' is for sources: a template links nothing")
        self.assert_bad(bad("-std=c++20 --std=c++17"), "toy.cu:8: option '--std=c++17' is given twice")
        self.assert_bad(bad("-arch sm_90"), "toy.cu:8: an option names the target sm_90: specs do that")
        self.assert_bad(bad("--maxrregcount"), "toy.cu:8: option '--maxrregcount' is malformed")
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        body = "#define VALUE __cplusplus == 202002L ? a * b + c : 0\nstatic __device__ volatile float a, b, c;\n"
        for options, fused in (("-std=c++20 --fmad=true", True), ("--std c++20 -O3", False), ("-std=c++17", None)):
            path = self.toy(body, f"//! option {options}\n")
            ptx = self.kiln("show", f"template={path} target=sm_90", "--ptx").stdout
            self.assertEqual(("fma.rn" in ptx, "mul.f32" in ptx or "mul.rn" in ptx),
                             {True: (True, False), False: (False, True), None: (False, False)}[fused], options)

    def test_an_array_that_is_read_and_written_has_two_files(self):
        rng = np.random.default_rng(9)
        before, values = rng.integers(0, 100, 25600, dtype="i4"), rng.integers(0, 30000, 70001, dtype="i4")
        counts, right = self.save("counts.npy", before), before + np.bincount(values, minlength=30000)[:25600]
        line = ("run", f"template={example('histogram')}", "--in", counts, "--in", self.save("values.npy", values))
        self.kiln(*line, "--out", self.path("new.npy"), "--verify")
        self.assertTrue((np.load(self.path("new.npy")) == right).all() and (np.load(counts) == before).all())
        self.kiln(*line, "--out", counts)
        self.assertTrue((np.load(counts) == right).all())

    def test_takes_the_shared_memory_of_the_device(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        spec = f"template={example('histogram')}"
        self.assertEqual(self.kiln_json("warm", spec, "--target", "sm_75,sm_86,sm_90")["compiled"], 3)
        self.assert_bad(("show", spec + " slices=1 target=sm_75"), "bins=25600 slices=1: shared 4 * bins / slices is 102400 "
                        "bytes, and a block has at most 65536 on sm_75; nearest: bins=16384 or slices=2")
        path = self.toy("#define VALUE 0\n", "//! param kib 32..128 step 32 = 32\n//! shared kib * 1024\n", "#define VALUE 0")
        self.assert_bad(("show", f"template={path} kib=128 target=sm_86"), "shared kib * 1024 is 131072 bytes",
                        "at most 101376 on sm_86")
        self.assertEqual(self.kiln_json("warm", f"template={path} kib=64", "--target", "sm_75,sm_86,sm_90")["compiled"], 3)

    def fragile(self):
        """A template whose cpu twin crashes with elems=4; it calls an op that is defined beside it."""
        self.write("fragile.c", "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args);\n"
                                "__attribute__((visibility(\"default\")))\n"
                                "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args)\n"
                                "{\n    volatile float *volatile to = KILN_ELEMS == 4 ? (float *)0 : *(float *const *)args[0];\n"
                                "    const float *x = *(const float *const *)args[1];\n"
                                "    const unsigned long long n = *(const unsigned long long *)args[2];\n"
                                "    for (unsigned long long i = b * KILN_TILE; i < e * KILN_TILE && i < n; i++)\n"
                                "        to[i] = kiln_value(x[i]);\n}\n")
        return self.write("fragile.cu", "//! template fragile\n//! inputs 1\n//! size n\n//! arg out out dtype[n] inplace\n"
                                        "//! arg x... in dtype[n]\n//! arg n uint64 = n\n//! dtype f32\n"
                                        "//! param block 32..64 step 32 = 32\n"
                                        "//! param elems 1,2,4 = 1\n//! tune block 32\n//! tile block * elems\n"
                                        "//! grid (n + tile - 1) / tile\n//! entry fragile align 4\n")

    def test_a_variant_that_crashes_is_left_out(self):
        line = (f"template={self.fragile()} op=swish", "--define-op", SWISH, "--size", "20000")
        result = self.tune_leaving_out(*line)
        out = [variant for variant in result["variant_results"] if variant["verdict"] == "out"]
        self.assertEqual(([" elems=4" in variant["spec"] for variant in out], len(result["variant_results"])), ([True], 3))
        self.assertRegex(out[0]["problem"], "ended its process")
        self.assertEqual(result["variant_results"][0]["verdict"], "winner")
        self.assertNotEqual(self.kiln("tune", *line, "--no-sandbox", status=None).returncode, 0)


class Arguments(Own):
    def setUp(self):
        super().setUp()
        self.matrix = np.arange(70 * 45, dtype=np.float64).reshape(70, 45)
        self.input = self.save("m.npy", self.matrix)

    def test_a_transpose(self):
        self.run_spec(f"template={example('transpose')}")
        got = np.load(self.output)
        self.assertEqual(got.shape, (45, 70))
        self.assertTrue((got == self.matrix.T).all())
        row = self.kiln_json("run", f"template={example('transpose')} tile=8", "--in", self.save("h.npy", self.matrix.astype("f2")),
                             "--out", self.output, "--time")
        self.assertEqual(row["elements"], 70 * 45)
        self.assertTrue((np.load(self.output) == self.matrix.astype("f2").T).all())

    def toy(self, args, entry, twin, before=""):
        self.write("toy.c", before + "__attribute__((visibility(\"default\")))\n"
                            "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args);\n"
                            "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args)\n"
                            f"{{\n    float *out = *(float *const *)args[0];\n{twin}    (void)b, (void)e, (void)out;\n}}\n")
        return self.write("toy.cu", "//! template toy\n//! size n\n//! dtype f32\n//! grid n\n//! param block 32,64 = 32\n"
                          f"//! entry toy align 4\n{''.join(f'//! arg {arg}{chr(10)}' for arg in args)}"
                          f"extern \"C\" __global__ void toy({entry}) {{ out[0] = 1; }}\n")

    def test_parameters_are_compared(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        out, x, n, entry = "out out f32[n]", "x in f32[n]", "n uint64 = n", "float *out, const float *x, unsigned long long n, float a"
        path = os.path.realpath(self.toy((), "", ""))
        for args, words in (
                ((out, x, n), "takes 4 parameters, and the template declares 3 (out, x, n): add an arg line for parameter 4 of 4 bytes"),
                ((x, n), "takes 4 parameters, and the template declares 2 (x, n): add an arg line for parameter 3 of 8 bytes"),
                ((out, x, n, "a float", "b float"), "takes 4 parameters, and the template declares 5 (out, x, n, a, b): take the "
                                                    "arg line of b away, or add parameter 5"),
                ((out, x, n, "a double"), "argument a is f64 of 8 bytes, and parameter 4 of the kernel toy has 4"),
                ((out, x, "n uint32 = n", "a float"), "argument n is u32 of 4 bytes, and parameter 3 of the kernel toy has 8"),
                (("a float", x, n, out), "argument a is f32 of 4 bytes, and parameter 1 of the kernel toy has 8"),
                ((out, x, n, "a out int8[n]"), "argument a is a pointer to i8 of 8 bytes, and parameter 4 of the kernel toy has 4")):
            self.toy(args, entry, "")
            for command in (("show", path, "target=sm_90", "--ptx"), ("warm", path, "--target", "sm_90")):
                result = self.kiln(*command, status=1)
                self.assertEqual(len(result.stderr.splitlines()), 1)
                self.assertIn(f"{path}: ", result.stderr)
                self.assertIn(words, result.stderr)
        self.toy((out, x, n, "a float"), entry, "")
        self.kiln("warm", path, "--target", "sm_75,sm_90")
        self.toy((out, x, n, "a double"), entry, "")  # a type of other bytes is not taken for what is stored
        self.assertIn("argument a is f64", self.kiln("warm", path, "--target", "sm_90", status=1).stderr)
        self.toy((out, x, n, "a int32"), entry, "")
        self.assertEqual(self.kiln_json("warm", path, "--target", "sm_90")["hits"], 1)

    def test_a_twin_that_reads_too_much(self):
        path = self.toy(("out out f32[n]", "n uint64 = n"), "float *out", "    out[0] = *(float *)args[2];\n")
        words = os.path.realpath(self.path("toy.c")) + ":6: args[2] is argument 3, and the template declares 2 (out, n): add an arg line"
        run = ("run", path, "--size", "n=5", "--out", self.output)
        for command in (run, ("show", path, "target=cpu", "--source"), ("warm", path, "--target", "cpu"),
                        ("tune", path, "--size", "5"), ("bench", path, "--size", "5"), ("sweep", path, "--size", "5")):
            self.assert_bad(command, words)
        self.assertIn(words, self.kiln("watch", path, "--once", "--size", "5", status=None).stdout +
                      self.kiln("watch", path, "--once", "--size", "5", status=None).stderr)

    def test_a_crash_of_a_twin_is_told(self):
        path = self.toy(("out out f32[n]", "n uint64 = n"), "float *out", "    out[0] = *(float *)args[2 + (b > e)];\n")
        words = (f"does {os.path.realpath(self.path('toy.c'))} read more than the 2 arguments that the template declares (out, n), or "
                 "beyond an array?")
        before = self.save("y.npy", self.matrix)
        plain = not os.environ.get("KILN_SANITIZE")  # whose own report follows the line
        for command in (("run", path, "--size", "n=5", "--out", before), ("run", path, "--size", "n=5", "--out", before, "--verify"),
                        ("sweep", path, "--size", "5"), ("watch", path, "--size", "5", "--once"),
                        ("tune", path, "--size", "5", "--no-sandbox")):
            result = self.kiln(*command, status=-signal.SIGSEGV if plain else None)
            self.assertEqual(result.stderr.splitlines()[0], f"kiln: a launch ended the process (SIGSEGV): {words}")
            self.assertEqual(len(result.stderr.splitlines()) == 1, plain)
        self.assertTrue((np.load(before) == self.matrix).all())
        if plain:
            self.assertEqual([name for name in os.listdir(self.dir) if name.startswith(".kiln")], [])
            self.assertIn(f"Segmentation fault; {words}", self.kiln("tune", path, "--size", "5", status=1).stderr)
        if os.cpu_count() > 1:  # in a thread of the library
            self.toy(("out out f32[n]",), "float *out", "    if (gettid() == getpid())\n        pause();\n    __builtin_trap();\n",
                     before="#define _GNU_SOURCE 1\n#include <unistd.h>\n")
            self.assertRegex(self.kiln("run", path, "--size", "n=5000", "--out", before, status=None).stderr,
                             r"^kiln: a launch ended the process \(SIGILL\): does ")
        self.toy(("out out f32[n]", "n uint64 = n"), "float *out", "    out[0] = 1 / (int)(e - b - (e - b));\n    __builtin_trap();\n")
        result = self.kiln("run", path, "--size", "n=5", "--out", before, status=None)
        self.assertRegex(result.stderr, r"^kiln: a launch ended the process \(SIG(FPE|ILL)\): does ")

    def test_several_results(self):
        x, y = np.random.default_rng(5).standard_normal((2, 3, 701))
        other, spec = self.path("d.npy"), f"template={example('butterfly')}"
        inputs = ("--in", self.save("a.npy", x), "--in", self.save("b.npy", y))
        line = ("run", spec, *inputs, "--out", self.output, "--out", other)
        self.assertTrue(self.kiln_json(*line, "--verify")["verified"])
        self.assertTrue((np.load(self.output) == x + y).all() and (np.load(other) == x - y).all())
        self.kiln("run", spec, *inputs, "--out", inputs[3], "--out", inputs[1])
        self.assertTrue((np.load(inputs[3]) == x + y).all() and (np.load(inputs[1]) == x - y).all())
        self.assert_bad(line[:-2], "writes 2 arrays, and 1 --out is given; give --out once for each")
        self.assert_bad((*line[:-1], self.output), f"--out {self.output} and --out {self.output} are one file")
        os.remove(other)
        self.assert_bad((*line[:-1], self.path("nowhere/d.npy")), "nowhere/d.npy")
        for command in (("tune", "--budget", "1"), ("sweep", "--rounds", "2")):
            self.kiln(command[0], spec, "--size", "3000", *command[1:])

    def test_sums_in_another_order_need_a_tolerance(self):
        spec, x = f"template={example('softmax')}", 3 * np.random.default_rng(3).standard_normal((33, 1001)).astype("f4")
        line = ("--in", self.save("x.npy", x), "--out", self.output, "--verify")
        result = self.kiln_json("run", spec, *line)
        self.assertEqual((result["verified"], result["tolerance"]), (True, "relative 1e-5 absolute 1e-37"))
        self.assertIn("a second launch within relative 1e-5 absolute 1e-37", self.kiln("run", spec, *line).stdout)
        e = np.exp(x.astype("f8") - x.max(axis=1, keepdims=True))
        self.assertLess(np.abs(np.load(self.output) / (e / e.sum(axis=1, keepdims=True)) - 1).max(), 1e-5)
        sizes = ("--size", "rows=64", "--size", "cols=1000")
        self.assertEqual([variant["problem"] for variant in self.kiln_json("sweep", spec, *sizes, "--rounds", "2")
                          ["results"][0]["variant_results"]], [""] * 5)
        for line, left in (("", 4), ("//! tolerance relative 1e-9", 4), ("//! tolerance ulp 200", 0)):
            with open(example("softmax")) as file:
                text = re.sub("//! tolerance.*", line, file.read())
            path = self.write("other.cu", text.replace("template  softmax", "template other"))
            with open(example("softmax")[:-2] + "c") as file:
                self.write("other.c", file.read())
            variants = self.kiln_json("sweep", path, *sizes, "--rounds", "2", status=1 if left else 0)["results"][0]["variant_results"]
            problems = [variant["problem"] for variant in variants if variant["problem"]]
            self.assertEqual(len(problems), left, (line, problems))
            for problem in problems:
                self.assertRegex(problem, "elements are wrong|differ")
        self.assert_bad(("show", self.write("bad.cu", text.replace("ulp 200", "ulps 2"))), "bad.cu:12: unknown tolerance 'ulps'",
                        "did you mean ulp")

    def test_two_results_of_each_row(self):
        spec, other = f"template={example('minmax')}", self.path("greatest.npy")
        for dtype, strange in (("f2", -0.0), ("f4", np.nan), ("f8", np.inf)):
            x = np.random.default_rng(7).standard_normal((33, 129)).astype(dtype)
            x[5, 7], x[6] = strange, 0
            self.kiln("run", spec, "--in", self.save("x.npy", x), "--out", self.output, "--out", other, "--verify")
            self.assert_same(np.load(self.output)[:5], x.min(axis=1)[:5], dtype)
            self.assert_same(np.load(self.output)[7:], x.min(axis=1)[7:], dtype)
            self.assert_same(np.load(other), x.max(axis=1), {"f2": "f16", "f4": "f32", "f8": "f64"}[dtype])
        for command in (("tune", "--budget", "1"), ("sweep", "--rounds", "2")):
            self.kiln(command[0], spec, "--size", "rows=64", "--size", "cols=100", *command[1:])

    def test_a_result_without_an_input(self):
        spec = f"template={self.counting()}"
        self.assert_bad(("run", spec, "--out", self.output), "size n is the extent of no input: give --size n=N")
        self.kiln("run", spec, "--size", "n=2500", "--out", self.output, "--verify")
        self.assertTrue((np.load(self.output) == np.arange(2500)).all())

    def gathered(self, dtype, spec, index_first=False):
        """Runs the example gather, or one that takes the indices before the values."""
        index = np.random.default_rng(2).integers(-3, 45, 1003)
        x = np.random.default_rng(3).integers(0, 2**16, 41).astype(dtype)
        ins = ["--in", self.save("x.npy", x), "--in", self.save("index.npy", index)]
        self.kiln("run", spec, *(ins[2:] + ins[:2] if index_first else ins), "--out", self.output, "--verify")
        return np.where((index >= 0) & (index < 41), x[index.clip(0, 40)], x.dtype.type(0))

    def test_indices(self):
        spec = f"template={example('gather')}"
        for dtype, name in (("f2", "f16"), ("f4", "f32"), ("f8", "f64"), ("u2", "bf16")):
            want = self.gathered(dtype, spec + (" dtype=bf16" if dtype == "u2" else ""))
            self.assert_same(np.load(self.output), want, name)
        for command in (("tune", "--budget", "1"), ("sweep", "--rounds", "2")):
            self.kiln(command[0], spec, "--size", "n=3000", "--size", "m=500", *command[1:])
        bits, line = self.path("x.npy"), ("run", spec, "--in", self.save("real.npy", np.zeros(9, "f2")), "--in")
        for dtype in ("<i4", "<u8", ">u8", "<f8"):
            index = self.save("odd.npy", np.zeros(9, dtype))
            self.assert_bad((*line, index, "--out", self.output), "odd.npy",
                            f"has dtype {dtype}, and argument index is i64, in a file <i8")
        line = ("--in", bits, "--in", self.path("index.npy"), "--out", self.output)
        self.assert_bad(("run", spec, *line), "x.npy: has dtype <u2, and argument x is f32", "name dtype=bf16 in the spec")
        self.assert_bad(("run", f"{spec} dtype=f64", *line), "x.npy: has dtype <u2, and argument x is f64, in a file <f8")

    def test_the_first_input_of_the_specs_dtype_tells_it(self):
        """Not the first input."""
        with open(example("gather"), encoding="utf-8") as file:
            x, index = "//! arg       x     in  dtype[m]\n", "//! arg       index in  int64[n]\n"
            path = self.write("gather.cu", file.read().replace(x + index, index + x))
        with open(example("gather")[:-1], encoding="utf-8") as file:
            self.write("gather.c", file.read().replace("args[1]", "args[9]").replace("args[2]", "args[1]").replace("args[9]", "args[2]"))
        for dtype, name in (("f2", "f16"), ("f8", "f64")):
            want = self.gathered(dtype, f"template={path}", index_first=True)
            self.assert_same(np.load(self.output), want, name)

    def test_whole_numbers_of_every_type(self):
        kinds = {"i8": ("|i1", "signed char"), "u8": ("|u1", "unsigned char"), "i16": ("<i2", "short"),
                 "u16": ("<u2", "unsigned short"), "i32": ("<i4", "int"), "u32": ("<u4", "unsigned"),
                 "i64": ("<i8", "long long"), "u64": ("<u8", "unsigned long long")}
        for kind, (descr, c) in kinds.items():
            cu = self.write(f"minus_{kind}.cu", f"//! template minus_{kind}\n//! size n\n//! dtype bf16\n"
                            f"//! arg out out {kind}[n]\n//! arg x in {kind}[n]\n//! grid n\n//! block 32\n//! entry k align 1\n")
            self.write(f"minus_{kind}.c", "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long b,\n"
                       "    unsigned long long e, void *const *args);\n"
                       "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args)\n{\n"
                       f"    {c} *out = *({c} *const *)args[0];\n    const {c} *x = *(const {c} *const *)args[1];\n"
                       "    for (unsigned long long i = b; i < e; i++)\n        out[i] = 1 - x[i];\n}\n")
            most = np.iinfo(descr)
            x = np.array([most.min, most.min + 1, 0, 1, most.max], descr)
            for endian in "<>":
                file = self.save("x.npy", x.astype(x.dtype.newbyteorder(endian)))
                self.kiln("run", f"template={cu}", "--in", file, "--out", self.output, "--verify")
                got = np.load(self.output)
                self.assertEqual(got.dtype.str, descr)
                with np.errstate(over="ignore"):
                    self.assertTrue((got == np.array([1], descr) - x).all(), kind)
            other = self.save("other.npy", x.astype("f4"))
            self.assert_bad(("run", f"template={cu}", "--in", other, "--out", self.output),
                            f"has dtype <f4, and argument x is {kind}, in a file {descr}")

    def counting(self):
        self.write("counting.c", "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args);\n"
                                 "__attribute__((visibility(\"default\")))\n"
                                 "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args)\n"
                                 "{\n    for (unsigned long long i = b; i < e; i++)\n"
                                 "        (*(float *const *)args[0])[i] = (float)i;\n}\n")
        return self.write("counting.cu", "//! template counting\n//! size n\n//! arg out out f32[n]\n//! dtype f32\n"
                                         "//! grid n\n//! block 32\n//! entry counting align 4\n")

    def test_shapes_and_counts_are_checked(self):
        spec = f"template={example('transpose')}"
        line = self.save("line.npy", np.zeros(5, dtype=np.float32))
        self.assert_bad(("run", spec, "--in", line, "--out", self.output), "has 1 dimensions, and argument x has 2")
        self.assert_bad(("run", spec, "--in", self.input, "--in", self.input, "--out", self.output), "reads 1 array, 2 given")
        self.assert_bad(("run", spec + " dtype=f32", "--in", self.input, "--out", self.output), "argument x is f32")
        self.assert_bad(("run", spec, "--in", self.input, "--out", self.output, "--arg", "q=1"), "--arg")
        self.assert_bad(("run", "op=copy", "--in", self.input, "--out", self.output, "--arg", "q=1"), "--arg")
        self.assertFalse(os.path.exists(self.output))

    def test_numbers_are_passed(self):
        cu = self.write("scale.cu", "//! template scale\n//! size n\n//! param block 32..64 = 32\n//! dtype f32\n"
                                    "//! arg out out f32[n]\n//! arg x in f32[n]\n//! arg by float\n//! arg n uint32 = n\n"
                                    "//! grid (n + block - 1) / block\n//! entry scale align 4\n")
        self.write("scale.c", "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long b,\n"
                              "    unsigned long long e, void *const *a);\n"
                              "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *a)\n{\n"
                              "    for (unsigned long long i = b * KILN_BLOCK; i < e * KILN_BLOCK && i < *(unsigned *)a[3]; i++)\n"
                              "        (*(float *const *)a[0])[i] = (*(float *const *)a[1])[i] * *(float *)a[2];\n}\n")
        x = self.save("v.npy", self.x)
        line = ("run", f"template={cu}", "--in", x, "--out", self.output)
        self.kiln(*line, "--arg", "by=2.5")
        self.assert_same(np.load(self.output), self.x * np.float32(2.5), "f32")
        self.assert_bad(line, "argument by is a number of type f32: give --arg by=VALUE")
        self.assert_bad((*line, "--arg", "by=two"), "argument by is a number of type f32")

    def test_numbers_out_of_range_are_refused(self):
        kinds = ("i8", "u32", "i64", "u64", "f32", "f64")
        cu = self.write("take.cu", "//! template take\n//! size n\n//! param block 32..64 = 32\n//! dtype f32\n"
                                   "//! arg out out f64[6]\n//! arg x in f32[n]\n"
                                   + "".join(f"//! arg {kind}_ {kind}\n" for kind in kinds) +
                                   "//! grid 1\n//! entry take align 4\n")
        reads = "".join(f"    out[{i}] = (double)*({kind} *)a[{i + 2}];\n"
                        for i, kind in enumerate(("signed char", "unsigned", "long long", "unsigned long long", "float", "double")))
        self.write("take.c", "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long b,\n"
                             "    unsigned long long e, void *const *a);\n"
                             "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *a)\n{\n"
                             f"    double *out = *(double *const *)a[0];\n    (void)b, (void)e;\n{reads}}}\n")
        most = {"i8": -128, "u32": 2**32 - 1, "i64": -2**63, "u64": 2**64 - 1, "f32": 2.0**-149, "f64": 5e-324}

        def line(**changed):
            numbers = [f"--arg={kind}_={changed.get(kind, value)}" for kind, value in most.items()]
            return ("run", f"template={cu}", "--in", self.save("v.npy", self.x), "--out", self.output, *numbers)

        self.kiln(*line())
        self.assertEqual(list(np.load(self.output)), [float(value) for value in most.values()])
        for kind, value in (("i8", 128), ("u32", 2**32), ("u32", -1), ("i64", 2**63), ("i64", -2**63 - 1),
                            ("u64", 2**64), ("f32", "1e39"), ("f32", "1e-50"), ("f64", "-1e309"), ("f64", "1e-400")):
            self.assert_bad(line(**{kind: value}), f"--arg {kind}_={value}: does not fit {kind}")
        self.assert_bad(line(i64="9x"), "argument i64_ is a number of type i64")

    def on_the_stand_in(self, name, count, shape, poisoned=False):
        """A template that clamps as many elements as `count` says, run on the stand-in driver and verified by its twin, which
        gives NaNs of its own. With the shape "n" it takes a number of elements."""
        if not FAKE_LIBCUDA or not compiler_builds_for_gpus(self):
            self.skipTest("no stand-in driver, or no NVRTC")
        cu = self.write(f"{name}.cu", f"//! template {name}\n//! size n\n//! param block 32..64 = 32\n//! dtype f32\n"
                                      f"//! arg out out f32[{shape}]\n//! arg x in f32[n]\n//! arg n uint64 = {count}\n"
                                      f"//! grid 1\n//! entry {name} align 4\nextern \"C\" __global__ void "
                                      f"{name}(float *out, const float *x, unsigned long long n) {{ out[0] = x[n - 1]; }}\n")
        self.write(f"{name}.c", "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long b,\n"
                                "    unsigned long long e, void *const *a);\n"
                                "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *a)\n{\n"
                                "    for (unsigned long long i = 0; b < e && i < *(unsigned long long *)a[2]; i++) {\n"
                                "        float x = (*(float *const *)a[1])[i];\n"
                                "        (*(float *const *)a[0])[i] = x != x ? -__builtin_nanf(\"7\") : x > 0 ? (x < 6 ? x : 6) : 0;\n"
                                "    }\n}\n")
        self.env.update(KILN_DEVICE="cuda:0", KILN_LIBCUDA=FAKE_LIBCUDA, KILN_FAKE_CUDA="relu6=1")
        if poisoned:
            self.env["MALLOC_PERTURB_"] = str(0xA5 ^ 0xFF)  # fresh memory holds what kiln run fills its result with
        return ("run", f"template={cu}", "--in", self.input, "--out", self.output, "--verify")

    def test_a_late_nan_is_compared_quickly(self):
        values = np.ones(1 << 21, dtype=np.float32)
        values[-1] = np.nan
        self.input = self.save("v.npy", values)
        for name, shape in (("clamp", "n"), ("clamp2", "max(n, 1)")):
            with self.subTest(shape):
                line = self.on_the_stand_in(name, "n", shape)
                text = self.kiln(*line).stdout
                self.assertIn(f"verified  {len(values)} elements equal to the cpu twin", text)
                self.assertIn(f"sizes     n={len(values)}", text)
                self.assertNotEqual(np.load(self.output).view(np.uint32)[-1], 0xFFC00007)
                row = self.kiln_json(*line, "--stats")
                self.assertEqual((row["verified"], row["elements"], row["stats"]["gets"]), (True, len(values), 2))

    def test_what_neither_computes_is_not_equal(self):
        self.input = self.save("v.npy", np.ones(1003, dtype=np.float32))
        for name, shape in (("most", "n"), ("most2", "max(n, 1)")):
            with self.subTest(shape):
                line = self.on_the_stand_in(name, "n - 1", shape, poisoned=True)
                self.assertIn("the first is element 1002 of out: it is 0xa5a5a5a5", self.kiln(*line, status=1).stderr)
                self.assertIs(json.loads(self.kiln(*line, "--json", status=1).stdout)["verified"], False)
                self.assertFalse(os.path.exists(self.output))


if __name__ == "__main__":
    unittest.main()
