"""kiln warm: every target without a GPU, hits that open no compiler, entries that do not depend on where they are."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from support import KILN, KilnTest, compiler_builds_for_gpus

ALL = ("op=hardsigmoid dtype=f32,f16,bf16,f64", "--target", "all")


def tree(directory):
    """Every file under a directory by its relative path."""
    files = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, directory)] = file.read()
    return files


class WarmAll(KilnTest):
    def setUp(self):
        super().setUp()
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")

    def traced(self, *args):
        """Runs under strace; returns the result and the files that were opened."""
        log = self.path("trace")
        env = dict(self.env, ASAN_OPTIONS="detect_leaks=0")  # LeakSanitizer and strace both want to be the tracer
        result = subprocess.run(["strace", "-f", "-e", "trace=open,openat", "-o", log, KILN, *args], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        with open(log, encoding="utf-8", errors="replace") as file:
            return result, file.read()

    def test_all_targets(self):
        first = self.kiln_json("warm", *ALL, "-v", "--cache-dir", self.path("one"))
        self.assertEqual(first["specs"], first["compiled"])
        self.assertEqual((first["hits"], first["failed"]), (0, 0))
        targets = {word for row in first["results"] for word in row["spec"].split() if word.startswith("target=")}
        self.assertIn("target=sm_90", targets)
        self.assertEqual(len(first["results"]), 4 * len(targets))
        self.assertTrue(all(row["bytes"] > 1000 for row in first["results"]))

        second = self.kiln_json("warm", *ALL, "--cache-dir", self.path("one"))
        self.assertEqual((second["compiled"], second["hits"]), (0, first["specs"]))

        other = self.kiln_json("warm", *ALL, "-j", "1", "--cache-dir", self.path("two"))
        self.assertEqual(other["compiled"], first["specs"])
        self.assertEqual(tree(self.path("one")), tree(self.path("two")))

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_a_hit_opens_no_compiler(self):
        line = ("warm", "op=hardsigmoid dtype=f32,f16 target=sm_80,sm_90")
        _, opened = self.traced(*line)
        self.assertIn("libnvrtc", opened)
        result, opened = self.traced(*line)
        self.assertIn(b"0 compiled, 4 hits", result.stdout)
        self.assertNotIn("libnvrtc", opened)
        self.assertNotIn("libcuda", opened)

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_all_targets_again_open_no_compiler(self):
        self.kiln("warm", "op=relu6 dtype=f32", "--target", "all")
        result, opened = self.traced("warm", "op=relu6 dtype=f32", "--target", "all")
        self.assertIn(b" 0 compiled", result.stdout)
        self.assertNotIn("libnvrtc", opened)

    def test_table_and_manifest(self):
        manifest = self.path("kernels.txt")
        with open(manifest, "w", encoding="utf-8") as file:
            file.write("# kernels\n\nop=relu6 dtype=f32 target=sm_80  # here\nop=add(x,y) dtype=f16 target=sm_90\n"
                       "op=relu6 dtype=f32 target=sm_80\nop=mul dtype=f64 target=sm_90 block=64,128\n")
        result = self.kiln("warm", "op=relu6 dtype=f32 target=sm_80", "--manifest", manifest)
        self.assertIn("4 specs: 4 compiled, 0 hits, 0 failed", result.stdout)
        for word in ("op", "add(x,y)", "f16", "sm_90", "block=64", "compiled"):
            self.assertIn(word, result.stdout)
        self.assertEqual(result.stderr, "")


    def test_target_is_for_specs_that_name_none(self):
        lines = ("op=relu6 target=sm_80", "op=add", "op=mul target= block=64")
        rows = self.kiln_json("warm", *lines, "--target", "sm_90,cpu", "-v")["results"]
        self.assertEqual(sorted((row["spec"].split()[0], row["spec"].split()[-1]) for row in rows),
                         [("op=add(x,y)", "target=cpu"), ("op=add(x,y)", "target=sm_90"),
                          ("op=mul(x,y)", "target=cpu"), ("op=mul(x,y)", "target=sm_90"),
                          ("op=relu6", "target=sm_80")])


    def test_what_the_cap_evicts_during_the_run_is_missed(self):
        """A shard has room for one of these kernels; of 64 some share a shard, always the same ones."""
        env = dict(self.env, KILN_CACHE_BYTES="3840k")
        result = self.kiln("warm", "op=relu6,copy dtype=f32 block=32..1024+32", "--target", "sm_90", "--json", "-v",
                           env=env, status=1)
        totals = json.loads(result.stdout)
        self.assertEqual((totals["compiled"], totals["kept"] + totals["not_kept"]), (64, 64))
        self.assertGreater(totals["not_kept"], 0)
        self.assertEqual(totals["kept"], sum(row["kept"] for row in totals["results"]))
        self.assertIn(f"kiln: 64 compiled, {totals['not_kept']} not kept: ", result.stderr)
        self.assertIn("evicted, to stay within 3932160 bytes", result.stderr)
        missing = self.kiln_json("warm", "op=relu6,copy dtype=f32 block=32..1024+32", "--target", "sm_90", "--check",
                                 status=1)
        self.assertEqual(missing["missing"], totals["not_kept"])


class Kept(KilnTest):
    """A kernel that the cache has not kept is a failure with a reason."""

    line = ("warm", "op=relu6,copy", "--target", "cpu")

    def lose(self, *args, lost=2, env=None):
        result = self.kiln(*self.line, *args, "--json", status=1, env=env)
        totals = json.loads(result.stdout)
        self.assertEqual((totals["compiled"], totals["kept"], totals["not_kept"]), (2, 2 - lost, lost))
        line = result.stderr.splitlines()[-1]
        self.assertIn(f"kiln: 2 compiled, {lost} not kept: ", line)
        self.assertIn(totals["reason"], line)
        return line

    def test_all_are_kept(self):
        totals = self.kiln_json(*self.line, "-v")
        self.assertEqual((totals["kept"], totals["not_kept"]), (2, 0))
        self.assertTrue(all(row["kept"] for row in totals["results"]))
        self.assertNotIn("reason", totals)

    def test_without_a_home(self):
        env = {k: v for k, v in self.env.items() if k not in ("HOME", "XDG_CACHE_HOME", "KILN_CACHE_DIR")}
        self.assertIn("neither KILN_CACHE_DIR nor XDG_CACHE_HOME nor HOME names a directory", self.lose(env=env))
        self.lose(env=dict(env, HOME="relative"))
        findings = self.kiln_json("doctor", env=env, status=None)["findings"]
        store = next(row for row in findings if row["name"] == "user store")
        self.assertIn("HOME", store["detail"])
        self.assertFalse(store["ok"])

    def test_switched_off(self):
        self.assertIn("switched off", self.lose("--cache-dir", ""))
        findings = self.kiln_json("doctor", "--cache-dir", "", status=None)["findings"]
        self.assertIn("switched off", next(row for row in findings if row["name"] == "user store")["detail"])

    def test_too_small_a_cap(self):
        line = self.lose(env=dict(self.env, KILN_CACHE_BYTES="1M"))
        self.assertIn("too large for a cache of 1048576 bytes", line)
        enough = int(re.search(r"to (\d+) at least", line)[1])
        self.lose(env=dict(self.env, KILN_CACHE_BYTES=str(enough // 10 * 9)))
        self.kiln(*self.line, env=dict(self.env, KILN_CACHE_BYTES=str(enough)))

    def test_a_directory_of_another_user(self):
        directory = "/usr"
        if os.geteuid() == 0:
            directory = self.path("foreign")
            os.mkdir(directory, 0o700)
            os.chown(directory, 12345, 12345)
        self.assertIn(f"in {directory}: owned by user", self.lose("--cache-dir", directory))

    def test_a_full_disk(self):
        unshare = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c"]
        disk = self.path("disk")
        os.mkdir(disk)
        mount = f"mount -t tmpfs -o size=64k none {disk} && "
        if subprocess.run([*unshare, mount + "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            self.skipTest("no mount namespace to mount a tmpfs of 64 KiB in: run it as root, or allow user namespaces")
        result = subprocess.run([*unshare, mount + 'exec "$0" "$@"', KILN, "warm", "op=relu6,copy,mul,add dtype=f32,f64",
                                 "--target", "cpu", "--cache-dir", disk + "/cache", "--json"], env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        totals = json.loads(result.stdout)
        self.assertEqual(totals["kept"] + totals["not_kept"], totals["compiled"])
        self.assertGreater(totals["not_kept"], 0)
        line = result.stderr.splitlines()[-1]
        self.assertIn(f"kiln: {totals['compiled']} compiled, {totals['not_kept']} not kept: ", line)
        self.assertIn("No space left on device", line)

    def test_a_pack_keeps_what_it_has(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        line = ("warm", "op=relu6", "--target", "sm_90")
        self.kiln(*line)
        self.kiln("cache", "export", self.path("pack"))
        totals = self.kiln_json(*line, "--cache-dir", "", env=dict(self.env, KILN_PACKS=self.path("pack")))
        self.assertEqual((totals["hits"], totals["kept"]), (1, 1))


class Warm(KilnTest):
    def test_specs_for_the_same_kernel_are_compiled_once(self):
        lines = ("op=relu6", "op=relu6 dtype=f32", "op=relu6 n=1..3 cache=plain", "op=relu6 dtype=f64")
        totals = self.kiln_json("warm", *lines, "--target", "cpu", "-v")
        self.assertEqual((totals["specs"], totals["compiled"], totals["hits"]), (2, 2, 0))
        self.assertTrue(all("block=" in row["spec"] for row in totals["results"]))

    def test_cpu(self):
        first = self.kiln_json("warm", "op=relu6,hardtanh(-1,1) dtype=f32,f64", "--target", "cpu", "-v")
        self.assertEqual((first["specs"], first["compiled"], first["failed"]), (4, 4, 0))
        self.assertTrue(all("target=cpu" in row["spec"] for row in first["results"]))
        second = self.kiln_json("warm", "op=relu6,hardtanh(-1,1) dtype=f32,f64 target=cpu")
        self.assertEqual((second["compiled"], second["hits"]), (0, 4))
        self.assertNotIn("results", second)

    def test_native_is_the_named_device(self):
        self.assertEqual(self.kiln_json("warm", "op=relu6 dtype=f32", "--device", "cpu")["specs"], 1)

    def test_summary_of_many(self):
        result = self.kiln("warm", "op=relu6 dtype=f32 block=32..1024+32 elems=1,2", "--target", "cpu", "--manifest",
                           "/dev/null", env=dict(self.env, KILN_CC="/bin/false"), status=1)
        self.assertIn("specs  compiled", result.stdout)
        self.assertIn("64 specs: 0 compiled, 0 hits, 64 failed", result.stdout)
        self.assertIn("more failed", result.stderr)

    def test_a_failure_does_not_stop_the_others(self):
        env = dict(self.env, KILN_NVRTC="/none/libnvrtc.so")
        result = self.kiln("warm", "op=relu6 dtype=f32 target=sm_90,cpu", "--json", status=1, env=env)
        totals = json.loads(result.stdout)
        self.assertEqual((totals["specs"], totals["compiled"], totals["failed"]), (2, 1, 1))
        self.assertIn("target=sm_90", result.stderr)

    def test_interrupt(self):
        slow = self.path("slow-cc")
        with open(slow, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\ncase " $* " in *" -shared "*) sleep 0.5;; esac\nexec cc "$@"\n')
        os.chmod(slow, 0o755)
        process = subprocess.Popen([KILN, "warm", "op=relu6 dtype=f32 block=32..1024+32 target=cpu", "-j", "1", "--json"],
                                   env=dict(self.env, KILN_CC=slow), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"interrupted", errors)
        self.assertIn(b'"specs": 32', output)


if __name__ == "__main__":
    unittest.main()
