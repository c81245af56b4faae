"""Trim, export and import, and stores that are only read."""

import json
import os
import subprocess
import unittest

import numpy as np

from support import KILN, KilnTest, compiler_builds_for_gpus

GPU_SPECS = "op=relu6,hardtanh(-1,1) dtype=f32,f16 target=sm_80,sm_90"


class OnlyLooking(KilnTest):
    """Commands that only look make nothing, and say that a named directory is missing."""

    commands = (("cache", "stat"), ("cache", "list"), ("cache", "verify"), ("cache", "trim"), ("cache", "purge"),
                ("wisdom", "list"), ("wisdom", "export"), ("wisdom", "explain", "op=relu6 target=sm_90"), ("ops",),
                ("templates",), ("doctor",), ("warm", "op=relu6", "--target", "cpu,sm_90", "--check"))

    def test_nothing_is_made(self):
        fresh, empty = self.path("none/fresh"), self.path("empty")
        os.mkdir(empty, 0o700)
        for command in (*self.commands, ("cache", "export", self.path("pack"))):
            with self.subTest(command):
                result = self.kiln(*command, "--cache-dir", fresh, status=None)
                self.assertFalse(os.path.exists(os.path.dirname(fresh)))
                self.assertIn(f"kiln: --cache-dir {fresh}: there is no such directory\n", result.stderr)
                result = self.kiln(*command, "--cache-dir", empty, status=None)
                self.assertEqual(os.listdir(empty), [])
                self.assertNotIn("no such directory", result.stderr)

    def test_doctor_says_that_nothing_is_there_yet(self):
        store = lambda: next(row for row in self.kiln_json("doctor", "--cache-dir", self.path("new"))["findings"]
                             if row["name"] == "user store")
        self.assertIn("the first kernel makes its directories", store()["detail"])
        self.assertTrue(store()["ok"])
        self.kiln("warm", "op=relu6", "--target", "cpu", "--cache-dir", self.path("new"))
        self.assertIn("writable", store()["detail"])
        self.assertTrue(os.path.exists(self.path("new/CACHEDIR.TAG")))

    def test_show_without_a_kernel_makes_nothing(self):
        self.kiln("show", "op=relu6 target=sm_90", "--source", "--cache-dir", self.path("new"))
        self.assertFalse(os.path.exists(self.path("new")))


