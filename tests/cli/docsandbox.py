"""A directory in which the commands of the documentation run. It looks like a checkout that is built, and has the files that the
pages name. Sizes, rounds and budgets are small, and there is no driver, so that a command takes a second or two."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from doclines import ROOT, file_of, shell_lines, split_page
from support import KILN, OWN

sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import peers  # noqa: E402

BUILD = os.environ.get("KILN_BUILD_DIR", "")

# Sizes and counts that are made smaller: a pattern and its replacement.
SMALLER = [
    (r"\b4096x393216\b", "4096x16"),
    (r"(?<=--size )(2\^(1[5-9]|[23]\d)|\d+M)(?=[ .]|$)|(?<=\.\.)2\^(1[5-9]|[23]\d)\b", "2^14"),
    (r"(?<=--size )(\w+)=(\d{4,}|2\^[12]\d)\b", r"\1=64"),  # of --size alone: the numbers of specs have another form
    (r"--budget \d+", "--budget 2"),
    (r"--nodes \d+", "--nodes 50 --kernels 20"),
    (r"(?<=fleet\.py )(\S+)", r"\1 --machines 2 --processes 2 --kernels 4"),
    (r"--rounds \d+", "--rounds 2"),
    (r"bench_launch_cost\b(.*) --rounds \d+", r"bench_launch_cost\1"),
    (r"bench_launch_cost\b", "bench_launch_cost --rounds 3"),
    (r"bench_latency\b", "bench_latency --compiles 1 --starts 1"),
    (r"bench_compile_path \d+", "bench_compile_path 1"),
    (r"bench_compile_rate \d+ \d+", "bench_compile_rate 2 1"),
    (r"example_uvhost \d+", "example_uvhost 2"),
    (r"bench_wisdom \d+", "bench_wisdom 4"),
    (r"bench_store_hit \d+ \d+ \d+", "bench_store_hit 100 20 1"),
    (r"--libcuda libcuda\.so\.1", f"--libcuda {BUILD}/tests/noop/libcuda.so.1"),
]

# The command, with less to do.
WRAPPER = """#!/bin/sh
case " $* " in
*" --budget "* | *" --rounds "* | *" --once "*) ;;
" tune "*) set -- "$@" --budget 2 ;;
" sweep "* | " bench "*) set -- "$@" --rounds 2 ;;
" watch "*) set -- "$@" --once ;;
esac
case " $* " in
*" --size "* | *" template="*) ;;
" tune op="* | " bench op="*) set -- "$@" --size 2^14 ;;
esac
exec '{kiln}' "$@"
"""

SCALE = """template <class T, int N> __global__ void scale(T *data, T factor) { data[threadIdx.x] *= factor; }
extern "C" __global__ void twice(float *data) { data[threadIdx.x] *= 2; }
"""

WISDOM = """{
"format": 1,
"records": [
{"model": "NVIDIA H200", "target": "sm_90", "multiprocessors": 132, "l2_bytes": 62914560, "memory_bytes": 150000000000,
 "template": "elementwise", "class": "1 in, 1 out, light", "op": "hardsigmoid", "dtype": "f32", "log2_n": 26,
 "geometry": "block=128 elems=4 vector=4 cache=stream", "ms": 0.1, "gbps": 4000, "ratio": 1, "samples": 100, "variants": 120,
 "template_digest": "", "toolchain": "", "by": "kiln 0.2.0"}
]
}
"""


def has_servers():
    """Whether redis-server is here, and network namespaces may be made."""
    name = f"kiln-docs-{os.getpid()}"
    if shutil.which("redis-server") is None or shutil.which("ip") is None:
        return False
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    linked = made and subprocess.run(["ip", "-n", name, "link", "add", "kd0", "type", "veth", "peer", "name", "kd1"],
                                     capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return linked


class Sandbox:
    """Commands run one after the other, as in one shell: directory and variables last."""

    def __init__(self, directory, cache):
        self.directory, self.cache = directory, cache
        self.env = {k: v for k, v in os.environ.items() if k not in OWN}
        self.env.update(HOME=directory, KILN_CACHE_DIR=cache, KILN_DEVICE="cpu", KILN_LIBCUDA="/nowhere/libcuda.so.1",
                        PKG_CONFIG_PATH=f"{self.prefix}/lib/pkgconfig", LC_ALL="C.UTF-8")
        for name in ("docs", "include", "kernel_templates", "src", "tests", "tools"):
            os.symlink(os.path.join(ROOT, name), self.path(name))
        os.makedirs(self.path("bin"))
        os.makedirs(self.path("build"))
        for preset in ("debug", "release", "static"):
            os.symlink(BUILD, self.path(f"build/{preset}"))
        self.write("bin/kiln", WRAPPER.format(kiln=KILN))
        os.chmod(self.path("bin/kiln"), 0o755)
        os.symlink(sys.executable, self.path("bin/python3"))
        self.make_files()

    @property
    def prefix(self):
        return self.path("usr/local")

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def make_files(self):
        random = np.random.default_rng(1)
        for name, shape in (("x", (64, 100)), ("y", (64, 100)), ("matrix", (64, 32))):
            np.save(self.path(name + ".npy"), random.normal(size=shape).astype(np.float32))
        for name in "m", "v":
            np.save(self.path(name + ".npy"), random.random(size=(64, 100)).astype(np.float32))
        for name in "alpha", "front", "back":
            np.save(self.path(name + ".npy"), random.integers(0, 256, (64, 100)).astype(np.uint8))
        np.save(self.path("h.npy"), random.normal(size=(64, 100)).astype(np.float16))
        np.save(self.path("mask.npy"), random.random((64, 100)) < 0.5)
        np.save(self.path("values.npy"), random.normal(size=100).astype(np.float32))
        np.save(self.path("index.npy"), random.integers(0, 100, 250))
        examples = os.path.join(ROOT, "docs", "examples", "templates")
        for name in os.listdir(examples):
            shutil.copy(os.path.join(examples, name), self.directory)
        for end in (".cu", ".c"):
            shutil.copy(os.path.join(examples, "hardsigmoid256" + end), self.path("mine" + end))
        self.write("scale.cu", SCALE)
        shutil.copy(os.path.join(ROOT, "docs", "examples", "hardsigmoid.c"), self.path("program.c"))
        os.symlink(os.path.join(BUILD, "tests", "example_hardsigmoid"), self.path("program"))
        wisdom = os.path.join(self.cache, "wisdom")
        if not os.path.exists(wisdom):
            os.makedirs(wisdom, mode=0o700)
            os.chmod(self.cache, 0o700)
            with open(os.path.join(wisdom, "nvidia-h200.json"), "w", encoding="utf-8", opener=open_private) as file:
                file.write(WISDOM)

    def write_files_of(self, name):
        """Writes the files whose text the page has."""
        for block in split_page(name)[0] if name.endswith(".md") else []:
            if file_of(block):
                self.write(file_of(block), block.text)

    def install(self):
        """Puts the built tree below usr/local, for pkg-config and CMake."""
        return self.run("cmake --install build/release --prefix /usr/local")

    def run(self, command, timeout=120):
        """Runs a command of a page; absolute paths are those of the sandbox."""
        command = re.sub(r"(?<![\w./}$])/(opt|usr/local|srv|var|tmp)\b", lambda found: self.path(found[0][1:]), command)
        for pattern, smaller in SMALLER:  # after that: the tree itself may lie below /tmp
            command = re.sub(pattern, smaller, command)
        os.makedirs(self.path("opt"), exist_ok=True)
        script = f"""if [ -e {self.path('state')} ]; then . {self.path('state')}; cd "$(cat {self.path('cwd')})"; fi
