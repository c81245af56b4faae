"""Each line of the documentation has a test. Here are the blocks of C, CUDA, Python and CMake, and lines that are no commands:
templates, definitions, specs, messages, files. test_docs_commands.py runs the commands of the pages, test_man.py those of the man
page."""

import ast
import configparser
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from doclines import (FORMER_C, MAN, MESSAGES, NEEDS, ROOT, RUN_ELSEWHERE, TEXT, all_blocks, classes, entries, file_of,
                      is_mention, kind, options_of, pages, read, shell_lines, spans, split_page)
from docsandbox import BUILD, Sandbox
from support import FAKE_LIBCUDA, KilnTest

# What C fragments take for granted.
C_BEFORE = """#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define KILN_TILE 512
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
static kiln_manifest manifest = KILN_INIT(kiln_manifest);
static kiln_tensor outputs[1], operands[2];
static kiln_output found[1];
static size_t found_count;
static char *call, *first, *second;
static const char *text;
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
C_OPTIONS = ("-std=c11 -Wall -Wextra -Werror -Wno-unused-result -Wno-unused-variable -Wno-unused-function "
             "-Wno-unused-parameter -fsyntax-only -x c").split()

# Pages that use the module take NumPy and such a PyTorch for granted.
MODULE_BEFORE = f"""import ctypes, sys
sys.path[:0] = [{os.path.join(ROOT, "tests", "python")!r}, {os.path.join(BUILD, "tools", "python")!r}]
import fake_torch
sys.modules["torch"] = fake_torch
from kiln import _library
stand_in = ctypes.CDLL({FAKE_LIBCUDA!r})
stand_in.kiln_fake_context_primary.restype = ctypes.c_void_p
_library.session().device(0)
fake_torch.cuda.bind = lambda index: stand_in.kiln_fake_context_set(ctypes.c_void_p(stand_in.kiln_fake_context_primary(index)))
fake_torch.cuda.bind(0)
"""

CMAKE_BEFORE = """cmake_minimum_required(VERSION 3.25)
project(program C)
add_executable(program program.c)
"""


def squeezed(text):
    return re.sub(r"\s+", " ", text).strip()


def cut(text):
    """A line without its explanation, which stands behind two or more blanks."""
    return re.split(r" {2,}", text, maxsplit=1)[0]


SAMPLE = """# A page

    kiln ops        # the ops
    no command at all
    cat <<END
    text
    END
    tools/check

`mine.cu` is a text:

```cuda
__global__ void f() {}
```

- An item
    goes on here.

```console
$ kiln ops --json \\
    --verbose
{"ops": 9}
```

