#!/usr/bin/env python3
"""Checks the sizes: .c files at most 800 lines, functions 100, public headers under 700.

A function is found by its format: clang-format puts its opening and its closing brace in the first column.
"""
import sys
from pathlib import Path

FILE_LIMIT = 800
FUNCTION_LIMIT = 100
HEADER_LIMIT = 700

root = Path(__file__).resolve().parents[2]
problems = []


def check_functions(path, lines):
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            length = number - start + 1
            if length > FUNCTION_LIMIT:
                name = lines[start - 2].strip()
                problems.append(f"{path}:{start - 1}: {length} lines, at most {FUNCTION_LIMIT}: {name}")
            start = None


for directory in ("src", "tools", "tests", "docs"):
    for source in sorted((root / directory).rglob("*.c")):
        text = source.read_text(encoding="utf-8").splitlines()
        shown = source.relative_to(root)
        if len(text) > FILE_LIMIT:
            problems.append(f"{shown}: {len(text)} lines, at most {FILE_LIMIT}")
        check_functions(shown, text)

for header in sorted((root / "include/kiln").glob("*.h")):
    length = len(header.read_text(encoding="utf-8").splitlines())
    if length >= HEADER_LIMIT:
        problems.append(f"include/kiln/{header.name}: {length} lines, must be under {HEADER_LIMIT}")

for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
