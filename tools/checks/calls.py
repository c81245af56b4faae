#!/usr/bin/env python3
"""calls.py OBJECTS: proves from the object files under OBJECTS that no file of src/ calls a layer above its own.

Includes alone do not prove it: a function can be declared where it is used, or in a header of another layer."""
import subprocess
import sys
from pathlib import Path

from layers import breach, layer_of, root

# What is built from src/.
TARGETS = ("kiln_objects", "kiln_worker", "kiln_sandbox")


def symbols(path):
    """Two sets of an object file's global names: those that it defines, and those that it leaves to others."""
    defined, wanted = set(), set()
    lines = subprocess.run(["nm", "--extern-only", path], capture_output=True, text=True, check=True).stdout.splitlines()
    for line in lines:
        *_, kind, name = line.split()
        if not name.startswith("kiln"):  # the sandbox has the C library's calls under their own names
            continue
        (wanted if kind in "UwW" and len(line.split()) == 2 else defined).add(name)
    return defined, wanted


def main():
    objects = Path(sys.argv[1])
    tables = {}
    for path in sorted(objects.rglob("*.o")):
        target, _, name = path.relative_to(objects).as_posix().partition(".dir/")
        source = name.removesuffix(".o")
        # A build folder keeps the objects of files that have gone.
        if target.removeprefix("CMakeFiles/") in TARGETS and (root / "src" / source).is_file():
            tables[source] = symbols(path)
    home = {name: file for file, (defined, _) in tables.items() for name in defined}
    problems = []
    for file, (_, wanted) in tables.items():
        own = layer_of(file)
        for name in sorted(wanted & home.keys()):
            reason = breach(own, layer_of(home[name]))
            if reason:
                problems.append(f"src/{file}: uses {name} of src/{home[name]}: {reason}")
    if len(tables) < 100:
        problems.append(f"{objects}: only {len(tables)} object files: is that the folder of a build's src?")
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
