"""kiln sweep on the cpu, and what sweep, tune and bench write: CSV and pictures. What a picture looks like, test_plots.py knows."""
import csv
import io
import json
import os
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree as ET

from support import KILN, KilnTest

SPEC = "op=relu6 dtype=f32 target=cpu"
SVG = "{http://www.w3.org/2000/svg}"
VARIANT_COLUMNS = ("device model target op dtype elements bytes block elems vector spec verdict problem time_ms gbps ratio "
                   "ratio_low ratio_high ceiling_ratio samples registers local_bytes ceiling_gbps").split()
BENCH_COLUMNS = ("device model target op dtype elements bytes block elems vector spec time_ms min_ms max_ms gbps ceiling_ratio "
                 "ceiling_gbps verified source compile_ms first_get_ms get_us low_ms high_ms memory_copy_gbps "
                 "copy_kernel_gbps").split()


class Results(KilnTest):
    def rows(self, text):
        """The rows of a table, which must be whole lines of equal length."""
        self.assertTrue(text.endswith("\r\n"), text)
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        rows = list(reader)
        self.assertTrue(all(None not in row and None not in row.values() for row in rows))
        return reader.fieldnames, rows

    def read(self, name):
        with open(self.path(name), newline="", encoding="utf-8") as file:
            return file.read()

    def texts(self, name):
        return ["".join(element.itertext()) for element in ET.parse(self.path(name)).iter(SVG + "text")]

    def interrupt(self, *args, after=2.0):
        """Runs the command, interrupts it once and returns it and what it said."""
        process = subprocess.Popen([KILN, *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
        return process, out, err


class Sweep(Results):
    def test_every_variant_is_measured(self):
        result = self.kiln_json("sweep", SPEC, "--size", "2^16", "--rounds", "5")["results"][0]
        variants = result["variant_results"]
        self.assertEqual((result["device"], result["elements"], result["bytes"]), ("cpu", 1 << 16, 8 << 16))
        self.assertEqual((result["rounds"], result["out"], result["end"]), (5, 0, "complete"))
        self.assertEqual(len(variants), result["variants"])
        self.assertEqual(len({variant["spec"] for variant in variants}), len(variants))
        self.assertGreater(len(variants), 3)
        self.assertGreater(result["ceiling_gbps"], 0)
        self.assertEqual([variant["ratio"] for variant in variants], sorted(variant["ratio"] for variant in variants))
        for variant in variants:
            self.assertEqual(variant["samples"], 5)
            self.assertGreater(variant["gbps"], 0)
            self.assertGreater(variant["ceiling_ratio"], 0)
            self.assertIsNone(variant["registers"])
        compared = [variant for variant in variants if variant["spec"] == result["compared_with"]]
        self.assertEqual([(t["ratio"], t["ratio_low"], t["ratio_high"]) for t in compared], [(1, 1, 1)])

    def test_lists_add_to_the_space(self):
        result = self.kiln_json("sweep", SPEC + " block=512,1024,64 elems=8,64", "--size", "2^12", "--rounds", "2")["results"]
        self.assertEqual(len(result), 1)
        geometries = {tuple(variant["spec"].split()[2:4]) for variant in result[0]["variant_results"]}
        self.assertEqual(geometries, {(f"block={b}", f"elems={e}") for b in (64, 512, 1024) for e in (8, 64)})
        self.assertIn("block=1024 elems=64", result[0]["compared_with"])

    def test_kinds_are_swept_apart(self):
        result = self.kiln("sweep", "op=relu6 dtype=f32,f16 target=cpu elems=8", "op=add dtype=f32 elems=8", SPEC + " elems=8",
                           "--size", "2^12", "--rounds", "2")
        for kind in ("op=relu6 dtype=f32 target=cpu", "op=relu6 dtype=f16 target=cpu", "op=add(x,y) dtype=f32 target=cpu"):
            self.assertIn(f"{kind}\n", result.stdout)
        self.assertEqual(result.stdout.count("time / copy"), 3)
        self.assertEqual(result.stdout.count("winner"), 3)

    def test_csv_and_plot(self):
        self.kiln("sweep", SPEC + " block=512,1024", "--size", "2^14", "--rounds", "4", "--csv", self.path("t.csv"), "--plot",
                  self.path("t.svg"))
        titles, rows = self.rows(self.read("t.csv"))
        self.assertEqual(titles, VARIANT_COLUMNS)
        self.assertGreater(len(rows), 6)
        for row in rows:
            self.assertEqual((row["op"], row["dtype"], row["target"], row["elements"]), ("relu6", "f32", "cpu", "16384"))
            self.assertIn(f"block={row['block']} elems={row['elems']} vector={row['vector']} ", row["spec"])
            self.assertAlmostEqual(float(row["gbps"]), int(row["bytes"]) / float(row["time_ms"]) / 1e6, delta=1e-3)
            self.assertEqual((row["samples"], row["registers"], row["problem"]), ("4", "", ""))
        texts = self.texts("t.svg")
        for text in ("relu6 f32: speed by geometry", "block", "elems", "512", "1024", "64", "GB/s", "plain copy"):
            self.assertIn(text, texts)
        self.assertTrue(any(text.startswith("2^14 elements, 128.0 KiB") for text in texts), texts)

    def test_csv_to_stdout_leaves_it_alone(self):
        result = self.kiln("sweep", SPEC + " elems=8", "--size", "2^12", "--rounds", "2", "--csv", "-")
        titles, rows = self.rows(result.stdout)
        self.assertEqual((titles, len(rows)), (VARIANT_COLUMNS, 1))
        self.assertIn("time / copy", result.stderr)

    def test_plot_to_stdout(self):
        result = self.kiln("sweep", SPEC + " elems=8", "--size", "2^12", "--rounds", "2", "--plot", "-")
        self.assertEqual(ET.fromstring(result.stdout).tag, SVG + "svg")

    def test_interrupted_it_tells_what_it_knows(self):
        self.kiln("sweep", SPEC, "--size", "2^16", "--rounds", "1")
        process, out, err = self.interrupt("sweep", SPEC, "--size", "2^16", "--rounds", "100000", "--json", "--csv",
                                           self.path("t.csv"))
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("interrupted", err)
        result = json.loads(out)["results"][0]
        self.assertEqual(result["end"], "stopped")
        self.assertEqual(len(self.rows(self.read("t.csv"))[1]), result["variants"])
        self.assertEqual(sorted(name for name in os.listdir(self.dir) if name != "cache"), ["t.csv"])

    def test_what_fails_leaves_the_old_file(self):
        with open(self.path("t.csv"), "w", encoding="utf-8") as file:
            file.write("old")
        self.kiln("sweep", SPEC, "--size", "2^10", "--csv", self.path("t.csv"), status=1, env=dict(self.env, KILN_STRICT="1"))
        self.kiln("sweep", "op=relu7", "--size", "2^10", "--csv", self.path("t.csv"), status=2)
        self.assertEqual(self.read("t.csv"), "old")
        self.assertEqual(os.listdir(self.dir), ["t.csv"])

    def test_a_variant_that_cannot_be_had_fails(self):
        self.kiln("sweep", SPEC + " elems=8", "--size", "2^12", "--rounds", "1")
        result = self.kiln("sweep", SPEC + " elems=8,16", "--size", "2^12", "--rounds", "1", status=1,
                           env=dict(self.env, KILN_STRICT="1"))
        self.assertIn("problem", result.stderr)
        self.assertRegex(result.stdout, r"elems=16 .* out +.*strict")
        self.assertRegex(result.stdout, r"elems=8 .* winner")

    def test_bad_input(self):
        nowhere = self.path("nowhere/t.csv")
        for arguments, word in (([], "SPEC"), ([SPEC], "--size"), ([SPEC, "--size", "many"], "many"),
                                ([SPEC, "--size", "2^10", "--rounds", "0"], "rounds"),
                                ([SPEC, "--size", "2^10", "--rounds", "100001"], "100001"),
                                (["op=nothing", "--size", "2^10"], "nothing"),
                                ([SPEC + " block=33", "--size", "2^10"], "33"),
                                (["template=compare dtype=f32 target=cpu", "--size", "2^10"], "compare"),
                                ([SPEC, "--size", "2^10", "--csv", nowhere], nowhere),
                                ([SPEC, "--size", "2^10", "--json", "--csv", "-"], "standard output"),
                                ([SPEC, "--size", "2^10", "--plot", "-", "--csv", "-"], "standard output")):
            with self.subTest(arguments=arguments):
                self.assert_bad(["sweep", *arguments], word)


class Tune(Results):
    def test_csv_and_plot(self):
        self.kiln("tune", SPEC, "--size", "2^14", "--budget", "2", "--csv", self.path("t.csv"), "--plot", self.path("t.svg"))
        titles, rows = self.rows(self.read("t.csv"))
        self.assertEqual(titles, VARIANT_COLUMNS)
        self.assertEqual([row["verdict"] for row in rows].count("winner"), 1)
        self.assertTrue(all(row["ceiling_ratio"] == "" for row in rows))
        self.assertTrue(all(float(row["ceiling_gbps"]) > 0 for row in rows))
        self.assertTrue(any(text.startswith("plain copy: ") for text in self.texts("t.svg")))

    def test_bad_input(self):
        self.assert_bad(["tune", SPEC, "--plot", self.path("no/t.svg")], "no/t.svg")
        self.assert_bad(["tune", SPEC, "--json", "--csv", "-"], "standard output")


class Bench(Results):
    def test_sizes(self):
        result = self.kiln_json("bench", "op=relu6,hardsigmoid dtype=f32", "--size", "2^12,1k..4k,4k", "--rounds", "3")
        self.assertEqual([row["elements"] for row in result["results"]], [1024, 1024, 2048, 2048, 4096, 4096])
        self.assertEqual([row["elements"] for row in result["ceilings"]], [1024, 1024, 2048, 2048, 4096, 4096])
        self.assertTrue(all(row["verified"] for row in result["results"]))
        table = self.kiln("bench", SPEC, "--size", "2^10..2^14*4", "--rounds", "2").stdout
        for size in ("2^10 ", "2^12 ", "2^14 "):
            self.assertEqual(table.count("\n" + size), 2)

    def test_csv_and_plot(self):
        self.kiln("bench", "op=relu6,add(x,y) dtype=f32", "--size", "1000,2^12", "--rounds", "3", "--csv", self.path("t.csv"),
                  "--plot", self.path("t.svg"))
        titles, rows = self.rows(self.read("t.csv"))
        self.assertEqual(titles, BENCH_COLUMNS)
        self.assertEqual([(row["op"], row["elements"], row["bytes"]) for row in rows],
                         [("relu6", "1000", "8000"), ("add(x,y)", "1000", "12000"), ("relu6", "4096", "32768"),
                          ("add(x,y)", "4096", "49152")])
        for row in rows:
            self.assertLessEqual(float(row["min_ms"]), float(row["low_ms"]))
            self.assertLessEqual(float(row["low_ms"]), float(row["time_ms"]))
            self.assertLessEqual(float(row["time_ms"]), float(row["high_ms"]))
            self.assertAlmostEqual(max(float(row["memory_copy_gbps"]), float(row["copy_kernel_gbps"])), float(row["ceiling_gbps"]))
            self.assertEqual(row["verified"], "yes")
        texts = self.texts("t.svg")
        for text in ("Speed by size", "relu6 f32", "add(x,y) f32", "memory copy, 8 B an element", "GB/s"):
            self.assertIn(text, texts)

    def test_lines_are_named_by_what_differs(self):
        self.kiln("bench", SPEC + " block=64,128", "--size", "1k,2k", "--rounds", "2", "--plot", self.path("t.svg"))
        texts = self.texts("t.svg")
        for text in ("relu6: speed by size", "relu6 f32 block=64", "relu6 f32 block=128", "memory copy", "copy kernel",
                     "elements", "bytes read and written"):
            self.assertIn(text, texts)

    def test_interrupted_it_tells_what_it_knows(self):
        self.kiln("bench", SPEC, "--size", "2^10", "--rounds", "1")
        process, out, err = self.interrupt("bench", SPEC, "--size", "2^10..2^16", "--rounds", "2000", "--json", after=2.5)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("interrupted", err)
        sizes = [row["elements"] for row in json.loads(out)["results"]]
        self.assertEqual(sizes, [1024 << i for i in range(len(sizes))])
        self.assertLess(len(sizes), 7)

    def test_bad_input(self):
        for size in ("1k,", "2^12..2^10", "1k..4k*1", "1k*2", "..4k", "1..2^62*2,1..2^62*3", "1k..4k*2*2", "1k..2k..4k"):
            with self.subTest(size=size):
                self.assert_bad(["bench", SPEC, "--size", size], size)
        self.assert_bad(["bench", SPEC, "--json", "--plot", "-"], "standard output")


if __name__ == "__main__":
    unittest.main()
