#!/usr/bin/env python3
"""Checks that no line of C is longer than 120 columns, and names functions of more than 100 lines, which is no failure.

A function is found by its format: clang-format puts its opening and its closing brace in the first column.
"""
import sys
from pathlib import Path

COLUMNS = 120
FUNCTION_LINES = 100

root = Path(__file__).resolve().parents[2]
problems = []


def name_long_functions(path, lines):
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            if number - start >= FUNCTION_LINES:
                print(f"{path}:{start - 1}: a function of {number - start + 1} lines: {lines[start - 2].strip()}", file=sys.stderr)
            start = None


for directory in ("include", "kernel_templates", "src", "tools", "tests", "docs"):
    for source in sorted((root / directory).rglob("*.[ch]")):
        lines = source.read_text(encoding="utf-8").splitlines()
        shown = source.relative_to(root)
        problems += [f"{shown}:{number}: {len(line)} columns, at most {COLUMNS}"
                     for number, line in enumerate(lines, 1) if len(line) > COLUMNS]
        name_long_functions(shown, lines)

for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