Text names `kiln run
--verify`, `kiln show op=copy` and `kiln 0.1`.
"""


class Reader(unittest.TestCase):
    """The reader finds what this sample has, so that the tests below do not pass for want of lines."""

    def test_blocks_and_lines(self):
        blocks, _ = split_page("sample", SAMPLE)
        self.assertEqual([(block.number, kind(block), file_of(block)) for block in blocks],
                         [(3, "lines", None), (13, "cuda", "mine.cu"), (20, "shell", None)])
        lines = [(line.number, line.text, [name for name, _ in classes(line)]) for line in entries(blocks[0])]
        self.assertEqual(lines, [(3, "kiln ops        # the ops", ["run"]), (4, "no command at all", []),
                                 (5, "cat <<END\ntext\nEND", ["run"]), (8, "tools/check", ["elsewhere"])])
        console = entries(blocks[2])
        self.assertEqual([(line.text, line.output) for line in console], [("kiln ops --json \\\n    --verbose", ['{"ops": 9}'])])

    def test_spans(self):
        found = [(line.number, line.text, is_mention(line.text)) for line in spans("sample", SAMPLE)]
        self.assertEqual(found, [(25, "kiln run --verify", True), (26, "kiln show op=copy", False)])


class Lines(unittest.TestCase):
    """Each line of the pages has one class, and each row of the tables has a line."""

    def test_each_line_has_one_class(self):
        wrong = []
        for block in all_blocks():
            if kind(block) in ("lines", "shell", "recipe"):
                for line in entries(block):
                    found = [name for name, _ in classes(line, kind(block))]
                    if len(found) != 1:
                        wrong.append(f"{line.place}: {line.text}: {', '.join(found) or 'no class: see tests/cli/doclines.py'}")
        self.assertEqual(wrong, [])

    def test_each_row_of_the_tables_has_a_line(self):
        lines = [line for name in [*pages(), MAN] for line, _ in shell_lines([name])]
        for table in RUN_ELSEWHERE, NEEDS:
            for pattern, *_ in table:
                self.assertTrue(any(re.match(pattern, line.text) for line in lines), pattern)
        every = [line.text for block in all_blocks() if kind(block) == "lines" for line in entries(block)]
        for pattern, what in TEXT:
            self.assertTrue(any(re.match(pattern, text.strip()) for text in every), what)
        for message in MESSAGES:
            self.assertIn(message, every)

    def test_lines_that_run_elsewhere_do(self):
        for pattern, file, text in RUN_ELSEWHERE:
            self.assertIn(text, read(file), f"{file} does not run {pattern}")

    def test_presets_exist(self):
        presets = {preset["name"] for preset in json.loads(read("CMakePresets.json"))["configurePresets"]}
        for line, _ in shell_lines(pages()):
            for name in re.findall(r"--preset (\w+)", line.text):
                self.assertIn(name, presets, line.place)

    def test_ctest_finds_the_tests(self):
        with open(os.path.join(BUILD, "tests", "CTestTestfile.cmake"), encoding="utf-8") as file:
            made = file.read()
        names = re.findall(r"add_test\(\[=\[(.*?)\]=\]", made)
        labels = re.findall(r' LABELS "(.*?)"', made)
        for line, _ in shell_lines(pages()):
            for option, wanted in re.findall(r" (-[RL]) (\S+)", line.text if "ctest " in line.text else ""):
                found = [name for name in (names if option == "-R" else labels) if re.search(wanted.strip("'"), name)]
                self.assertTrue(found, f"{line.place}: no test for {option} {wanted}")
            case = re.match(r'CK_RUN_CASE="([^"]*)" ctest .*-R ((\w+?)_\w+)', line.text)
            if case:
                suite = f"tests/{case[3]}/check_{case[2].removeprefix(case[3] + '_')}.c"
                self.assertIn(f'tcase_create("{case[1]}")', read(suite), line.place)

    def test_scripts_have_the_options(self):
        for line, _ in shell_lines(pages()):
            script = re.match(r"tools/(?:check|quickstart)\b", line.text)
            if script:
                told = subprocess.run([os.path.join(ROOT, script[0]), "--help"], capture_output=True, text=True, check=True)
                self.assertLessEqual(options_of(line.text.split("#")[0]), options_of(told.stdout), line.place)

    def test_fuzz_targets_exist(self):
        targets = {os.path.basename(path)[:-2] for path in glob.glob(os.path.join(ROOT, "tests", "fuzz", "*.c"))}
        for line, _ in shell_lines(pages()):
            for name in re.findall(r"/fuzz_(\w+)", line.text):
                self.assertIn(name, targets, line.place)
            run = re.match(r"tests/fuzz/run\.sh \d+((?: \w+)*)", line.text)
            for name in run[1].split() if run else []:
                self.assertIn(name, targets, line.place)


class Blocks(KilnTest):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("sandbox"))
        self.sandbox = Sandbox(self.path("sandbox"), self.cache)

    def blocks(self, *kinds):
        found = [block for block in all_blocks() if kind(block) in kinds]
        self.assertTrue(found)
        return found

    def lines(self, wanted):
        found = [line for block in self.blocks("lines") for line in entries(block)
                 if [name for name, _ in classes(line)] == [wanted]]
        self.assertTrue(found)
        return found

    def shell(self, command, place, status=0):
        result = self.sandbox.run(command)
        if status is not None:
            self.assertEqual(result.returncode, status, f"{place}: {command}\n{result.stdout}{result.stderr}")
        return result

    def test_c_compiles(self):
        for block in self.blocks("c"):
            with self.subTest(block.place):
                if "int main(" in block.text:
                    self.run_program(block)
                else:
                    self.compile_fragment(block)

    def run_program(self, block):
        self.assertEqual(self.sandbox.install().returncode, 0)
        self.sandbox.write("block.c", block.text)
        self.shell("cc -std=c11 -Wall -Wextra -Werror block.c $(pkg-config --cflags --libs kiln) -o block", block.place)
        self.shell("LD_LIBRARY_PATH=$(pkg-config --variable=libdir kiln) ./block", block.place)

    def compile_fragment(self, block):
        """The definitions of functions stand as they are, and all else is in a function."""
        definitions = "".join(re.findall(r"^(?:\w+ )+\*?\w+\([^;]*?\)\n\{\n.*?^\}\n", block.text, re.M | re.S))
        statements = block.text.replace(definitions, "")
        text = f"{C_BEFORE}{definitions}void fragment(void);\nvoid fragment(void)\n{{\n{statements}}}\n"
        result = subprocess.run(["cc", *C_OPTIONS, "-I", os.path.join(ROOT, "include"), "-"], input=text, capture_output=True,
                                text=True, check=False)
        if re.search(FORMER_C, block.text):
            self.assertNotEqual(result.returncode, 0, f"{block.place} compiles: it has no form of version 0.1")
        else:
            self.assertEqual(result.returncode, 0, f"{block.place}\n{result.stderr}{text}")

    def test_cuda_compiles(self):
        for block in (block for block in all_blocks() if kind(block) == "cuda"):
            name = file_of(block)
            if name and any(name in line.text for line, _ in shell_lines([block.page])):
                continue  # commands of the page compile the file
            with self.subTest(block.place):
                self.sandbox.write("block.cu", block.text)
                if re.search(r"^//! ", block.text, re.M):
                    self.shell("kiln show template=./block.cu target=sm_90 --ptx", block.place)
                else:
                    self.shell("kiln build block.cu --target sm_90", block.place)

    def test_declarations_are_those_of_templates(self):
        """A page shows declarations of one template in a block, as they stand there, and may leave some out."""
        paths, templates = [], []
        for place in ("kernel_templates", "docs/examples/templates"):
            paths += glob.glob(os.path.join(ROOT, place, "*.cu"))
        for path in paths:
            with open(path, encoding="utf-8") as file:
                templates.append({squeezed(line) for line in file if line.startswith("//!")})
        for block in self.blocks("template"):
            lines = {squeezed(line) for line in block.lines if line}
            missing = min((lines - template for template in templates), key=len)
            self.assertEqual(missing, set(), block.place)

    def test_unit_is_what_the_compiler_sees(self):
        for block in self.blocks("unit"):
            spec = cut(block.lines[0].removeprefix("// "))
            shown = self.shell(f"kiln show '{spec} target=sm_90' --source", block.place).stdout.splitlines()
            last = -1
            for line in block.lines:
                if not line.startswith(" "):
                    self.assertIn(cut(line), shown[last + 1:], block.place)
                    last = shown.index(cut(line), last + 1)

    def test_python_runs(self):
        for block in self.blocks("python"):
            with self.subTest(block.place):
                ast.parse(block.text, block.place)
        if os.environ.get("KILN_SANITIZE"):
            self.skipTest("Python cannot load a library that is built with a sanitizer")
        for name in sorted({block.page for block in self.blocks("python")}):
            blocks = [block.text for block in self.blocks("python") if block.page == name]
            before = MODULE_BEFORE if any("import kiln" in block for block in blocks) else ""
            env = dict(self.sandbox.env, KILN_LIBRARY=os.path.join(BUILD, "src", "libkiln.so"))
            if before:
                env.update(KILN_DEVICE="cuda:0", KILN_LIBCUDA=FAKE_LIBCUDA, KILN_FAKE_CUDA="sm=90,devices=2")
            result = subprocess.run([sys.executable, "-B", "-"], input="\n".join([before, *blocks]),
                                    cwd=self.sandbox.directory, env=env, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, f"{name}\n{result.stderr}")

    def check_yaml(self):
        """Recipes are YAML, and the variables that they set are Kiln's. Objects of Kubernetes select what they name."""
        try:
            import yaml
        except ImportError:
            return
        known = set(re.findall(r'"(KILN_[A-Z_]+)"', read("src/service/options.c")))
        for block in all_blocks():
            if block.language != "yaml":
                continue
            with self.subTest(block.place):
                self.assertLessEqual(set(re.findall(r"\bKILN_[A-Z_]+", block.text)), known)
                objects = list(yaml.safe_load_all(block.text))
                self.assertTrue(all(isinstance(one, dict) for one in objects))
                labels = [one["spec"]["template"]["metadata"]["labels"] for one in objects if one.get("kind") == "Deployment"]
                for one in objects:
                    if one.get("kind") == "Service":
                        self.assertIn(one["spec"]["selector"], labels)
                    pod = one.get("spec", {}).get("template", {}).get("spec", {})
                    mounted = {mount["name"] for part in ("containers", "initContainers") for container in pod.get(part, [])
                               for mount in container.get("volumeMounts", [])}
                    self.assertEqual(mounted, {volume["name"] for volume in pod.get("volumes", [])})

    def test_configurations(self):
        for block in self.blocks("ini"):
            configparser.ConfigParser().read_string(block.text, block.place)
        self.check_yaml()
        nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        for block in self.blocks("nginx"):
            if nginx is None:
                self.skipTest("no nginx")
            text = block.text.replace("/var/lib", self.sandbox.directory)
            os.makedirs(self.sandbox.path("kiln"))
            self.sandbox.write("nginx.conf", "pid nginx.pid; events {} http { access_log off; server { listen 127.0.0.1:6398; "
                               f"{text} }} }}")
            result = subprocess.run([nginx, "-t", "-p", self.sandbox.directory, "-c", "nginx.conf", "-e", "stderr"],
                                    capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, f"{block.place}\n{result.stderr}")

    def test_cmake_builds(self):
        self.assertEqual(self.sandbox.install().returncode, 0)
        # FetchContent takes this tree for the repository that a page names. A link names it, because the tree may lie below
        # a directory that the sandbox replaces.
        os.symlink(ROOT, self.sandbox.path("tree"))
        for block in self.blocks("cmake"):
            text = block.text if "project(" in block.text else CMAKE_BEFORE + block.text
            self.sandbox.write("CMakeLists.txt", text)
            shutil.rmtree(self.sandbox.path("outside"), ignore_errors=True)
            self.shell("cmake -S . -B outside -G Ninja -DCMAKE_PREFIX_PATH=/usr/local "
                       "-DFETCHCONTENT_SOURCE_DIR_KILN=$PWD/tree", block.place)
            self.shell("cmake --build outside && outside/program", block.place)

    def test_json_has_the_fields(self):
        shown = json.loads(self.shell("kiln wisdom export", "the stored record").stdout)
        names = {name for record in shown["records"] for name in record} | set(shown)
        for block in self.blocks("json"):
            given = json.loads(re.sub(r"\.\.\. |, \.\.\.(?=\})", "", block.text))
            self.assertLessEqual({name for record in given["records"] for name in record} | set(given), names, block.place)

    def test_specs(self):
        for line in self.lines("spec"):
            spec, *notes = re.split(r" {2,}", line.text)
            if ".." in spec or re.search(r",\w+(=|$)", re.sub(r"\([^)]*\)", "", spec)):
                result = self.shell(f"kiln warm '{spec}' --check --json", line.place, None)
                product = re.match(r"[\dx ]+(?= specs)", notes[0]) if notes else None
                count = json.loads(result.stdout)["specs"]
                if product:
                    self.assertEqual(count, eval(product[0].replace("x", "*")), line.place)
            else:
                target = "" if "target=" in spec else " target=cpu"
                self.shell(f"kiln show '{spec}{target}' --source", line.place)
            if notes and notes[0] == "is":
                shown = [self.shell(f"kiln show '{text}' --spec", line.place).stdout for text in (spec, notes[1])]
                self.assertEqual(shown[0], shown[1], line.place)

    def test_definitions(self):
        ops = {squeezed(line) for line in read("kernel_templates/ops.txt").splitlines()}
        own = {re.split(r"\W", line)[0] for line in ops if not line.startswith(("doc ", "#"))}
        name = None
        for line in self.lines("definition"):
            if not line.text.startswith(" "):
                name = re.match(r"\w+", line.text)[0]
            if name in own:
                self.assertIn(squeezed(line.text), ops, line.place)
            elif not line.text.startswith(" "):
                inputs = "--in x.npy" + " --in y.npy" * bool(re.search(r"\by\b", line.text))
                self.shell(f"kiln run --define-op '{line.text}' op={name} {inputs} --out out.npy --verify", line.place)

    def test_messages_are_as_shown(self):
        for name in pages():
            self.sandbox.write_files_of(name)
        for line in self.lines("message"):
            result = self.sandbox.run(f"({MESSAGES[line.text]})")
            self.assertNotEqual(result.returncode, 0, line.place)
            self.assertIn(line.text, [re.sub(r"^kiln: (/\S*/)?", "", text) for text in result.stderr.splitlines()], line.place)

    def test_files_exist(self):
        for line in self.lines("files"):
            for name in cut(line.text).split(", "):
                self.assertTrue(glob.glob(os.path.join(ROOT, name)), f"{line.place}: {line.text}")

    def test_files_of_the_cache_exist(self):
        self.shell("kiln warm op=copy --target sm_90 && kiln wisdom export saved.json", "the cache")
        damage = "echo damage > $KILN_CACHE_DIR/wisdom/nvidia-h200.json"
        self.shell(f"{damage} && chmod 600 saved.json && kiln wisdom import saved.json", "the cache")
        found = [os.path.relpath(path, self.cache) for path in glob.glob(os.path.join(self.cache, "**"), recursive=True)]
        for line in self.lines("cache"):
            name = re.escape(cut(line.text)).replace("3f", "[0-9a-f]{2}").replace(r"<62\ hex\ digits>", "[0-9a-f]{62}")
            name = name.replace("<toolchain>", "[a-z0-9.-]+").rstrip("/")
            self.assertTrue(any(re.fullmatch(name, path) for path in found), f"{line.place}: {line.text}: {found}")

    def test_table_of_operations_is_the_commands(self):
        self.assertIn(self.kiln("ops", "--markdown").stdout, read("docs/ops.md"))

    def test_mentioned_options_exist(self):
        every = {"help": {"--help"}, "--version": {"--version"}}
        for name in re.findall(r"^  (\w+)  ", self.kiln("help").stdout, re.M):
            every[name] = options_of(self.kiln("help", name).stdout)
        for line in (line for name in pages() for line in spans(name) if is_mention(line.text)):
            command = line.text.split()[1]
            self.assertIn(command, every, line.place)
            self.assertLessEqual(options_of(line.text), every[command], line.place)

    def test_main_job_of_the_quickstart(self):
        """The rest of tools/quickstart, packages and a build, is also the beginning of tools/check."""
        self.shell("python3 -B tools/lib/main_job.py bin/kiln quickstart", "tools/quickstart")


if __name__ == "__main__":
    unittest.main()
