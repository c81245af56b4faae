"""kiln tune on the cpu: the search for real, if not its speed."""
import json
import signal
import subprocess
import time
import unittest

from support import KILN, KilnTest

SPEC = "op=relu6 dtype=f32 target=cpu"


class Tune(KilnTest):
    def test_finds_a_winner_among_the_variants(self):
        result = self.kiln_json("tune", SPEC, "--size", "2^18", "--budget", "5")["results"][0]
        trials = result["trials"]
        self.assertEqual((result["device"], result["elements"]), ("cpu", 1 << 18))
        self.assertGreater(result["variants"], 2)
        self.assertEqual(len(trials), result["variants"])
        self.assertEqual(len({trial["spec"] for trial in trials}), len(trials))
        self.assertEqual(result["spec"], trials[0]["spec"])
        self.assertEqual([trial["verdict"] for trial in trials].count("winner"), 1)
        self.assertEqual(trials[0]["verdict"], "winner")
        self.assertEqual(result["out"], 0)
        self.assertGreater(result["samples"], result["variants"])
        for trial in trials:
            self.assertIn(trial["verdict"], ("winner", "tied", "given up", "slower", "unmeasured"))
            self.assertLessEqual(trial["ratio_low"], trial["ratio_high"])
            self.assertEqual(trial["time_ms"] > 0, trial["ratio"] > 0)

    def test_what_is_fixed_stays(self):
        result = self.kiln_json("tune", SPEC + " elems=32", "--size", "2^16", "--budget", "2")["results"][0]
        for trial in result["trials"]:
            self.assertIn(" elems=32 ", trial["spec"])

    def test_prints_a_table(self):
        lines = self.kiln("tune", "op=relu6 dtype=f32,f16 target=cpu", "--size", "2^16", "--budget", "1").stdout
        self.assertIn("op=relu6 dtype=f32 block=", lines)
        self.assertIn("op=relu6 dtype=f16 block=", lines)
        self.assertEqual(lines.count("time / default"), 2)
        self.assertEqual(lines.count("winner"), 2)

    def test_interrupted_it_tells_what_it_knows(self):
        # The kernels are there already, so that something is known soon.
        self.kiln("tune", SPEC, "--size", "2^18", "--budget", "1")
        process = subprocess.Popen([KILN, "tune", SPEC, "--size", "2^18", "--budget", "60", "--json"], env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started = time.monotonic()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
        self.assertLess(time.monotonic() - started, 40, "it did not end before its budget")
        self.assertIn(process.returncode, (0, 1), err)
        if process.returncode == 0:
            self.assertIn(json.loads(out)["results"][0]["end"], ("stopped", "settled", "exhausted"))

    def test_bad_input(self):
        for arguments, word in (([], "SPEC"), ([SPEC, "--size", "many"], "many"), ([SPEC, "--budget", "0"], "budget"),
                                (["op=nothing"], "nothing"), ([SPEC + " block=33"], "33")):
            self.assert_bad(["tune", *arguments], word)


if __name__ == "__main__":
    unittest.main()