class Group(KilnTest):
    """KILN_TRUST=group: directories that the process's group may write, and packs behind links."""

    def test_directory_of_the_group(self):
        os.mkdir(self.cache)
        os.chmod(self.cache, 0o2775)
        line = ("warm", "op=relu6", "--target", "cpu")
        self.assertIn("writable by group", self.kiln(*line, status=1).stderr)
        group = dict(self.env, KILN_TRUST="group")
        self.assertEqual(self.kiln_json(*line, env=group)["kept"], 1)
        for folder, _, names in os.walk(self.cache):
            for name in names:
                os.chmod(os.path.join(folder, name), 0o660)  # as a mount with fsGroup does
        self.assertEqual(self.kiln_json(*line, env=group)["hits"], 1)
        os.chmod(self.cache, 0o777)
        self.assertIn("writable by group or others", self.kiln(*line, env=group, status=1).stderr)
        self.assert_bad(line, "KILN_TRUST", "everyone", "owner or group", env=dict(self.env, KILN_TRUST="everyone"))

    def test_pack_behind_a_link(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        line = ("warm", "op=relu6", "--target", "sm_90")
        self.kiln(*line)
        self.kiln("cache", "export", self.path("pack"))
        os.symlink("pack", self.path("link"))
        env = dict(self.env, KILN_PACKS=self.path("link"), KILN_CACHE_DIR=self.path("own"))
        self.assertIn("is a link", self.kiln(*line, env=env).stderr)
        env.update(KILN_TRUST="group", KILN_CACHE_DIR=self.path("other"))
        self.assertEqual(self.kiln_json(*line, env=env)["hits"], 1)
        os.chmod(self.path("pack"), 0o646)
        self.assertIn("writable by group or others", self.kiln(*line, env=dict(env, KILN_CACHE_DIR=self.path("new"))).stderr)


class Trim(KilnTest):
    def setUp(self):
        super().setUp()
        self.kiln("warm", "op=relu6,copy dtype=f32,f64 target=cpu")

    def test_trim_by_files_and_bytes(self):
        before = self.kiln_json("cache", "stat")["entries"]
        self.assertGreater(before, 3)
        result = self.kiln_json("cache", "trim")
        self.assertEqual((result["removed"], result["entries"]), (0, before))
        result = self.kiln_json("cache", "trim", "--files", 3)
        self.assertEqual((result["removed"], result["entries"]), (before - 3, 3))
        self.assertEqual(result["bytes"] % 4096, 0)
        self.assertEqual(self.kiln_json("cache", "stat")["entries"], 3)
        self.assertIn("left in " + self.cache, self.kiln("cache", "trim", "--bytes", "1").stdout)
        self.assertEqual(self.kiln_json("cache", "stat")["entries"], 0)

    def test_what_is_used_stays(self):
        paths = {row["spec"]: row["path"] for row in self.kiln_json("cache", "list")["list"]}
        for path in paths.values():
            os.utime(path, (1e9, 1e9))
        x = self.save("x.npy", np.ones(4, np.float64))
        used = self.kiln_json("run", "op=copy", "--in", x, "--out", self.path("y.npy"))
        self.assertEqual(used["source"], "disk")
        self.kiln("cache", "verify")
        self.kiln("cache", "trim", "--files", 2)
        left = [row["spec"] for row in self.kiln_json("cache", "list")["list"]]
        self.assertEqual(len(left), 2)
        self.assertTrue(any("op=copy dtype=f64" in spec for spec in left), left)

    def test_cap_from_the_environment(self):
        self.env["KILN_CACHE_BYTES"] = "4k"
        self.kiln("warm", "op=add dtype=f32 target=cpu", "--cache-dir", self.path("small"), status=1)
        self.assertEqual(self.kiln_json("cache", "stat", "--cache-dir", self.path("small"))["entries"], 0)
        self.env["KILN_CACHE_BYTES"] = "much"
        self.assert_bad(["cache", "stat"], "KILN_CACHE_BYTES", "much", "4G")

    def test_usage(self):
        self.assert_bad(["cache", "trim", "--bytes", "4Q"], "4Q", "500M")
        self.assert_bad(["cache", "trim", "--files", "0"], "positive")
        self.assert_bad(["cache", "trim", "x"], "unexpected 'x'")
        self.assert_bad(["cache", "stat", "--bytes", "5"], "trim")
        self.assert_bad(["cache", "export"], "needs the file")
        self.assert_bad(["cache", "import"], "needs the pack")
        self.assert_bad(["cache", "import", "a", "b"], "unexpected 'b'")
        self.assert_bad(["cache", "expert", "a"], "did you mean export")
        self.assert_bad(["cache", "import", self.path("none")], "none", "No such file")
        self.assert_bad(["cache", "export", self.dir], self.dir, "Is a directory")
        self.assert_bad(["cache", "export", self.path("p"), "op=relu7"], "op=relu7", "relu?")
        self.assertFalse(os.path.exists(self.path("p")))
        self.assert_bad(["cache", "export", self.path("no/p")], self.path("no/p"), "cannot be written", "No such file")

    def test_shared_directory(self):
        self.env.update(KILN_SHARED_DIR=self.cache, KILN_CACHE_DIR=self.path("own"))
        x = self.save("x.npy", np.ones(4, np.float32))
        args = ("run", "op=relu6", "--in", x, "--out", self.path("y.npy"))
        self.assertEqual(self.kiln_json(*args)["source"], "shared")
        os.chmod(self.cache, 0o777)
        result = self.kiln(*args)
        self.assertIn("compiled in", result.stdout)
        self.assertIn("writable by group or others", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)


class Packs(KilnTest):
    def setUp(self):
        super().setUp()
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        self.kiln("warm", GPU_SPECS)
        self.kiln("warm", "op=relu6 dtype=f32 target=cpu")
        self.pack = self.path("some.kilnpack")

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_export_and_import(self):
        moved = self.kiln_json("cache", "export", self.pack)
        self.assertEqual((moved["entries"], moved["damaged"], moved["file"]), (8, 0, self.pack))
        self.assertGreaterEqual(moved["skipped"], 2)
        self.assertEqual(moved["bytes"], os.path.getsize(self.pack))
        other = ("--cache-dir", self.path("other"))
        moved = self.kiln_json("cache", "import", self.pack, *other)
        self.assertEqual((moved["added"], moved["present"], moved["skipped"]), (8, 0, 0))
        moved = self.kiln_json("cache", "import", self.pack, *other)
        self.assertEqual((moved["added"], moved["present"]), (0, 8))
        self.assertIn("8 there already", self.kiln("cache", "import", self.pack, *other).stdout)
        self.assertIn("0 damaged", self.kiln("cache", "verify", *other).stdout)
        self.kiln("cache", "export", self.path("again"), *other)
        self.assertEqual(self.read(self.pack), self.read(self.path("again")))
        warmed = self.kiln_json("warm", GPU_SPECS, *other)
        self.assertEqual((warmed["hits"], warmed["compiled"]), (8, 0))

    def test_import_into_a_cache_that_is_too_small(self):
        self.kiln("cache", "export", self.pack)
        env = dict(self.env, KILN_CACHE_BYTES="1M")
        result = self.kiln("cache", "import", self.pack, "--cache-dir", self.path("other"), "--json", env=env, status=1)
        self.assertEqual(json.loads(result.stdout)["added"], 0)
        self.assertIn("8 of 8 entries are not in the store", result.stderr)
        self.assertIn("too large for a cache of 1048576 bytes", result.stderr)

    def test_standard_streams(self):
        self.kiln("cache", "export", self.pack)
        pipe = f'"$0" cache export - | "$0" cache import - --json --cache-dir {self.path("piped")}'
        result = subprocess.run(["sh", "-c", pipe, KILN], env=self.env, stdout=subprocess.PIPE, check=True)
        self.assertEqual(json.loads(result.stdout)["added"], 8)
        result = subprocess.run([KILN, "cache", "export", "-"], env=self.env, stdout=subprocess.PIPE, check=True)
        self.assertEqual(result.stdout, self.read(self.pack))
        self.assert_bad(("cache", "export", "-", "--json"), "needs a FILE")
        pipe = f'"$0" wisdom export - | "$0" wisdom import - --json --cache-dir {self.path("piped")}'
        result = subprocess.run(["sh", "-c", pipe, KILN], env=self.env, stdout=subprocess.PIPE, check=True)
        self.assertEqual(json.loads(result.stdout)["added"], 0)
        x = self.save("x.npy", np.arange(5, dtype=np.float32))
        pipe = f'"$0" run op=copy --in - --out - < {x}'
        result = subprocess.run(["sh", "-c", pipe, KILN], env=self.env, stdout=subprocess.PIPE, check=True)
        self.assertEqual(result.stdout, self.read(x))

    def test_filters(self):
        for filters, entries in ((["target=sm_90"], 4), (["dtype=f16 target=sm_80,sm_90"], 4), (["op=relu6"], 4),
                                 (["op=hardtanh dtype=f16 target=sm_90"], 1), (["op=relu6 target=sm_80,sm_90", "target=sm_80"], 6),
                                 (["op=copy"], 0), (["target=cpu"], 0)):
            moved = self.kiln_json("cache", "export", self.pack, *filters)
            self.assertEqual(moved["entries"], entries, filters)

    def test_pack_is_used_as_it_is(self):
        self.kiln("cache", "export", self.pack)
        self.env.update(KILN_PACKS=":" + self.pack, KILN_CACHE_DIR=self.path("own"))
        warmed = self.kiln_json("warm", GPU_SPECS)
        self.assertEqual((warmed["hits"], warmed["compiled"]), (8, 0))
        self.assertEqual(self.kiln_json("show", "op=relu6 dtype=f16 target=sm_90")["source"], "pack")
        data = bytearray(self.read(self.pack))
        data[len(data) // 2] ^= 1
        with open(self.pack, "wb") as file:
            file.write(data)
        warmed = self.kiln_json("warm", GPU_SPECS)
        self.assertEqual((warmed["hits"], warmed["compiled"]), (7, 1))

    def test_damaged_pack(self):
        self.kiln("cache", "export", self.pack)
        data = self.read(self.pack)
        with open(self.pack, "wb") as file:
            file.write(data[:100] + bytes([data[100] ^ 1]) + data[101:])
        other = ("--cache-dir", self.path("other"))
        result = self.kiln("cache", "import", self.pack, *other, status=1)
        self.assertIn("7 entries", result.stdout)
        self.assertIn("1 damaged", result.stderr)
        with open(self.pack, "wb") as file:
            file.write(data[:-1])
        self.assert_bad(["cache", "import", self.pack, *other], self.pack, "length")
        os.chmod(self.pack, 0o666)
        self.assert_bad(["cache", "import", self.pack, *other], self.pack, "writable")


if __name__ == "__main__":
    unittest.main()
