"""The pages of the documentation, read as blocks and lines, and the tables that say which test runs each line.

A line has exactly one class. test_docs_commands.py and test_man.py run commands in a sandbox, but for those that RUN_ELSEWHERE or
NEEDS has. test_docs.py checks all other lines and blocks. A line without a class fails test_docs.py."""

import glob
import os
import re
import shlex
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAN = "docs/man/kiln.1"
DIFFS = "docs/contributing.md"  # tests/consume/extensions.py applies the diffs of this page, and builds the result

# The first word of a command, behind assignments of variables.
COMMAND = re.compile(r"(?:sudo +)?(?:[A-Z_][A-Z0-9_]*=(?:\"[^\"]*\"|'[^']*'|\S*) +)*"
                     r"(?:(?:kiln(?! \d)|cmake|ctest|ninja|make|ldconfig|cc|gcc|g\+\+|clang|nvcc|python3?|pip3?|pkg-config|"
                     r"man|apt|apt-get|git|docker|export|cd|mkdir|cp|mv|rm|ln|cat|echo|printf|tar|curl|chmod|chown|scp|rsync|sh|bash|sed|ls|"
                     r"redis-server|redis-cli|openssl|compute-sanitizer|bench_\w+|device_\w+)(?= |$)|(?:\.?/\w|tools/|tests/|build/)\S*(?= |$))")

# Commands that another test or script runs: a pattern, a file of that test, and the text of the file that runs the command.
RUN_ELSEWHERE = [
    (r"cmake --preset (\w+)( && cmake --build --preset \1)?( |$)", "tools/lib/setup.sh", 'cmake --preset "$preset"'),
    (r"cmake --build --preset \w+( |$)", "tools/lib/setup.sh", 'cmake --build "build/$preset"'),
    (r"(CK_RUN_CASE=\"[^\"]*\" )?ctest ", "tools/check", 'ctest --preset "$1"'),
    (r"tools/check( |$)", ".ci/run", "tools/check"),
    (r"tools/quickstart( |$)", "tests/cli/test_docs.py", "tools/lib/main_job.py"),  # its builds are those of tools/check
    (r"build/\w+/tests/check_fault --long ", "tests/CMakeLists.txt", "COMMAND check_fault --long"),
    (r"tests/fuzz/run\.sh ", "tools/check", "tests/fuzz/run.sh"),
    (r"build/fuzz/tests/fuzz/fuzz_\w+ ", "tests/fuzz/run.sh", "tests/fuzz/fuzz_$name"),
    (r"apt-get install |ldconfig$", "tests/consume/readme.py", '"ldconfig"'),
    (r"pip install \S*tools/python", "tests/consume/wheel.py", '"install", "numpy"'),
    (r"python -m kiln ", "tests/consume/wheel.py", '"-m", "kiln"'),
    (r"kiln warm --manifest \S+ --target \S+ --push( |$)", "tests/cli/test_remote.py", 'self.warm(SIX, self.url, "--push")'),
    (r"man kiln$", "tests/consume/run.sh", "share/man/man1/kiln.1"),
]

# Commands that need more than a test machine has: a pattern, what they need, and what the tests do instead.
# "peers": the options are parsed. "shell": bash reads the script. Other text: the message of the command, which fails.
NO_DRIVER = "cannot open the CUDA driver"
NEEDS = [
    (r"python3 tests/bench/peers\.py ", "PyTorch and a GPU", "peers"),
    (r"tests/device/(run|sanitize|reductions)\.sh ", "a GPU", "shell"),
    (r"(KILN_LIBRARY=\S+ )?python3 tests/device/(torch_bits|torch_module|torch_eager|torch_tensors|torch_rows|torch_errors|op_peers)\.py( |$)", "PyTorch and a GPU", "torch"),
    (r"python3 tests/device/defaults\.py ", "a GPU", NO_DRIVER),
    (r"(\S+/)?bench_access_patterns ", "a GPU", NO_DRIVER),
    (r"kiln \w+ .*--device all( |$)", "two GPUs", NO_DRIVER),
]

