"""kiln wisdom, and what the other commands make of what was learnt."""

import json
import os
import unittest

import numpy as np

from support import KilnTest, compiler_builds_for_gpus

SPEC = "op=relu6 dtype=f32 target=cpu"
GEOMETRY = "block=512 elems=8 vector=4 cache=plain"
OTHER = "block=256 elems=16 vector=4 cache=plain"
HEAD = "{\n\"format\": 1,\n\"records\": [\n"


def record(geometry, model="Some cpu", **fields):
    """A record for the cpu, as it stands in a file."""
    known = {"model": model, "target": "cpu", "template": "elementwise", "class": "1 in, 1 out, light", "op": "relu6",
             "dtype": "f32", "log2_n": 20, "geometry": geometry}
    return json.dumps({**known, **fields})


class WisdomTest(KilnTest):
    def write(self, name, *records):
        path = self.path(name)
        with open(path, "w", encoding="ascii") as file:
            file.write(HEAD + ",\n".join(records) + "\n]\n}\n")
        os.chmod(path, 0o600)
        return path

    def share(self, *records):
        """Puts records into a shared directory, which the command then asks."""
        self.env["KILN_SHARED_DIR"] = self.path("shared")
        os.makedirs(self.path("shared/wisdom"), mode=0o700, exist_ok=True)
        self.write("shared/wisdom/known.json", *records)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()


