#!/usr/bin/env python3
"""Checks that functions, statuses, environment variables and subcommands are documented, that the changelog and the man page have
the version of the build, and that the example for PyTorch names functions that exist."""
import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
problems = []


def read(path):
    return path.read_text(encoding="utf-8") if path.is_file() else ""


headers = {path.name: read(path) for path in sorted((root / "include/kiln").glob("*.h"))}
header = "\n\n".join(headers.values())
pages = {path: read(path) for path in [root / "README.md", *sorted((root / "docs").rglob("*"))]
         if path.suffix in (".md", ".1")}
every_page = "\n".join(pages.values())

# A function is documented by a comment in its block: the lines without a blank line around its declaration.
for file, text in headers.items():
    for block in re.split(r"\n\s*\n", text):
        for name in re.findall(r"^KILN_API[^;(]*?\b(kiln_\w+)\s*\(", block, re.MULTILINE):
            if "/*" not in block:
                problems.append(f"include/kiln/{file}: {name} has no comment above it")

errors_page = read(root / "docs/errors.md")
for name in re.findall(r"^\s*X\((E\w+), -\d+,", header, re.MULTILINE):
    if f"KILN_{name}" not in errors_page:
        problems.append(f"docs/errors.md: KILN_{name} is not described")

variables = set(re.findall(r'"(KILN_[A-Z_]+)"', read(root / "src/service/options.c")))
for directory in ("src", "tools"):
    for path in sorted((root / directory).rglob("*")):
        if path.suffix in (".c", ".h"):
            variables.update(re.findall(r'env\w*\(\s*"(KILN_[A-Z_]+)"', read(path)))
for script in ("tools/quickstart", "tools/check"):
    variables.update(re.findall(r"^  (KILN_[A-Z_]+)=", read(root / script), re.MULTILINE))
for name in sorted(variables):
    if not re.search(rf"\b{name}\b", every_page):
        problems.append(f"docs/: the environment variable {name} is in no page")

# CMake proves that base.h has the version of project().
version = re.search(r"^project\(Kiln VERSION (\S+)", read(root / "CMakeLists.txt"), re.MULTILINE)[1]
headings = re.findall(r"^## (.*)$", read(root / "CHANGELOG.md"), re.MULTILINE)
if not re.match(rf"{re.escape(version)} - (not released|\d{{4}}-\d\d-\d\d)$", (headings or [""])[0]):
    problems.append(f"CHANGELOG.md: the first heading is not '{version} - not released' or '{version} - YYYY-MM-DD'")
problems += [f"CHANGELOG.md: '{heading}' is not 'VERSION - YYYY-MM-DD'" for heading in headings[1:]
             if not re.match(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$", heading)]

soname = "libkiln.so." + ".".join(version.split(".")[:2])
for name in ("docs/compatibility.md", "tools/python/kiln/_library.py"):
    if soname not in read(root / name):
        problems.append(f"{name}: does not name {soname}, the library of version {version}")

manual = read(root / "docs/man/kiln.1")
if f'"kiln {version}"' not in manual:
    problems.append(f"docs/man/kiln.1: .TH does not say \"kiln {version}\"")
for path in sorted((root / "tools/kiln").glob("cmd_*.c")):
    command = path.stem.removeprefix("cmd_")
    if not re.search(rf"\b{command}\b", manual):
        problems.append(f"docs/man/kiln.1: the subcommand {command} is not described")

# No compiler reads the functions that Python asks the library for.
declared = set(re.findall(r"^KILN_API[^;(]*?\bkiln_(\w+)\s*\(", header, re.MULTILINE))
module = "tools/python/kiln/_library.py"
for name in re.findall(r'"([a-z_]+)": "[psn]+"', read(root / module)):
    if name not in declared:
        problems.append(f"{module}: no public header declares kiln_{name}")

for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