# Messages that pages show, each with the command that brings it out.
MESSAGES = {
    "unknown op 'hardsigmod': did you mean hardsigmoid?": "kiln show op=hardsigmod --source",
    "add takes 2 arguments, got 1": "kiln show 'op=add(x)' --source",
    "hardtanh takes at most 2 parameters (lo, hi), got 3": "kiln show 'op=hardtanh(1,2,3)' --source",
    "block=100 is not a multiple of 32: the nearest are 96 and 128": "kiln show 'op=relu6 block=100' --source",
    "block=2048 is above 1024": "kiln show 'op=relu6 block=2048' --source",
    "elems=6 vector=4: elems must be a multiple of vector; nearest: elems=4, elems=8 or vector=2":
        "kiln show 'op=relu6 elems=6 vector=4' --source",
    "vector=8 dtype=f32 target=sm_90: vector must not exceed 16 bytes per access (32 from sm_100 on); nearest: vector=4":
        "kiln show 'op=relu6 dtype=f32 elems=8 vector=8 target=sm_90' --source",
    "unknown dtype 'f31': f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8 or bool": "kiln show 'op=relu6 dtype=f31' --source",
    "unknown dtype 'float16': did you mean f16?": "kiln show 'op=relu6 dtype=float16' --source",
    "unknown field 'blok': did you mean block?": "kiln show 'op=relu6 blok=64' --source",
    "unknown target 'sm90': did you mean sm_90?": "kiln show 'op=relu6 target=sm90' --source",
    "field block given twice": "kiln show 'op=relu6 block=64 block=64' --source",
    "hardtanh4.cu:11: unknown declaration 'requre': did you mean require?":
        "mkdir -p wrong && sed 's/require/requre/' hardtanh4.cu > wrong/hardtanh4.cu && cd wrong && "
        "kiln show template=./hardtanh4.cu",
    "block=1024 elems=16: a block must not take more than 8192 elements; nearest: block=512 or elems=8":
        "kiln show 'template=./hardtanh4.cu block=1024 elems=16'",
    "hardsigmoid256.cu: the kernel hardsigmoid256 takes 3 parameters, and the template declares 2 (out, x): add an arg line for parameter 3 of 8 bytes":
        "mkdir -p few && sed '/arg       n/d' hardsigmoid256.cu > few/hardsigmoid256.cu && cd few && "
        "kiln show template=./hardsigmoid256.cu target=sm_90 --ptx",
    "hardsigmoid256.c:13: args[2] is argument 3, and the template declares 2 (out, x): add an arg line":
        "mkdir -p few2 && sed '/arg       n/d' hardsigmoid256.cu > few2/hardsigmoid256.cu && cp hardsigmoid256.c few2 && cd few2 && "
        "kiln show template=./hardsigmoid256.cu",
    "the source has no function 'scal<1>': identifier \"scal\" is undefined; its text has: scale<class T, int N>":
        "kiln build scale.cu --function 'scal<1>' --target sm_90",
}

# Lines that nothing can run: a pattern and what the lines are.
TEXT = [
    (r".*-->|.*\+--|.*->.*->|.*\|miss|.*\.c +\S+\.c", "a figure"),
    (r"(line|field|value|layout|axis|op|outputs|choice|binary|unary|primary|call|argument|number|blank|lists|item) +=|\| ",
     "the grammar, which the fuzz target spec reads"),
    (r"NAME(\(.*\))? = \(?EXPRESSION", "the form of a definition"),
    (r"[+=/-] <place> ", "the form of a list of reads, which the fuzz target reads reads"),
]

# C of version 0.1, which no longer compiles.
FORMER_C = r"\bKILN_REPORT_INIT\b|\bKILN_SOURCE_INIT\b|\bkiln_get_async\b"

SPEC = r"(?=.*\b(op|template)=)[a-z_0-9]+=\S"
DEFINITION = r"[a-z][a-z0-9_]*(\([a-z_0-9, ;=.-]*\))? = \S"


