"""The smaller commands: ops, templates, show, bench, cache, doctor, help."""

import filecmp
import json
import os
import pty
import re
import subprocess
import termios
import unittest

import numpy as np

from support import KILN, OPS, KilnTest, compiler_builds_for_gpus

COMMANDS = ("run", "warm", "show", "tune", "sweep", "bench", "plot", "ops", "templates", "cache", "wisdom", "doctor")


class Help(KilnTest):
    def test_help(self):
        overview = self.kiln("--help")
        self.assertEqual(self.kiln("help").stdout, overview.stdout)
        for command in COMMANDS:
            self.assertIn(command, overview.stdout)
            text = self.kiln(command, "--help").stdout
            self.assertTrue(text.startswith(f"usage: kiln {command}"), text)
            for option in ("--json", "--cache-dir", "--device"):
                self.assertIn(option, text)
            self.assertEqual(self.kiln("help", command).stdout, text)

    def test_options_before_the_command(self):
        behind = self.kiln("warm", "op=f target=cpu", "--define-op", "f(x) = x + 1", "--json", "--cache-dir", self.path("a"))
        before = self.kiln("--define-op", "f(x) = x + 1", "--json", f"--cache-dir={self.path('b')}", "warm", "op=f target=cpu")
        self.assertEqual(json.loads(before.stdout)["specs"], json.loads(behind.stdout)["specs"])
        self.assertEqual(len(os.listdir(self.path("b"))), len(os.listdir(self.path("a"))))
        self.assertEqual(self.kiln("-v", "ops").stdout, self.kiln("ops").stdout)
        self.assert_bad(["--jsn", "ops"], "unknown option --jsn", "did you mean --json?", "kiln ops --help")
        self.assert_bad(["--device", "cpu"], "no command", "kiln --help")
        self.assert_bad(["--device"], "no command", "kiln --help")

    def test_version(self):
        self.assertRegex(self.kiln("--version").stdout, r"^kiln \d+\.\d+\.\d+\n$")

    def test_full_standard_output(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([KILN, "--help"], env=self.env, stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"standard output", result.stderr)

    def test_no_colours_in_a_pipe(self):
        self.assertNotIn("\033", self.kiln("doctor", status=None).stdout)

    def test_colours_on_a_terminal(self):
        for no_colour, expected in (("", True), ("1", False)):
            main, terminal = pty.openpty()
            subprocess.run([KILN, "rum"], env=dict(self.env, TERM="xterm", NO_COLOR=no_colour), stderr=terminal,
                           check=False)
            os.close(terminal)
            self.assertEqual(b"\033" in os.read(main, 4096), expected)
            os.close(main)


class Terminals(KilnTest):
    """Nothing is wider than the terminal, and progress overwrites one line."""

    def on_terminal(self, columns, *args):
        main, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (24, columns))
        process = subprocess.Popen([KILN, *args], env=dict(self.env, TERM="xterm"), stdout=terminal, stderr=terminal)
        os.close(terminal)
        shown = b""
        try:
            while piece := os.read(main, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(main)
        self.assertEqual(process.wait(), 0, shown)
        return re.sub(r"\033\[\d*m", "", shown.decode()).split("\r\n")

    def test_lines_fit(self):
        spec = "op=relu6 dtype=f32 target=cpu"
        self.kiln("tune", spec, "--size", "2^16", "--budget", "1")
        for columns in (60, 80, 140):
            for args in (("tune", spec, "--size", "2^16", "--budget", "1"), ("bench", spec, "--size", "2^16"),
                         ("bench", spec, "--size", "2^12,2^16"), ("warm", spec + " block=64,128"), ("wisdom", "list"),
                         ("ops",), ("cache", "list"), ("sweep", spec, "--size", "2^12")):
                lines = self.on_terminal(columns, *args)
                for line in lines:
                    for drawn in line.split("\r\033[K"):
                        if " " in drawn.strip():  # a path stays whole, so that it can be copied
                            self.assertLessEqual(len(drawn), columns, (args, lines))
                bars = [line.count("\r\033[K[") for line in lines]
                self.assertEqual(sum(count > 0 for count in bars), int(sum(bars) > 0), (args, lines))

    def test_long_texts_are_cut_and_columns_wrapped(self):
        spec = "op=relu6 dtype=f32 block=64 elems=4 vector=4 cache=plain target=cpu"
        self.kiln("warm", spec)
        piped = self.kiln("cache", "list").stdout
        self.assertIn("cache=plain", piped)
        self.assertNotIn("\u2026", piped)
        self.assertIn("\u2026", "".join(self.on_terminal(80, "cache", "list")))
        table = self.on_terminal(60, "bench", spec, "--size", "2^12", "--rounds", "2")
        self.assertTrue(any(line.startswith("    ") and "GB/s" in line for line in table), table)


class Catalogue(KilnTest):
    def test_ops(self):
        found = {op["name"]: op for op in self.kiln_json("ops")["ops"]}
        for name in OPS:
            self.assertIn(name, found)
            self.assertTrue(found[name]["doc"])
        self.assertEqual((found["hardtanh"]["inputs"], found["hardtanh"]["params"]), (1, 2))
        text, markdown = self.kiln("ops").stdout, self.kiln("ops", "--markdown").stdout
        self.assertIn(found["hardtanh"]["signature"], text)
        self.assertIn(f"| `{found['hardtanh']['definition']}` |", markdown)
        self.assertEqual((found["hardtanh"]["functions"], found["hardtanh"]["portable"]), ("", True))
        self.assertEqual((found["gelu"]["functions"], found["gelu"]["portable"]), ("erf 4 ulp", False))
        self.assertEqual(found["silu"]["fast_functions"], "exp_add 2 + 1.173 abs(x) ulp, div 2 ulp")
        self.assertEqual(found["logit"]["fast_functions"], "div 2 ulp, log 3 ulp or 3.6e-07")
        self.assertEqual(found["gelu"]["fast_functions"], "")
        self.assertIn("NaN", found["hardtanh"]["nan"])
        self.assertIn("NumPy", found["sign"]["elsewhere"])
        self.assertEqual(len(markdown.splitlines()), len(found) + 2)

    def test_templates(self):
        found = {template["name"]: template for template in self.kiln_json("templates")["templates"]}
        template = found["elementwise"]
        self.assertEqual([p["name"] for p in template["params"]][:3], ["block", "elems", "vector"])
        self.assertIn("vector", self.kiln("templates").stdout)
        text = self.kiln("templates", "--print", "elementwise").stdout
        self.assertTrue(text.startswith("//! template elementwise") or "//! template elementwise" in text)


class Show(KilnTest):
    def test_a_definition_gives_the_kernel_of_the_op_with_its_text(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        definitions = {op["name"]: op["definition"] for op in self.kiln_json("ops")["ops"]}
        for name, dtype in (("hardswish", "f16"), ("elu", "f32"), ("gelu", "bf16")):
            out = [self.path(file) for file in ("kiln.cubin", "own.cubin")]
            self.kiln("show", f"op={name} dtype={dtype} target=sm_90", "--cubin", "-o", out[0])
            self.kiln("show", f"op=own_{name} dtype={dtype} target=sm_90", "--define-op", f"own_{definitions[name]}",
                      "--cubin", "-o", out[1])
            self.assertTrue(filecmp.cmp(*out, shallow=False), name)

    def test_source_needs_no_compiler(self):
        env = dict(self.env, KILN_CC="/none", KILN_NVRTC="/none")
        for target in ("cpu", "sm_90"):
            text = self.kiln("show", f"op=hardtanh(-2,3) dtype=f16 target={target}", "--source", env=env).stdout
            self.assertIn("KILN_DTYPE_F16 1", text)
            self.assertIn("kiln_op_hardtanh", text)

    def test_cpu(self):
        shown = self.kiln_json("show", "op=relu6 dtype=f32")
        self.assertIn("object", shown["sections"])
        self.assertIn("target=cpu", shown["spec"])
        self.assertEqual(self.kiln("show", "op=relu6 dtype=f32", "--spec").stdout.strip(), shown["spec"])
        self.assertIn("target cpu", self.kiln("show", "op=relu6 dtype=f32", "--key").stdout)
        self.assertIn("relu6", self.kiln("show", "op=relu6 dtype=f32").stdout)
        self.assert_bad(["show", "op=relu6 dtype=f32", "--ptx"], "ptx", "cpu", "sm_90")
        out = self.path("kernel.so")
        self.kiln("show", "op=relu6 dtype=f32", "--object", "--output", out)
        with open(out, "rb") as file:
            self.assertEqual(file.read(4), b"\x7fELF")

    def test_gpu(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        spec = "op=relu6 dtype=f32 target=sm_90"
        self.assertIn(".target sm_90", self.kiln("show", spec, "--ptx").stdout)
        out = self.path("kernel.cubin")
        self.kiln("show", spec, "--cubin", "--output", out)
        shown = self.kiln_json("show", spec)
        self.assertEqual(shown["source"], "disk")
        self.assertEqual(shown["sections"]["cubin"], os.path.getsize(out))
        self.assertIn("text", self.kiln_json("show", spec, "--ptx"))
        again = self.path("again.cubin")
        env = dict(self.env, KILN_ISOLATE="always", KILN_CACHE_DIR=self.path("fresh"))
        self.kiln("show", spec, "--cubin", "--output", again, env=env)
        with open(out, "rb") as here, open(again, "rb") as elsewhere:
            self.assertEqual(here.read(), elsewhere.read())

    def test_disassemblers(self):
        if not compiler_builds_for_gpus(self):
            self.skipTest("no NVRTC")
        tools = self.path("tools")
        os.mkdir(tools)
        spec = "op=relu6 dtype=f32 target=sm_90"
        env = dict(self.env, PATH=tools + ":/usr/bin:/bin")
        with open(os.path.join(tools, "nvdisasm"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho code of $2 | sed s,/.*/,,\n")
        os.chmod(os.path.join(tools, "nvdisasm"), 0o755)
        self.assertTrue(self.kiln("show", spec, "--sass", env=env).stdout.startswith("code of kiln-"))
        with open(os.path.join(tools, "nvdisasm"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 3\n")
        self.assertIn("status 3", self.kiln("show", spec, "--sass", env=env, status=1).stderr)


class Bench(KilnTest):
    def test_cpu(self):
        result = self.kiln_json("bench", "op=hardsigmoid,relu6 dtype=f32,bf16", "op=add dtype=f64", "--size", "257x1001",
                                "--rounds", "3")
        self.assertEqual(len(result["results"]), 5)
        self.assertEqual(len(result["ceilings"]), 6)
        for row in result["results"]:
            self.assertIs(row["verified"], True)
            self.assertEqual(row["elements"], 257 * 1001)
            self.assertGreater(row["time_ms"], 0)
            self.assertGreater(row["ratio"], 0)
            self.assertLessEqual(row["min_ms"], row["time_ms"])
            self.assertLessEqual(row["time_ms"], row["max_ms"])
        self.assertEqual(result["results"][4]["bytes"], 257 * 1001 * 8 * 3)
        groups = [row["ratio"] for row in result["ceilings"]]
        self.assertTrue(all(min(pair) <= 1.0 for pair in zip(groups[::2], groups[1::2])))

    def test_text(self):
        result = self.kiln("bench", "op=relu6 dtype=f32 block=64,128", "--size", "2^16", "--rounds", "2", "--no-verify")
        for word in ("GB/s", "ratio", "(memory copy)", "(copy kernel)", "block=64", "block=128", "skipped"):
            self.assertIn(word, result.stdout)

    def test_tiny(self):
        for dtype in ("f64", "f16"):
            self.kiln("bench", f"op=relu6 dtype={dtype}", "--size", "1", "--rounds", "1")

    def test_bench_of_equal_specs(self):
        result = self.kiln_json("bench", *["op=relu6 dtype=f32"] * 4, "--size", "2^16", "--rounds", "2")
        self.assertEqual(len(result["results"]), 4)
        self.assertEqual(len({row["group"] for row in result["results"]}), 1)

    def test_too_large(self):
        result = self.kiln("bench", "op=relu6 dtype=f64", "--size", "2^50", status=1)
        self.assertIn("smaller --size", result.stderr)

    def test_memory_is_compared_before_it_is_taken(self):
        self.assertRegex(self.kiln("bench", "op=relu6 dtype=f32", "--size", "2^40", status=1).stderr,
                         r"has .*iB of memory to take, and the arrays need 8\.0 TiB")
        for command in ("tune", "sweep"):
            self.assertRegex(self.kiln(command, "op=relu6 dtype=f32", "--size", "2^40", status=1).stderr,
                             r"take \d{7} MiB, and \d+ MiB are free")


class Cache(KilnTest):
    def setUp(self):
        super().setUp()
        self.kiln("warm", "op=relu6 dtype=f32,f64 target=cpu")

    def kernels(self):
        return [row["path"] for row in self.kiln_json("cache", "list")["list"] if row["kind"] == "kernel"]

    def test_stat_list_verify(self):
        stat = self.kiln_json("cache", "stat")
        self.assertEqual(stat["dir"], self.cache)
        self.assertEqual(stat["kinds"]["kernel"]["entries"], 2)
        self.assertEqual(stat["targets"]["cpu"]["entries"], 2)
        self.assertGreater(stat["bytes"], 1000)
        self.assertEqual(stat["damaged"], 0)
        self.assertEqual(stat["entries"], len(self.kiln_json("cache", "list")["list"]))
        self.assertIn("op=relu6", self.kiln("cache", "list").stdout)
        self.assertIn("0 damaged", self.kiln("cache", "verify").stdout)
        self.assertIn(self.cache, self.kiln("cache", "stat").stdout)

    def test_stat_says_how_full_it_is(self):
        path = self.kernels()[0]
        os.utime(path, (1, os.path.getmtime(path) - 3 * 86400 - 600))
        with open(os.path.join(self.cache, "v1", "tmp.0123456789abcdef"), "wb") as file:
            file.write(bytes(100))
        env = dict(self.env, KILN_CACHE_BYTES="1M")
        stat = self.kiln_json("cache", "stat", env=env)
        self.assertEqual((stat["cap_bytes"], stat["cap_entries"]), (1 << 20, 262144))
        self.assertEqual((stat["temporaries"], stat["temporary_bytes"]), (1, 100))
        self.assertEqual(stat["counted_bytes"], self.kiln_json("cache", "trim")["bytes"])
        self.assertAlmostEqual(stat["oldest_seconds"], 3 * 86400 + 600, delta=600)
        text = self.kiln("cache", "stat", env=env).stdout
        self.assertRegex(text, r"(?m)^filled +[0-9.]+ KiB of 1\.0 MiB \([0-9.]+ %\); entries 3 of 262144 \(0\.0 %\)$")
        self.assertRegex(text, r"(?m)^temporary +1 \(100 B\)$")
        self.assertRegex(text, r"(?m)^oldest +used 3 days ago$")
        self.kiln("cache", "purge")
        self.assertIsNone(self.kiln_json("cache", "stat")["oldest_seconds"])
        self.assertNotIn("oldest", self.kiln("cache", "stat").stdout)

    def test_damage_is_found_and_purged(self):
        path = self.kernels()[0]
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0x10]))
        result = self.kiln("cache", "verify", status=1)
        self.assertIn(path, result.stdout)
        self.assertIn("1 damaged", result.stdout)
        self.assertIn("purge --damaged", result.stderr)
        verified = self.kiln_json("cache", "verify", status=1)
        self.assertEqual((verified["damaged"], verified["bad"][0]["path"]), (1, path))
        self.assertTrue(verified["bad"][0]["problem"])
        self.assertEqual(self.kiln_json("cache", "purge", "--damaged")["removed"], 1)
        self.assertFalse(os.path.exists(path))
        self.kiln("cache", "verify")
        self.assertEqual(len(self.kernels()), 1)

    def test_untrusted_is_told_apart_and_purged(self):
        linked, shared = self.kernels()
        aside = self.path("aside")
        os.rename(linked, aside)
        os.symlink(aside, linked)
        os.chmod(shared, 0o660)
        self.assertIn("0 damaged, 2 untrusted", self.kiln("cache", "verify", status=1).stdout)
        verified = self.kiln_json("cache", "verify", status=1)
        self.assertEqual((verified["damaged"], verified["untrusted"]), (0, 2))
        self.assertEqual({row["path"]: row["state"] for row in verified["bad"]},
                         {linked: "untrusted", shared: "untrusted"})
        stat = self.kiln_json("cache", "stat")
        self.assertEqual((stat["damaged"], stat["untrusted"], stat["kinds"]["untrusted"]["entries"]), (0, 2, 2))
        self.assertIn("purge --damaged", self.kiln("cache", "stat").stdout)
        found = {row["what"]: row for row in self.kiln_json("doctor")["findings"]}["cache"]
        self.assertFalse(found["ok"])
        self.assertIn("0 damaged, 2 untrusted", found["detail"])
        self.assertIn("kiln cache purge --damaged", found["remedy"])
        self.assertRegex(self.kiln("doctor").stdout, r"(?m)^problem +cache ")
        self.assertEqual(self.kiln_json("cache", "purge", "--damaged")["removed"], 2)
        self.kiln("cache", "verify")
        self.assertTrue(os.path.exists(aside))

    def test_purge_says_what_it_could_not_remove(self):
        path = self.kernels()[0]
        entries = self.kiln_json("cache", "stat")["entries"]
        os.unlink(path)
        os.mkdir(path)
        with open(os.path.join(path, "note"), "w", encoding="utf-8"):
            pass
        result = self.kiln("cache", "purge", status=1)
        self.assertEqual(result.stdout.split()[0], str(entries - 1))
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(f"{path}: Directory not empty", result.stderr)
        self.assertEqual(self.kiln_json("cache", "purge", status=1)["removed"], 0)

    def test_misses_are_counted_by_reason(self):
        damaged, untrusted = self.kernels()
        with open(damaged, "r+b") as file:
            file.truncate(100)
        os.chmod(untrusted, 0o660)
        args = ("warm", "op=relu6 dtype=f32,f64 target=cpu", "op=copy dtype=f32 target=cpu", "--stats")
        result = self.kiln_json(*args, status=1)
        self.assertEqual((result["kept"], result["not_kept"]), (2, 1))
        self.assertIn("may not be trusted", result["reason"])
        stats = result["stats"]
        reasons = {name: stats["misses_" + name] for name in ("absent", "damaged", "untrusted", "error", "refused")}
        self.assertEqual(reasons, {"absent": 1, "damaged": 1, "untrusted": 1, "error": 0, "refused": 0})
        self.assertEqual((stats["gets"], stats["compiles"], stats["hits_disk"]), (3, 3, 0))
        self.assertGreater(stats["compile_ns"], 0)
        text = self.kiln(*args, status=1).stdout
        self.assertRegex(text, r"(?m)^misses +0 absent, 0 damaged, 1 untrusted, 0 unreadable, 0 refused when loaded$")
        self.assertRegex(text, r"(?m)^hits .* 2 in the directory,")
        self.assert_bad([*args, "--check"], "--stats", "--check")
        self.assertNotIn("stats", self.kiln_json(*args[:-1], status=1))
        x = self.save("x.npy", np.ones(5, np.float32))
        run = ("run", "op=copy", "--in", x, "--out", self.path("y.npy"), "--stats")
        stats = self.kiln_json(*run)["stats"]
        self.assertEqual((stats["gets"], stats["hits_disk"], stats["loads"]), (1, 1, 1))
        self.assertRegex(self.kiln(*run).stdout, r"(?m)^loads +1 done, 0 from PTX, ")

    def test_damage_costs_one_compile(self):
        for path in self.kernels():
            with open(path, "r+b") as file:
                file.truncate(os.path.getsize(path) - 1)
        x = self.save("x.npy", np.ones(5, np.float32))
        args = ("run", "op=relu6", "--in", x, "--out", self.path("y.npy"))
        result = self.kiln(*args)
        self.assertIn("compiled in", result.stdout)
        self.assertIn("kiln: warning:", result.stderr)
        self.assertEqual(self.kiln_json(*args)["source"], "disk")

    def test_purge(self):
        entries = self.kiln_json("cache", "stat")["entries"]
        self.assertEqual(self.kiln_json("cache", "purge")["removed"], entries)
        self.assertEqual(self.kiln_json("cache", "stat")["entries"], 0)
        self.assertEqual(self.kiln("cache", "purge").stdout.split()[0], "0")

    def test_no_cache(self):
        result = self.kiln("cache", "stat", "--cache-dir", "", status=1)
        self.assertEqual(len(result.stderr.splitlines()), 1)


class Doctor(KilnTest):
    def test_json(self):
        report = self.kiln_json("doctor")
        self.assertIs(report["cpu"], True)
        found = {row["what"]: row for row in report["findings"]}
        for what in ("NVRTC", "compile worker", "CUDA driver", "C compiler", "cache"):
            self.assertIn(what, found)
        self.assertTrue(found["compile worker"]["ok"], found["compile worker"])
        self.assertTrue(os.access(found["compile worker"]["path"], os.X_OK))
        self.assertTrue(found["C compiler"]["ok"])
        headers = {row["name"]: row for row in report["findings"] if row["what"] == "headers"}
        for name, witness in (("CUDA", "cuda_fp16.h"), ("CCCL", "cuda/std/version")):
            row = headers[name]
            self.assertEqual(row["ok"], os.path.exists(os.path.join(row["path"], witness)), row)
            self.assertTrue(not row["ok"] or re.fullmatch(r"\d+(\.\d+)+", row["version"]), row)
        for row in report["findings"]:
            self.assertTrue(row["ok"] or row["remedy"], row)

    def test_takes_little_memory(self):
        env = dict(self.env, KILN_NVRTC="/none", KILN_LIBCUDA="/none")
        with open(self.path("report"), "w+b") as out:
            child = subprocess.Popen([KILN, "doctor", "--json"], env=env, stdin=subprocess.DEVNULL, stdout=out)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            report = json.loads(out.read())
        self.assertEqual(child.returncode, 0)
        found = {row["what"]: row for row in report["findings"]}["cpu"]
        size = re.search(r"copies of (\d+) MiB at [1-9]\d* GB/s", found["detail"])
        self.assertTrue(size, found["detail"])
        self.assertLessEqual(int(size.group(1)), 64)
        if not os.environ.get("KILN_SANITIZE"):
            self.assertLess(usage.ru_maxrss, 512 << 10)

    def test_no_worker(self):
        env = dict(self.env, KILN_WORKER="/none/kiln-worker")
        report = json.loads(self.kiln("doctor", "--json", env=env).stdout)
        found = {row["what"]: row for row in report["findings"]}["compile worker"]
        self.assertFalse(found["ok"])
        self.assertIn("/none/kiln-worker", found["detail"])
        self.assertIn("KILN_WORKER", found["remedy"])

    def test_packs_and_shared_directory(self):
        self.kiln("warm", "op=relu6 dtype=f32 target=cpu")
        pack, shared = self.path("some.kilnpack"), self.path("nowhere")
        self.kiln("cache", "export", pack)
        env = dict(self.env, KILN_PACKS=pack + ":" + self.path("none"), KILN_SHARED_DIR=shared, KILN_NVRTC="/none",
                   KILN_CACHE_DIR=self.path("other"))
        found = [row for row in self.kiln_json("doctor", env=env)["findings"] if row["what"] in ("pack", "shared")]
        self.assertEqual([(row["what"], row["ok"], row["path"]) for row in found],
                         [("pack", True, pack), ("pack", False, self.path("none")), ("shared", False, shared)])
        self.assertIn("only read", found[0]["detail"])
        self.assertIn("KILN_PACKS", found[1]["remedy"])
        text = self.kiln("doctor", env=dict(env, KILN_SHARED_DIR=self.cache)).stdout
        self.assertRegex(text, r"(?m)^ok +pack +some.kilnpack$")
        self.assertRegex(text, r"(?m)^problem +pack +none$")
        self.assertRegex(text, r"(?m)^ok +shared +shared store\n +" + re.escape(self.cache) + r"\n +2 entries, ")

    def test_nothing_works(self):
        env = dict(self.env, KILN_CC="/none/cc", KILN_NVRTC="/none/libnvrtc.so", KILN_LIBCUDA="/none/libcuda.so")
        result = self.kiln("doctor", env=env, status=1)
        self.assertIn("missing", result.stdout)
        self.assertIn("to do:", result.stdout)
        self.assertIn("no kernel can be made", result.stderr)


class Log(KilnTest):
    def test_levels(self):
        x = self.save("x.npy", np.ones(5, np.float32))
        args = ("run", "op=relu6", "--in", x, "--out", self.path("y.npy"), "--cache-dir", self.path("fresh"))
        with open(self.path("fresh"), "wb"):
            pass
        self.assertIn("kiln: warning:", self.kiln(*args).stderr)
        quiet = self.kiln(*args, env=dict(self.env, KILN_LOG="error")).stderr
        self.assertNotIn("warning", quiet)


if __name__ == "__main__":
    unittest.main()
