"""Recording what a program asks for, warming it for other targets, checking that, and running in strict mode."""

import os
import re
import subprocess
import unittest

import numpy as np
from support import FAKE_LIBCUDA, KILN, KilnTest, compiler_builds_for_gpus

HEADING = "# kiln record"


class Record(KilnTest):
    def setUp(self):
        super().setUp()
        self.record = self.path("record.txt")
        self.env.pop("KILN_STRICT", None)
        self.recording = dict(self.env, KILN_RECORD=self.record)
        self.strict = dict(self.env, KILN_STRICT="1")
        self.input = self.save("x.npy", np.linspace(-4, 4, 1000, dtype=np.float32))

    def run_spec(self, spec, status=0, **options):
        return self.kiln("run", spec, "--in", self.input, "--out", self.path("y.npy"), status=status, **options)

    def recorded(self):
        with open(self.record, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertTrue(lines[0].startswith(HEADING), lines[0])
        return lines[1:]

    def write(self, name, text):
        path = self.path(name)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return path

    def test_record_warm_check_strict(self):
        """What was recorded on one machine is warmed on a second and runs on a third, where compiling is refused."""
        self.run_spec("op=hardsigmoid", env=self.recording)
        self.run_spec("op=hardsigmoid", env=self.recording)
        self.run_spec("op=hardtanh(-2,2) dtype=f32 block=64", env=self.recording)
        self.assertEqual(self.recorded(), ["op=hardsigmoid dtype=f32", "op=hardtanh(-2,2) dtype=f32 block=64"])

        line = ("warm", "--manifest", self.record, "--target", "cpu", "--cache-dir", self.path("image"))
        missing = self.kiln_json(*line, "--check", status=1)
        self.assertEqual((missing["specs"], missing["found"], missing["missing"]), (2, 0, 2))
        self.assertEqual([row["spec"] for row in missing["to_compile"]],
                         [f"{text} target=cpu" for text in self.recorded()])
        self.assertEqual(self.kiln_json(*line, env=self.strict)["compiled"], 2)
        found = self.kiln_json(*line, "--check")
        self.assertEqual((found["found"], found["missing"], found["to_compile"]), (2, 0, []))

        strict = dict(self.strict, KILN_CACHE_DIR=self.path("image"))
        self.run_spec("op=hardsigmoid", env=strict)
        self.run_spec("op=hardtanh(-2,2) block=64", env=strict)
        result = self.run_spec("op=hardtanh(-3,3) block=64", env=strict, status=1)
        command = re.search(r"run (kiln warm '[^']*')", result.stderr)
        self.assertIsNotNone(command, result.stderr)
        self.assertIn("op=hardtanh(-3,3)", command[1])
        self.assertIn("target=cpu", command[1])
        path = os.path.dirname(KILN) + os.pathsep + self.env["PATH"]
        subprocess.run(command[1], shell=True, check=True, env=dict(strict, PATH=path), stdout=subprocess.DEVNULL)
        self.run_spec("op=hardtanh(-3,3) block=64", env=strict)

    def test_recorded_on_the_cpu_runs_on_a_gpu(self):
        """The geometry of each target is chosen for that target, so that the GPU asks for what was warmed for it."""
        if not compiler_builds_for_gpus(self) or not FAKE_LIBCUDA:
            self.skipTest("no NVRTC or no stand-in driver")
        self.run_spec("op=hardsigmoid", env=self.recording)
        self.kiln("warm", "--manifest", self.record, "--target", "sm_80,sm_90,sm_100")
        gpu = dict(self.strict, KILN_DEVICE="cuda:0", KILN_LIBCUDA=FAKE_LIBCUDA)
        for sm in (80, 90, 100):
            result = self.run_spec("op=hardsigmoid", env=dict(gpu, KILN_FAKE_CUDA=f"sm={sm}"))
            self.assertNotIn("strict", result.stderr)
        self.assertIn(" target=sm_86'", self.run_spec("op=hardsigmoid", status=1,
                                                      env=dict(gpu, KILN_FAKE_CUDA="sm=86")).stderr)

    def test_check_lists_a_manifest(self):
        self.kiln("warm", "op=relu6 dtype=f32 target=cpu")
        result = self.kiln("warm", "op=relu6,copy dtype=f32,f64", "--target", "cpu", "--check", status=1)
        self.assertIn("3 of 4 specs would have to be compiled", result.stderr)
        self.assertEqual(result.stdout.splitlines(), ["op=relu6 dtype=f64 target=cpu", "op=copy dtype=f32 target=cpu",
                                                      "op=copy dtype=f64 target=cpu"])
        rest = self.write("rest.txt", result.stdout)
        self.assertEqual(self.kiln_json("warm", "--manifest", rest)["compiled"], 3)
        result = self.kiln("warm", "op=relu6,copy dtype=f32,f64", "--target", "cpu", "--check")
        self.assertEqual(result.stdout, "")
        self.assertIn("4 specs: nothing to compile", result.stderr)

    def test_check_finds_damage_and_bad_specs(self):
        self.kiln("warm", "op=relu6 dtype=f32 target=cpu")
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(self.cache) for name in names]
        for path in paths:
            if os.path.getsize(path) > 2000:
                os.truncate(path, 2000)
        result = self.kiln("warm", "op=relu6 dtype=f32 target=cpu", "--check", status=1)
        self.assertIn("1 of 1 specs", result.stderr)
        self.kiln("warm", "dtype=f32 target=cpu", "--check", status=2)
        self.assert_bad(("warm", "--check"), "nothing to compile")

    def test_torn_and_foreign_lines_are_skipped(self):
        bad = self.write("bad.txt", f"{HEADING}\nop=relu6 dty\n\xff\xfe\nop=relu6 dtype=f32\n\n=\nop=relu6 dtype=f32 vec")
        totals = self.kiln_json("warm", "--manifest", bad, "--target", "cpu")
        self.assertEqual((totals["specs"], totals["compiled"], totals["skipped"]), (1, 1, 4))
        result = self.kiln("warm", "--manifest", bad, "--target", "cpu", "--check")
        self.assertEqual(result.stderr.count("skipped"), 4)
        self.assertIn("bad.txt:2: skipped", result.stderr)
        for target in ("sm_9000", "cpu,,cpu", "cpu,"):
            self.kiln("warm", "--manifest", bad, "--target", target, status=2)
        by_hand = self.write("hand.txt", "op=relu6 dtype=f32\nop=relu6 dty\n")
        self.assertIn("hand.txt:2", self.kiln("warm", "--manifest", by_hand, "--target", "cpu", status=2).stderr)

    def test_impossible_elsewhere_is_skipped(self):
        record = self.write("record.txt", f"{HEADING}\nop=relu6 dtype=f32 vector=8\nop=relu6 dtype=f32\n")
        totals = self.kiln_json("warm", "--manifest", record, "--target", "cpu", "--check", status=1)
        self.assertEqual((totals["specs"], totals["skipped"]), (1, 1))

    def test_a_record_that_cannot_be_written_is_a_warning(self):
        result = self.run_spec("op=relu6", env=dict(self.env, KILN_RECORD=self.path("none/record.txt")))
        self.assertEqual(result.stderr.count("not recorded"), 1)
        self.assertIn("none/record.txt", result.stderr)


if __name__ == "__main__":
    unittest.main()