class Wisdom(WisdomTest):

    def taken(self, spec=SPEC):
        """The geometry that every command takes, which must be what is explained."""
        explained = self.kiln_json("wisdom", "explain", spec)["spec"]
        self.assertEqual(self.kiln_json("show", spec)["spec"], explained)
        self.kiln("warm", spec)
        self.kiln("warm", spec, "--check")
        self.assertEqual(self.kiln_json("show", explained)["source"], "disk")
        return explained

    def test_import_is_what_runs_take(self):
        self.assertNotIn(GEOMETRY, self.taken())
        result = self.kiln_json("wisdom", "import", self.write("w.json", record(GEOMETRY)))
        self.assertEqual(result, {"added": 1, "replaced": 0, "present": 0, "kept": 0})
        self.assertIn(GEOMETRY, self.taken())
        x = self.save("x.npy", np.linspace(-8, 8, 5000, dtype=np.float32))
        ran = self.kiln_json("run", "op=relu6 dtype=f32", "--in", x, "--out", self.path("y.npy"), "--verify")
        self.assertIn(GEOMETRY, ran["spec"])
        self.assertEqual(ran["source"], "disk")
        self.assertIn(OTHER, self.taken(SPEC + " " + OTHER))
        self.env["KILN_WISDOM"] = "off"
        self.assertNotIn(GEOMETRY, self.taken())
        self.assertIn("no record is taken", self.kiln("wisdom", "explain", SPEC).stdout)
        self.env["KILN_WISDOM"] = "perhaps"
        self.assert_bad(["show", SPEC], "KILN_WISDOM", "perhaps", "on or off")

    def test_a_record_of_requests_is_warmed_with_what_is_asked_for(self):
        self.kiln("wisdom", "import", self.write("w.json", record(GEOMETRY, log2_n=10), record(OTHER, log2_n=20)))
        asked = self.path("asked.txt")
        self.env["KILN_RECORD"] = asked
        x = self.save("x.npy", np.ones(1000, np.float32))
        self.kiln("run", "op=relu6 n=1000", "--in", x, "--out", self.path("y.npy"))
        del self.env["KILN_RECORD"]
        self.assertIn(b"op=relu6 dtype=f32 n=1024\n", self.read(asked))
        self.kiln("cache", "purge")
        self.kiln("warm", "--manifest", asked, "--target", "cpu")
        self.env["KILN_STRICT"] = "1"
        ran = self.kiln_json("run", "op=relu6 n=1000", "--in", x, "--out", self.path("y.npy"))
        self.assertIn(GEOMETRY, ran["spec"])

    def test_list_and_filters(self):
        self.kiln("wisdom", "import", self.write("w.json", record(GEOMETRY), record(OTHER, dtype="f64"),
                                                 record(OTHER, op="hardtanh(-1,1)")))
        self.share(record(GEOMETRY, model="NVIDIA H200", target="sm_90"))
        every = self.kiln_json("wisdom", "list")["records"]
        own = self.kiln_json("wisdom", "list", "--source", "own")["records"]
        self.assertEqual(len(own), 3)
        self.assertEqual(len(every), 4)
        self.assertEqual({row["source"] for row in every}, {"own", "shared"})
        for options, count in ((["--op", "relu6"], 2), (["--op", "hardtanh"], 1), (["--dtype", "f64"], 1),
                               (["--model", "some CPU"], 3), (["--op", "relu"], 0)):
            self.assertEqual(len(self.kiln_json("wisdom", "list", "--source", "own", *options)["records"]), count)
        self.assertIn(GEOMETRY, self.kiln("wisdom", "list").stdout)
        self.assertIn("NVIDIA H200", self.kiln("wisdom", "list", "--source", "shared").stdout)
        self.assert_bad(["wisdom", "list", "--source", "elsewhere"], "elsewhere", "own or shared")
        self.assertIn("no such records", self.kiln("wisdom", "list", "--model", "abacus").stdout)

    def test_export_and_import(self):
        self.kiln("wisdom", "import", self.write("w.json", record(GEOMETRY), record(OTHER, dtype="f64")))
        text = self.kiln("wisdom", "export").stdout
        self.assertEqual(len(json.loads(text)["records"]), 2)
        path = self.path("out.json")
        self.assertEqual(self.kiln_json("wisdom", "export", path), {"file": path, "records": 2})
        self.assertEqual(self.read(path).decode(), text)
        self.kiln("wisdom", "export", path, "--dtype", "f64")
        self.assertEqual(len(json.loads(self.read(path))["records"]), 1)
        self.share(record(GEOMETRY, model="NVIDIA H200", target="sm_90"))
        everything = json.loads(self.kiln("wisdom", "export", "--all").stdout)["records"]
        self.assertEqual(len(everything), 3)
        other = ("--cache-dir", self.path("other"))
        self.assertEqual(self.kiln_json("wisdom", "import", path, path, *other)["added"], 1)
        self.assertEqual(self.kiln_json("wisdom", "import", path, *other)["present"], 1)
        newer = self.write("newer.json", record(GEOMETRY, dtype="f64", variants=9))
        self.assertEqual(self.kiln_json("wisdom", "import", newer, *other)["replaced"], 1)
        self.assertEqual(self.kiln_json("wisdom", "import", path, *other)["kept"], 1)

    def test_a_bad_file_changes_nothing(self):
        good = self.write("good.json", record(GEOMETRY))
        bad = self.write("bad.json", record(GEOMETRY), "{\"model\": 5}")
        self.assert_bad(["wisdom", "import", good, bad], bad, "model")
        self.assert_bad(["wisdom", "import", good, self.path("none")], "none", "No such file")
        self.assert_bad(["wisdom", "import", self.dir], self.dir)
        os.chmod(good, 0o622)
        self.assert_bad(["wisdom", "import", good], good, "writable")
        self.assertEqual(self.kiln_json("wisdom", "list", "--source", "own")["records"], [])
        os.chmod(good, 0o600)
        self.assertIn("no cache directory", self.kiln("wisdom", "import", good, "--cache-dir", "", status=1).stderr)

    def test_a_damaged_file_of_the_cache_is_only_a_warning(self):
        self.kiln("wisdom", "import", self.write("w.json", record(GEOMETRY)))
        with open(os.path.join(self.cache, "wisdom", "some-cpu.json"), "ab") as file:
            file.write(b"}")
        result = self.kiln("wisdom", "explain", SPEC)
        self.assertIn("no record is taken", result.stdout)
        self.assertIn("some-cpu.json", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_explain(self):
        self.kiln("wisdom", "import", self.write("w.json", record(GEOMETRY), record(OTHER, log2_n=10),
                                                 record("block=512 elems=3 vector=2 cache=plain", op="copy"),
                                                 record(OTHER, op="add(x,y)", **{"class": "2 in, 1 out, light"})))
        result = self.kiln_json("wisdom", "explain", SPEC + " n=1048576", "--model", "Some cpu")
        self.assertTrue(result["by_wisdom"])
        rows = result["candidates"]
        self.assertEqual([row["distance"] for row in rows[:3]], [0, 10, 100])
        self.assertEqual([row["chosen"] for row in rows].count(True), 1)
        self.assertTrue(rows[0]["chosen"])
        self.assertEqual((rows[0]["geometry"], rows[0]["reason"], rows[0]["refusal"]), (GEOMETRY, "exact", ""))
        self.assertIn("2^10 elements", rows[1]["reason"])
        self.assertIn("multiple of vector", rows[2]["refusal"])
        self.assertTrue(all(row["distance"] is None for row in rows[3:]))
        text = self.kiln("wisdom", "explain", SPEC + " n=1048576", "--model", "Some cpu").stdout
        self.assertIn("by wisdom: exact", text)
        self.assertIn("taken", text)
        self.assertNotIn("add(x,y)", text)
        self.assertIn("add(x,y)", self.kiln("wisdom", "explain", SPEC, "--all").stdout)

    def test_bad_usage(self):
        for args, words in ((["wisdom"], ["list, explain"]), (["wisdom", "lst"], ["did you mean list"]),
                            (["wisdom", "explain"], ["needs a SPEC"]), (["wisdom", "import"], ["needs a FILE"]),
                            (["wisdom", "list", "x"], ["unexpected 'x'"]),
                            (["wisdom", "explain", "op=relu7"], ["relu7", "relu?"]),
                            (["wisdom", "explain", SPEC, "--op", "x"], ["--op"]),
                            (["wisdom", "import", "x", "--model", "x"], ["--model"]),
                            (["wisdom", "list", "--all"], ["--all"]),
                            (["wisdom", "list", "--source", "mine"], ["mine", "shared"]),
                            (["wisdom", "export", "--json"], ["FILE"])):
            self.assert_bad(args, *words)

    def test_tune_says_where_it_went(self):
        result = self.kiln_json("tune", SPEC, "--size", "2^18", "--budget", "20")["results"][0]
        if result["learnt"]:
            self.assertTrue(os.path.isfile(result["wisdom"]))
            self.assertEqual(self.taken(), result["spec"])
        else:
            self.assertRegex(result["not_learnt"], "larger budget|quieter machine")
        text = self.kiln("tune", SPEC, "--size", "2^14", "--budget", "1", "--no-learn").stdout
        self.assertIn("\nnot learnt: ", text)

    def test_tune_says_where_it_could_not_go(self):
        os.makedirs(self.cache, mode=0o700, exist_ok=True)
        with open(os.path.join(self.cache, "wisdom"), "w", encoding="ascii"):
            pass
        result = self.kiln_json("tune", SPEC, "--size", "2^14", "--budget", "20")["results"][0]
        self.assertFalse(result["learnt"])
        if result["not_learnt"] == "Not a directory":
            self.assertEqual(os.path.dirname(result["wisdom"]), os.path.join(self.cache, "wisdom"))
            self.assertTrue(result["wisdom"].endswith(".json"))
        else:
            self.assertRegex(result["not_learnt"], "larger budget|quieter machine")
            self.assertEqual(result["wisdom"], "")


class ForGpus(WisdomTest):
    def test_what_is_known_is_warmed_and_shown_alike(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        self.share(record(GEOMETRY, model="NVIDIA H200", target="sm_90", op="hardsigmoid"))
        spec = "op=hardsigmoid dtype=f32 target=sm_90"
        explained = self.kiln_json("wisdom", "explain", spec)
        self.assertTrue(explained["by_wisdom"])
        self.assertIn(GEOMETRY, explained["spec"])
        self.assertEqual(self.kiln_json("warm", spec)["compiled"], 1)
        shown = self.kiln_json("show", spec)
        self.assertEqual((shown["spec"], shown["source"]), (explained["spec"], "disk"))
        self.kiln("warm", "op=hardsigmoid dtype=f32", "--target", "sm_90", "--check")
        self.env["KILN_WISDOM"] = "off"
        self.assertEqual(self.kiln_json("wisdom", "explain", spec)["by_wisdom"], False)


if __name__ == "__main__":
    unittest.main()
