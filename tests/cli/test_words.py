"""The words of command lines: every command takes a spec in one word, in several, by FILE.cu and by template=FILE.cu."""

import os
import shutil
import unittest

import numpy as np

from support import KilnTest, compiler_builds_for_gpus

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/examples/templates")
PLAIN = 'extern "C" __global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n'


class Words(KilnTest):
    def setUp(self):
        super().setUp()
        for end in (".cu", ".c"):
            shutil.copy(os.path.join(EXAMPLES, "hardsigmoid256" + end), self.path("mine" + end))
        self.file = self.path("mine.cu")
        self.plain = self.path("plain.cu")
        with open(self.plain, "w", encoding="utf-8") as file:
            file.write(PLAIN)
        x = self.save("x.npy", np.ones(64, np.float32))
        # How each command is called, and where its JSON has the first spec, every field set.
        self.commands = {
            ("show",): ((), lambda shown: shown["spec"]),
            ("run",): (("--in", x, "--out", self.path("y.npy")), lambda shown: shown["spec"]),
            ("warm",): (("-v",), lambda shown: shown["results"][0]["spec"]),
            ("tune",): (("--size", "2^10", "--budget", "1"), lambda shown: shown["results"][0]["spec"]),
            ("sweep",): (("--size", "2^10", "--rounds", "1"), lambda shown: shown["results"][0]["variant_results"][0]["spec"]),
            ("bench",): (("--size", "2^10", "--rounds", "1"), lambda shown: shown["results"][0]["spec"]),
            ("watch",): (("--once", "--size", "2^10"), lambda shown: shown["rows"][0]["spec"]),
            ("wisdom", "explain"): ((), lambda shown: shown["spec"]),
        }

    def shown(self, command, words):
        options, spec_of = self.commands[command]
        return spec_of(self.kiln_json(*command, *words, *options))

    def test_every_command_takes_every_form_of_an_op(self):
        fields = ("op=relu6", "dtype=f32", "block=64", "elems=4", "vector=4", "cache=plain", "target=cpu")
        for command in self.commands:
            if command == ("watch",):
                continue
            for words in ((" ".join(fields),), fields, (" ".join(fields[:2]), " ".join(fields[2:])), fields[::-1]):
                with self.subTest(command=command, words=words):
                    self.assertEqual(self.shown(command, words), " ".join(fields))

    def test_every_command_takes_every_form_of_a_template(self):
        forms = ((self.file, "block=64", "target=cpu"), (f"{self.file} block=64 target=cpu",),
                 (f"template={self.file}", "block=64", "target=cpu"), ("block=64 target=cpu", f"template={self.file}"),
                 (f"template={self.file} block=64 target=cpu",),
                 ("--template", self.file, "template=hardsigmoid256", "block=64", "target=cpu"))
        for command in self.commands:
            for words in forms:
                if command == ("watch",) and words[0] == "--template":
                    self.assert_bad(("watch", *words), "names no FILE.cu to watch")
                    continue
                with self.subTest(command=command, words=words):
                    self.assertEqual(self.shown(command, words), "template=hardsigmoid256 dtype=f32 block=64 target=cpu")

    def test_a_path_may_have_blanks_and_equals_signs(self):
        folder = self.path("my a=b files")
        os.mkdir(folder)
        for end in (".cu", ".c"):
            shutil.copy(self.path("mine" + end), folder)
        for command in self.commands:
            with self.subTest(command=command):
                self.assertIn("block=128", self.shown(command, (folder + "/mine.cu", "block=128", "target=cpu")))

    def test_where_a_field_comes_again_the_next_spec_begins(self):
        words = ("op=relu6", "dtype=f32", "target=cpu", "op=add", "dtype=f64", "target=cpu", self.file, "target=cpu")
        shown = self.kiln_json("warm", "-v", *words)["results"]
        self.assertEqual([row["spec"].split()[:2] for row in shown],
                         [["op=relu6", "dtype=f32"], ["op=add(x,y)", "dtype=f64"], ["template=hardsigmoid256", "dtype=f32"]])
        self.assertEqual(len(self.kiln_json("bench", *words, "--size", "2^10", "--rounds", "1")["results"]), 3)
        for command in ("show", "run"):
            self.assert_bad((command, *words), "one SPEC or FILE.cu expected", "'op=add dtype=f64 target=cpu' begins another")
        self.assert_bad(("watch", self.file, self.file), f"'{self.file}' begins another")
        self.assert_bad(("wisdom", "explain", *words), "unexpected 'op=add")

    def test_filters_of_an_export_are_specs(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        self.kiln("warm", "op=relu6,add", "dtype=f32,f16", "target=sm_90")
        for words, entries in ((("op=relu6 dtype=f32",), 1), (("op=relu6", "dtype=f32"), 1), (("op=relu6",), 2),
                               (("op=relu6", "op=add", "dtype=f16"), 3)):
            with self.subTest(words=words):
                self.assertEqual(self.kiln_json("cache", "export", self.path("pack"), *words)["entries"], entries)

    def test_a_word_that_fits_nothing(self):
        for command, (options, _) in self.commands.items():
            for words in (("relu6",), ("op=x", "+", "1"), ("mine.c",), ("",), (self.file, "fast")):
                with self.subTest(command=command, words=words):
                    self.assert_bad((*command, *words, *options), "neither FIELD=VALUE", "nor FILE.cu")
            with self.subTest(command=command):
                self.assert_bad((*command, self.path("none.cu"), *options), "none.cu cannot be read")
        self.assert_bad(("build", "op=relu6"), "'op=relu6' is no CUDA file")
        self.assert_bad(("build", self.plain, "block=64"), "'block=64' is no CUDA file")
        self.assert_bad(("cache", "export", self.path("pack"), "relu6"), "neither FIELD=VALUE")
        for command in ("ops", "templates", "doctor"):
            self.assert_bad((command, "op=relu6"), "unexpected 'op=relu6'")

    def test_a_file_that_declares_no_template(self):
        for command, (options, _) in self.commands.items():
            if command in (("show",), ("watch",)):
                self.assert_bad((*command, self.plain, "block=64"), "declares no template, so there are no fields such as block=64")
            else:
                self.assert_bad((*command, self.plain, *options), "plain.cu declares no template")
        if compiler_builds_for_gpus(self):
            target = ("--target", "sm_90")
            self.assertEqual(self.kiln_json("show", self.plain, *target)["resources"][0]["name"], "twice")
            self.assertEqual(self.kiln_json("build", self.plain, *target)["results"][0]["functions"][0]["function"], "twice")
            self.assertEqual(self.kiln_json("watch", self.plain, *target, "--once")["rows"][0]["function"], "twice")


if __name__ == "__main__":
    unittest.main()
