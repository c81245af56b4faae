"""The probes of the library that was built, for tracers: their names and arguments, and the values that a debugger sees there."""

import os
import re
import shutil
import subprocess
import unittest

import numpy as np
from support import KILN, KilnTest

PROBES = {"compile_begin": 1, "compile_done": 3, "evict": 2, "get_begin": 1, "get_done": 3, "launch": 4, "load_done": 3,
          "remote_done": 4}


def library():
    """The file that holds the library's code: libkiln.so, or the command itself."""
    told = subprocess.run(["ldd", KILN], stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"libkiln\.so\S* => (\S+)", told)
    return found[1] if found else KILN


def probes():
    told = subprocess.run(["readelf", "-n", library()], stdout=subprocess.PIPE, check=True, text=True).stdout
    return re.findall(r"Provider: kiln\n\s+Name: (\w+)\n.*\n\s+Arguments: (.*)", told)


@unittest.skipUnless(shutil.which("readelf") and probes(), "a build without sys/sdt.h has no probes")
class Probes(KilnTest):
    def test_all_are_there_with_their_arguments(self):
        self.assertEqual({name: len(arguments.split()) for name, arguments in probes()}, PROBES)

    @unittest.skipUnless(shutil.which("gdb"), "gdb is not installed")
    def test_a_debugger_sees_the_values(self):
        forms = {"get_begin": "%s", "compile_begin": "%s", "compile_done": "%s %d %lu", "load_done": "%s %d %lu",
                 "get_done": "%s %d %s", "launch": "%s %u %u %u"}
        script = ["set pagination off", "set debuginfod enabled off", "start"]
        for name, form in forms.items():
            values = ", ".join(f"$_probe_arg{i}" for i in range(PROBES[name]))
            script += [f"break -probe-stap kiln:{name}", "commands", "silent", f'printf "@{name} {form}\\n", {values}',
                       "continue", "end"]
        with open(self.path("script"), "w") as file:
            file.write("\n".join([*script, "continue"]) + "\n")
        x, y = self.save("x.npy", np.linspace(-1, 9, 1000, dtype=np.float32)), self.path("y.npy")
        traced = subprocess.run(["gdb", "-batch", "-nx", "-x", self.path("script"), "--args", KILN, "run",
                                 "op=relu6 block=64 elems=4", "--in", x, "--out", y],
                                env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, timeout=300).stdout
        if "ptrace" in traced:
            self.skipTest("this machine does not let a debugger run")
        self.assertTrue(os.path.exists(y), traced)
        spec = "op=relu6 dtype=f32 block=64 elems=4 vector=4 cache=plain target=cpu"
        seen = dict(line[1:].split(" ", 1) for line in traced.splitlines() if line.startswith("@"))
        self.assertEqual(list(seen), list(forms), traced)
        self.assertEqual([seen["get_begin"], seen["compile_begin"]], [spec, spec])
        self.assertEqual(seen["get_done"], f"{spec} 0 compiled")
        self.assertEqual(seen["launch"], f"{spec} 4 1 1")  # 1000 elements, 256 for each block
        for name, least in ("compile_done", 1000000), ("load_done", 1000):
            told, status, ns = seen[name].rsplit(" ", 2)
            self.assertEqual((told, status), (spec, "0"))
            self.assertTrue(least < int(ns) < 100e9, ns)


@unittest.skipUnless(os.environ.get("KILN_NVTX_LISTENER"), "a build without NVTX's headers makes no ranges")
class Ranges(KilnTest):
    def test_a_profiler_sees_ranges_that_nest(self):
        x, y = self.save("x.npy", np.linspace(-1, 9, 1000, dtype=np.float32)), self.path("y.npy")
        env = {**self.env, "NVTX_INJECTION64_PATH": os.environ["KILN_NVTX_LISTENER"]}
        told = self.kiln("run", "op=relu6 block=64 elems=4", "--in", x, "--out", y, env=env).stderr.splitlines()
        begin = "push op=relu6 dtype=f32 block=64 elems=4 vector=4 cache=plain target=cpu"
        self.assertEqual(told[:4], [begin, begin, "pop", "pop"])  # a get and its compile
        self.assertEqual(told[4:], [begin, "pop"] * (len(told) // 2 - 2))  # launches
        self.assertGreater(len(told), 4)
        self.assertEqual(self.kiln("run", "op=relu6", "--in", x, "--out", y).stderr, "")


if __name__ == "__main__":
    unittest.main()