@dataclass
class Block:
    page: str
    number: int  # of the first line, from 1
    language: str  # the word behind ```; empty for an indented block
    lines: list
    before: str  # the paragraph above

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)

    @property
    def place(self):
        return f"{self.page}:{self.number}"


@dataclass
class Line:
    page: str
    number: int
    text: str
    output: list  # the lines that the page shows below the command

    @property
    def place(self):
        return f"{self.page}:{self.number}"


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def pages():
    found = glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)
    return ["README.md", *sorted(os.path.relpath(path, ROOT) for path in found)]


def split_page(name, text=None):
    """The blocks of a page in Markdown, and the other lines with their numbers."""
    blocks, prose, block, fence = [], [], None, None
    paragraph, after_blank = [], True
    for number, line in enumerate((read(name) if text is None else text).splitlines(), 1):
        opening = re.match(r" {0,3}(```+|~~~+)(.*)", line)
        if fence is not None:
            if opening and opening[1].startswith(fence) and not opening[2].strip():
                fence = block = None
            else:
                block.lines.append(line)
            continue
        if opening:
            fence, language = opening[1], opening[2].strip().lower()
            block = Block(name, number + 1, language, [], "\n".join(paragraph))
            blocks.append(block)
        elif line.startswith("    ") and line.strip() and (after_blank or block):
            if block is None:
                block = Block(name, number, "", [], "\n".join(paragraph))
                blocks.append(block)
            block.lines.append(line[4:].rstrip())
        elif not line.strip() and block is not None:
            block.lines.append("")
        else:
            paragraph = [*([] if after_blank else paragraph), line] if line.strip() else paragraph
            prose.append((number, line))
            block = None
        after_blank = not line.strip()
    for block in blocks:
        while block.lines and not block.lines[-1]:
            block.lines.pop()
    return blocks, prose


def split_man():
    """The examples of the man page."""
    blocks, block = [], None
    escapes = {r"\-": "-", r"\(aq": "'", r"\(dq": '"', r"\(ti": "~", r"\~": " ", r"\&": "", r"\e": "\\", r"\|": ""}
    for number, line in enumerate(read(MAN).splitlines(), 1):
        if line in (".EX", ".nf"):
            block = Block(MAN, number + 1, "", [], "")
            blocks.append(block)
        elif line in (".EE", ".fi"):
            block = None
        elif block is not None and not line.startswith("."):
            block.lines.append(re.sub(r"\\(?:\(..|.)", lambda found: escapes[found[0]], line))
    return blocks


def kind(block):
    """What a block holds: c, cuda, template, unit, python, cmake, json, shell, ini, nginx, diff, or
    lines, each with a class."""
    named = {"c": "c", "cpp": "cuda", "cuda": "cuda", "cu": "cuda", "python": "python", "py": "python", "cmake": "cmake",
             "json": "json", "sh": "shell", "bash": "shell", "shell": "shell", "console": "shell",
             "dockerfile": "recipe", "yaml": "recipe", "ini": "ini", "nginx": "nginx"}
    text = block.text
    found = named.get(block.language)
    if block.language == "diff" and block.page == DIFFS:
        return "diff"
    if re.search(r"^#define KILN_UNIT\b", text, re.M):
        return "unit"
    if found is None:
        for found, pattern in (("cuda", r"\b__global__\b"), ("template", r"^//! "),
                               ("python", r"\A(import|from) \w"), ("json", r"\A\{\n"), ("c", r";( +/\*.*\*/)?$"),
                               ("cmake", r"^(find_package|add_executable|project|target_link_libraries)\(")):
            if re.search(pattern, text, re.M):
                break
        else:
            found = "lines"
    if found in ("c", "cuda") and re.search(r"^//! ", text, re.M):
        found = "cuda" if "__global__" in text else "template"
    return found


def file_of(block):
    """The name of the file that a block is, if the paragraph above names just one and the block is whole."""
    names = set(re.findall(r"`([\w-]+\.(?:cu|cuh|c|h|py|json|txt)|CMakeLists\.txt)`", block.before))
    whole = kind(block) == "cuda" or re.search(r"\bint main\(|\bproject\(|^(import|from) \w|^\{\n", block.text, re.M)
    return names.pop() if len(names) == 1 and whole else None


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z](?:[a-z_-]*[a-z])?", text))


