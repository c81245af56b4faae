"""What the documentation shows is what the command does."""

import os
import re
import shlex
import shutil
import subprocess
import unittest

import numpy as np

from support import KilnTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# The messages that docs/spec.md shows, and a spec that brings out each.
MESSAGES = {
    "unknown op 'hardsigmod': did you mean hardsigmoid?": "op=hardsigmod",
    "op add takes 2 inputs, got 1": "op=add(x)",
    "op hardtanh takes at most 2 parameters (lo, hi), got 3": "op=hardtanh(1,2,3)",
    "block=100 is not a multiple of 32: the nearest are 96 and 128": "op=relu6 block=100",
    "block=2048 is above 1024": "op=relu6 block=2048",
    "elems=6 vector=4: elems must be a multiple of vector; nearest: elems=4, elems=8 or vector=2":
        "op=relu6 elems=6 vector=4",
    "vector=8 dtype=f32 target=sm_90: vector must not exceed 16 bytes per access (32 from sm_100 on); "
    "nearest: vector=4": "op=relu6 dtype=f32 elems=8 vector=8 target=sm_90",
    "unknown dtype 'f31': f32, f64, f16 or bf16": "op=relu6 dtype=f31",
    "unknown dtype 'float16': did you mean f16?": "op=relu6 dtype=float16",
    "unknown field 'blok': did you mean block?": "op=relu6 blok=64",
    "unknown target 'sm90': did you mean sm_90?": "op=relu6 target=sm90",
    "field block given twice": "op=relu6 block=64 block=64",
}


# The pages whose C fragments compile, and what these take for granted.
C_PAGES = "docs/embedding.md", "docs/migration.md", "docs/source.md"
C_BEFORE = """#include <kiln/kiln.h>
#include <stdio.h>
struct host { kiln_program *program; };
static struct host host;
struct uv_loop_s;
static struct uv_loop_s *loop;
static kiln_service *service;
static kiln_device *device;
static kiln_queue *queue;
static kiln_ticket ticket;
static kiln_spec *spec;
static kiln_request request = KILN_INIT(kiln_request);
static kiln_grid grid = KILN_INIT(kiln_grid);
static kiln_live *live;
static kiln_status status;
static kiln_program *program;
static kiln_kernel *kernel;
static kiln_report report = KILN_INIT(kiln_report);
static kiln_source source = KILN_INIT(kiln_source);
static void *out, *stream, *data, *x_device, *y_device, *x, *y;
static const void *in, *inputs[1];
static float factor;
static size_t bytes;
static uint32_t blocks;
static uint64_t n, rows, columns;
static int count;
static void use(const void *what) { (void)what; }
void on_ready(void *data, kiln_status status, kiln_program *program, const kiln_report *report);
"""
C_OPTIONS = "-std=c11 -Wall -Wextra -Werror -Wno-unused-result -Wno-unused-variable -Wno-unused-function -Wno-unused-parameter -fsyntax-only -x c".split()


def c_fragments(page):
    """Indented blocks with statements in them, each as (definitions, statements)."""
    blocks = re.findall(r"(?:^(?:    .*)?\n)+", page, re.M)
    for block in (re.sub(r"^    ", "", block, flags=re.M) for block in blocks):
        if ";\n" in block:
            definitions = "".join(re.findall(r"^static .*?^}\n", block, re.M | re.S))
            yield definitions, block.replace(definitions, "")


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


class Docs(KilnTest):
    def test_table_of_operations_is_the_commands(self):
        self.assertIn(self.kiln("ops", "--markdown").stdout, read("docs/ops.md"))

    def test_messages_are_as_shown(self):
        section = read("docs/spec.md").split("## When something is wrong")[1].split("\n## ")[0]
        shown = [line.strip() for line in section.splitlines() if line.startswith("    ")]
        self.assertEqual(sorted(shown), sorted(MESSAGES))
        for message, spec in MESSAGES.items():
            result = self.kiln("show", spec, "--source", status=2)
            self.assertEqual(result.stderr, f"kiln: {message}\n")

    def test_examples_of_specs_parse(self):
        specs = re.findall(r"^    (op=\S+(?: [a-z]+=\S+)*)(?:  |$)", read("docs/spec.md"), re.M)
        self.assertGreater(len(specs), 8)
        for spec in specs:
            if ".." not in spec:
                target = "" if "target=" in spec else " target=cpu"
                self.kiln("show", spec + target, "--source")

    def test_commands_of_the_readme_run(self):
        x = np.random.default_rng(1).normal(size=(64, 100)).astype(np.float32)
        self.save("x.npy", x)
        commands = [line.split("#")[0] for line in read("README.md").splitlines() if line.startswith("    kiln ")]
        self.assertGreater(len(commands), 6)
        for end in (".cu", ".c"):
            shutil.copy(os.path.join(ROOT, "docs/examples/templates/hardsigmoid256" + end), self.path("mine" + end))
        for command in commands:
            words = [w.replace("4096x393216", "4096x16") for w in shlex.split(command)[1:]]
            self.kiln(*words, *(["--once"] if words[0] == "watch" else []), cwd=self.dir)
        y = np.clip(x + np.float32(3), 0, 6) * np.float32(1 / 6)
        np.testing.assert_array_equal(np.load(self.path("y.npy")), y)
        np.testing.assert_array_equal(np.load(self.path("z.npy")), x + y)

    def test_c_fragments_compile(self):
        fragments = [fragment for page in C_PAGES for fragment in c_fragments(read(page))]
        self.assertGreater(len(fragments), 8)
        for definitions, statements in fragments:
            text = f"{C_BEFORE}{definitions}void fragment(void);\nvoid fragment(void)\n{{\n{statements}}}\n"
            result = subprocess.run(["cc", *C_OPTIONS, "-I", os.path.join(ROOT, "include"), "-"], input=text,
                                    capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr + text)

    def test_commands_for_arguments_run(self):
        section = read("docs/templates.md").split("### Tuning, sweeping and watching them")[1].split("\n## ")[0]
        commands = [line for line in section.splitlines() if line.startswith("    kiln ")]
        self.assertEqual(len(commands), 3)
        for end in (".cu", ".c"):
            shutil.copy(os.path.join(ROOT, "docs/examples/templates/transpose" + end), self.path("transpose" + end))
        more = {"tune": ["--budget", "3"], "sweep": ["--rounds", "2"], "watch": ["--once"]}
        for command in commands:
            words = [re.sub(r"=(\d+)\d\d$", r"=\1", w) for w in shlex.split(command)[1:]]
            self.assertIn("transpose", self.kiln(*words, *more[words[0]], cwd=self.dir).stdout)


if __name__ == "__main__":
    unittest.main()