PATH={self.path('bin')}:$PATH:{BUILD}/tests
{command}
status=$?
export -p > {self.path('state')}
pwd > {self.path('cwd')}
exit $status
"""
        return subprocess.run(["bash", "-c", script], cwd=self.directory, env=self.env, stdin=subprocess.DEVNULL, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False)


def open_private(path, flags):
    return os.open(path, flags, 0o600)


def masked(text):
    """Text without what differs from run to run: numbers, and how wide they are."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.]*", "#", text)).strip()


class PageTest(unittest.TestCase):
    """Runs the commands of a page in order, in one sandbox. The cache is that of all pages, which saves compiles."""

    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.mkdtemp(prefix="kiln-docs-")
        cls.addClassCleanup(shutil.rmtree, cls.cache, ignore_errors=True)

    def sandbox(self):
        directory = tempfile.mkdtemp(prefix="kiln-docs-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        return Sandbox(directory, self.cache)

    def run_line(self, line, sandbox):
        result = sandbox.run(line.text)
        printed = result.stdout + result.stderr
        self.assertEqual(result.returncode, 0, f"{line.place}: {line.text}: status {result.returncode}\n{printed}")
        printed = [masked(text) for text in printed.splitlines()]
        for text in line.output:
            if masked(text) not in ("", "..."):
                self.assertIn(masked(text), printed, f"{line.place}: {line.text} does not print: {text}")

    def run_instead(self, line, instead, sandbox):
        words = shlex.split(line.text, comments=True)
        if instead == "peers":
            peers.settle(*peers.parse(words[2:]))
        elif instead == "shell":
            subprocess.run(["bash", "-n", os.path.join(ROOT, words[0])], check=True)
        else:
            self.assertIn(instead, sandbox.run(line.text).stderr, f"{line.place}: {line.text}")

    def run_page(self, name, sandbox):
        sandbox.write_files_of(name)
        self.run_lines(list(shell_lines([name])), sandbox)

    def run_lines(self, lines, sandbox):
        if any("pkg-config" in line.text for line, _ in lines):
            self.assertEqual(sandbox.install().returncode, 0)
        if any("redis-server" in line.text for line, _ in lines) and not has_servers():
            self.skipTest("no redis-server, or no rights to make network namespaces")
        for line, (found, row) in lines:
            with self.subTest(line.place):
                if found == "needs":
                    self.run_instead(line, row[2], sandbox)
                elif found == "run":
                    self.run_line(line, sandbox)