def is_unfinished(text):
    """Whether a shell would ask for another line."""
    heredoc = re.search(r"<<-?\s*['\"]?(\w+)", text)
    if heredoc:
        return not re.search(rf"^\s*{heredoc[1]}$", text.split("\n", 1)[1] if "\n" in text else "", re.M)
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return text.endswith("\\")


def entries(block):
    """The lines of a block, with the lines of one command joined, and each command with the output that is shown below it."""
    if kind(block) == "recipe":
        return [Line(block.page, number, command[1], []) for number, text in enumerate(block.lines, block.number)
                if (command := re.match(r"(?:RUN|\s*- run:) (.*)", text))]
    found, open_line = [], None
    prompts = any(line.startswith("$ ") for line in block.lines)
    for number, text in enumerate(block.lines, block.number):
        if open_line:
            open_line.text += "\n" + text
        elif prompts and not text.startswith("$ "):
            if found:
                found[-1].output.append(text)
            continue
        elif not text.strip() or text.startswith("# "):
            continue
        else:
            text = text[2:] if prompts else text
            found.append(Line(block.page, number, text, []))
            open_line = found[-1]
            if kind(block) != "shell" and not COMMAND.match(text):
                open_line = None
        if open_line and not is_unfinished(open_line.text):
            open_line = None
    return found


def spans(name, text=None):
    """The commands with arguments among the code spans of a page's text."""
    _, prose = split_page(name, text)
    text = "\n".join(line for _, line in prose)
    numbers = [number for number, _ in prose]
    for span in re.finditer(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.sub(r"(?<=\n)\n", "\0", text), re.S):
        command = re.sub(r"\s+", " ", span[2]).replace("\\|", "|").strip()
        if "\0" not in span[2] and " " in command and COMMAND.match(command):
            yield Line(name, numbers[text.count("\n", 0, span.start())], command, [])


def is_mention(text):
    """Whether a span only names a subcommand and its options, like `kiln run --verify`."""
    words = text.split()
    return words[0] == "kiln" and not re.search(r"['=]|\.\w+( |$)", text)


def classes(line, block_kind="lines"):
    """The classes of a line; a right line has one."""
    text, found = line.text, []
    if block_kind == "shell" or COMMAND.match(text):
        found += [("elsewhere", row) for row in RUN_ELSEWHERE if re.match(row[0], text)]
        found += [("needs", row) for row in NEEDS if re.match(row[0], text)]
        return found or [("run", None)]
    message = text in MESSAGES
    found += [("message", text)] if message else []
    found += [("text", row) for row in TEXT if re.match(row[0], text.strip()) and not message]
    found += [("files", None)] if re.match(r"(include|src|tests|tools|docs|kernel_templates)/\S+(, \S+)*  ", text) else []
    found += [("cache", None)] if re.match(r"(v1|wisdom)/|CACHEDIR\.TAG ", text) else []
    if not found and re.match(SPEC, text):
        found.append(("spec", None))
    if not found and re.match(DEFINITION, text) or re.match(r"    (doc|nan) \S", text):
        found.append(("definition", None))
    return found


def all_blocks():
    return [block for name in pages() for block in split_page(name)[0]] + split_man()


def shell_lines(names):
    """Every command of the pages, spans included, in the order of the pages, with its class."""
    for name in names:
        blocks = split_man() if name == MAN else split_page(name)[0]
        lines = [(line, classes(line, kind(block))) for block in blocks if kind(block) in ("shell", "lines", "recipe")
                 for line in entries(block)]
        if name != MAN:
            lines += [(line, classes(line)) for line in spans(name) if not is_mention(line.text)]
        for line, found in sorted(lines, key=lambda pair: pair[0].number):
            if found and found[0][0] in ("run", "elsewhere", "needs"):
                yield line, found[0]
