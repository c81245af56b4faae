"""kiln tune on the cpu: the search for real, if not its speed; and on the stand-in driver's GPUs."""
import json
import os
import pathlib
import pty
import signal
import subprocess
import time
import unittest

from support import FAKE_LIBCUDA, KILN, KilnTest, compiler_builds_for_gpus

SPEC = "op=relu6 dtype=f32 target=cpu"


class TuneTest(KilnTest):
    def entries(self):
        return sum(len(files) for _, _, files in os.walk(self.env["KILN_CACHE_DIR"]))

    def await_entries(self, process, count):
        until = time.monotonic() + 40
        while self.entries() < count and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        self.assertIsNone(process.poll(), "it ended by itself")
        self.assertGreaterEqual(self.entries(), count, "it compiles next to nothing")


class Tune(TuneTest):
    def test_finds_a_winner_among_the_variants(self):
        result = self.kiln_json("tune", SPEC, "--size", "2^18", "--budget", "5")["results"][0]
        variants = result["variant_results"]
        self.assertEqual((result["device"], result["elements"]), ("cpu", 1 << 18))
        self.assertGreater(result["variants"], 2)
        self.assertEqual(len(variants), result["variants"])
        self.assertEqual(len({variant["spec"] for variant in variants}), len(variants))
        self.assertEqual(result["spec"], variants[0]["spec"])
        self.assertEqual([variant["verdict"] for variant in variants].count("winner"), 1)
        self.assertEqual(variants[0]["verdict"], "winner")
        self.assertEqual(result["out"], 0)
        self.assertEqual(result["settled"], result["end"] == "settled")
        self.assertGreater(result["samples"], result["variants"])
        for variant in variants:
            self.assertIn(variant["verdict"], ("winner", "tied", "given up", "slower", "unmeasured"))
            self.assertLessEqual(variant["ratio_low"], variant["ratio_high"])
            self.assertEqual(variant["time_ms"] > 0, variant["ratio"] > 0)

    def test_what_is_fixed_stays(self):
        result = self.kiln_json("tune", SPEC + " elems=32", "--size", "2^16", "--budget", "2")["results"][0]
        for variant in result["variant_results"]:
            self.assertIn(" elems=32 ", variant["spec"])

    def test_prints_a_table(self):
        lines = self.kiln("tune", "op=relu6 dtype=f32,f16 target=cpu", "--size", "2^16", "--budget", "1").stdout
        self.assertIn("op=relu6 dtype=f32 block=", lines)
        self.assertIn("op=relu6 dtype=f16 block=", lines)
        self.assertEqual(lines.count("time / default"), 2)
        self.assertEqual(lines.count("winner"), 2)

    def test_interrupted_it_tells_what_it_knows(self):
        # The first spec's kernels are there: a new entry is the second's, and two more specs are to come.
        self.kiln("tune", SPEC, "--size", "2^18", "--budget", "1", "--no-learn")
        before = self.entries()
        process = subprocess.Popen([KILN, "tune", SPEC.replace("f32", "f32,f16,f64,bf16"), "--size", "2^18", "--budget",
                                    "20", "--no-learn", "--json"], env=self.env, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.await_entries(process, before + 1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
        self.assertEqual(process.returncode, 130, err)
        # The new entry need not be ready for a launch yet.
        self.assertRegex(err, r"\A(kiln: stopped before any of the \d+ variants was ready\n)?"
                              r"kiln: interrupted: not everything was tuned\n\Z")
        results = json.loads(out)["results"]
        self.assertIn(" dtype=f32 ", results[0]["spec"])
        self.assertLess(len(results), 4)

    def test_bad_input(self):
        for arguments, word in (([], "SPEC"), ([SPEC, "--size", "many"], "many"), ([SPEC, "--budget", "0"], "budget"),
                                (["op=nothing"], "nothing"), ([SPEC + " block=33"], "33")):
            self.assert_bad(["tune", *arguments], word)

    def test_bad_input_tunes_nothing(self):
        result = self.kiln("tune", SPEC, "op=nothing", status=2)
        self.assertEqual(result.stdout, "")

    def test_sandboxed_it_finds_the_same_kind_of_thing(self):
        result = self.kiln_json("tune", SPEC, "--size", "2^16", "--budget", "1", "--sandbox")["results"][0]
        self.assertEqual((result["device"], result["elements"], result["out"]), ("cpu", 1 << 16, 0))
        self.assertEqual(result["variant_results"][0]["verdict"], "winner")
        self.assert_bad(["tune", SPEC, "--sandbox", "--no-sandbox"], "exclude")
        self.assert_bad(["tune", SPEC, "--hang", "5", "--no-sandbox"], "--no-sandbox")
        self.assert_bad(["tune", "--in-sandbox"], "for kiln itself")

    def test_nothing_is_learnt_before_it_settles(self):
        for turn in range(5):
            self.env["KILN_CACHE_DIR"] = self.path(f"cache{turn}")  # one that settles leaves a record
            result = self.kiln_json("tune", SPEC, "--size", "2^20", "--budget", "1")["results"][0]
            if result["end"] == "out of time":
                break
        else:
            self.skipTest("it settles in a second")
        self.assertEqual((result["settled"], result["learnt"], result["wisdom"]), (False, False, ""))
        self.assertIn("larger budget", result["not_learnt"])
        self.assertEqual(self.kiln_json("wisdom", "list")["records"], [])

    def test_a_bar_on_a_terminal_only(self):
        main, terminal = pty.openpty()
        args = [KILN, "tune", SPEC, "--size", "2^16", "--budget", "1"]
        process = subprocess.Popen(args, env=dict(self.env, TERM="xterm"), stdout=subprocess.DEVNULL, stderr=terminal)
        os.close(terminal)
        shown = b""
        try:
            while piece := os.read(main, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(main)
        self.assertEqual(process.wait(), 0)
        self.assertRegex(shown, rb"\[=*>? *\] \d+ of \d+ variants checked, 0 out, \d+ samples; at most 0:0\d left")
        self.assertTrue(shown.endswith(b"\r\033[K"), shown[-80:])
        self.assertEqual(self.kiln(*args[1:]).stderr, "")


GPU_SPEC = "op=relu6 dtype=f32 elems=4 vector=4 cache=stream"  # leaves the block open


@unittest.skipUnless(FAKE_LIBCUDA, "no stand-in driver")
class TuneOnGpus(TuneTest):
    """The stand-in driver computes relu6, and can have a kernel that breaks something."""

    device = None

    def setUp(self):
        super().setUp()
        self.env["KILN_LIBCUDA"] = FAKE_LIBCUDA
        if os.environ.get("KILN_SANITIZE") == "thread":
            self.skipTest("ThreadSanitizer does not see the locks inside NVRTC; the suite tuner_devices has the same threads")
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")

    def gpus(self, fields):
        return dict(self.env, KILN_FAKE_CUDA="relu6=1," + fields)

    def tune(self, *args, fields="", budget=1, **options):
        args = ("tune", *args, "--size", "5000", "--hot", "--budget", budget)
        return self.kiln_json(*args, env=self.gpus(fields), **options).get("results")

    def test_devices_of_one_model_share_the_specs(self):
        spec = GPU_SPEC.replace("elems=4", "elems=4,8,16,32")
        for names in ("all", "cuda:0,cuda:1"):
            results = self.tune(spec, "--device", names, fields="devices=2,alike=1")
            self.assertEqual([f" elems={elems} " in result["spec"] for elems, result in zip((4, 8, 16, 32), results)],
                             [True] * 4)
            self.assertEqual({result["device"] for result in results}, {"cuda:0", "cuda:1"})
            for result in results:
                self.assertEqual(result["out"], 0)

    def test_each_model_tunes_all(self):
        for more in ((), ("--sandbox",)):
            results = self.tune(GPU_SPEC, GPU_SPEC.replace("elems=4", "elems=8"), "--device", "cuda:1,cuda:0,cpu", *more,
                                fields="devices=2", budget=2)
            self.assertEqual([result["device"] for result in results], ["cuda:1", "cuda:0", "cpu"] * 2)
            self.assertEqual([" elems=4 " in result["spec"] for result in results], [True] * 3 + [False] * 3)

    def test_bad_devices(self):
        for names, word, status in (("cuda:0,cuda:0", "twice", 2), ("cuda:0,", "unknown device ''", 2),
                                    ("cuda:0,gpu", "gpu", 2), ("cuda:0,cuda:2", "cuda:2", 1)):
            result = self.kiln("tune", GPU_SPEC, "--device", names, env=self.gpus("devices=2"), status=status)
            self.assertEqual((result.stdout, len(result.stderr.splitlines())), ("", 1), result.stderr)
            self.assertIn(word, result.stderr)
        result = self.kiln("tune", GPU_SPEC, "--device", "all", env=self.gpus("devices=0"), status=1)
        self.assertIn("no GPU", result.stderr)
        result = self.kiln("tune", GPU_SPEC + " target=cpu", "--device", "all", env=self.gpus("devices=2"), status=2)
        self.assertIn("does not run on cuda", result.stderr)

    def check_left_out(self, result, words):
        out = [variant for variant in result["variant_results"] if variant["verdict"] == "out"]
        self.assertEqual((len(out), result["out"], result["variants"]), (1, 1, 5))
        self.assertIn(" block=512 ", out[0]["spec"])
        self.assertRegex(out[0]["problem"], words)
        self.assertEqual(result["variant_results"][0]["verdict"], "winner")

    def test_goes_on_without_a_variant_that_breaks_something(self):
        # The sanitizers turn a crash into an exit.
        for bad, words in (("fault", "ILLEGAL_ADDRESS"), ("crash", "ended its process"), ("hang", "not end within 2 s")):
            more = ("--hang", "2") if bad == "hang" else ()
            result = self.tune_leaving_out(GPU_SPEC, "--size", "5000", "--hot", "--sandbox", *more,
                                           env=self.gpus(f"bad={bad}:512"))
            self.check_left_out(result, words)

    def test_without_a_sandbox_a_fault_is_named(self):
        result = self.kiln("tune", GPU_SPEC, "--size", "5000", env=self.gpus("bad=fault:512"), status=1)
        self.assertEqual(result.stdout, "")
        self.assertIn("this was being tried: op=relu6 dtype=f32 block=512 ", result.stderr)

    def test_a_default_that_breaks_something_ends_it(self):
        for bad, status in (("crash", 1), ("fault", 1)):
            result = self.kiln("tune", GPU_SPEC, "--size", "5000", "--sandbox", env=self.gpus(f"bad={bad}:128"),
                               status=status)
            self.assertEqual(result.stdout, "")
            self.assertIn("the default geometry cannot be skipped", result.stderr)
            self.assertIn(" block=128 ", result.stderr)

    def test_there_is_an_end_to_leaving_out(self):
        # 12 of the variants have 512 threads in a block.
        result = self.kiln("tune", "op=relu6 dtype=f32 vector=1", "--size", "5000",
                           "--hot", "--budget", "20", "--sandbox", env=self.gpus("bad=crash:512"), status=1)
        self.assertEqual(result.stdout, "")
        self.assertIn("after 8 variants that had to be left out", result.stderr)
        self.assertIn(" block=512 ", result.stderr)

    def test_an_interrupt_reaches_the_sandbox(self):
        # It has over a hundred variants to compile, and is interrupted after the first few.
        spec = "op=relu6 dtype=f32"
        self.kiln("warm", spec, "--target", "sm_90")  # the default, which is measured first
        before = self.entries()
        args = [KILN, "tune", spec, "--size", "5000", "--hot", "--budget", "60", "--sandbox", "--json"]
        with subprocess.Popen(args, env=self.gpus(""), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            self.await_entries(process, before + 8)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
            out, err = process.communicate(timeout=50)
        self.assertEqual((process.returncode, err), (130, "kiln: interrupted: not everything was tuned\n"))
        self.assertEqual(json.loads(out)["results"][0]["end"], "stopped")

    def test_a_sandbox_does_not_outlive_its_parent(self):
        args = [KILN, "tune", GPU_SPEC, "--size", "5000", "--hot", "--budget", "60", "--sandbox"]
        process = subprocess.Popen(args, env=self.gpus("bad=hang:128"), stdout=subprocess.DEVNULL)
        children = f"/proc/{process.pid}/task"
        child = None
        for _ in range(500):
            found = [pid for task in os.listdir(children)
                     for pid in pathlib.Path(f"{children}/{task}/children").read_text("ascii").split()]
            found = [pid for pid in found if b"--in-sandbox" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
            if found:
                child = int(found[0])
                break
            time.sleep(0.02)
        self.assertIsNotNone(child)
        time.sleep(0.5)
        process.kill()
        process.wait()
        for _ in range(500):
            try:
                with open(f"/proc/{child}/stat", encoding="ascii") as stat:
                    if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                        break  # dead, and nobody here collects orphans
            except FileNotFoundError:
                break
            time.sleep(0.02)
        else:
            os.kill(child, signal.SIGKILL)
            self.fail("the child was alive")


if __name__ == "__main__":
    unittest.main()
