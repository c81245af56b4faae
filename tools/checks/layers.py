#!/usr/bin/env python3
"""Proves that every file of src/ includes only its own layer and those below it, and a few rules beside."""
import re
import sys
from pathlib import Path

LAYERS = ["base", "os", "lang", "spec", "source", "store", "remote", "wisdom", "backend", "gpu", "cpu", "jit", "kiln-worker",
          "service", "daemon", "tune", "api"]
# Layers that may use less than everything below them.
NARROW = {"lang": {"base"}, "spec": {"base", "lang"}, "source": {"base", "lang", "spec"}, "store": {"base", "os"}, "remote": {"store"},
          "cpu": {"base", "os", "lang", "spec", "source", "store", "backend"}}
# System headers and the only places that may include them.
RESERVED = {
    "uthash.h": ("src/base/table.h",),
    "utlist.h": ("src/base/table.h",),
    "uv.h": ("src/service/queue_uv.c", "src/daemon/server.h", "tools/kiln/watch/watcher.c"),
    "spawn.h": ("src/os/spawn.c",),
    "hiredis/hiredis.h": ("src/remote/answers.h",),
    "curl/curl.h": ("src/remote/http.c",),
    "cuda.h": (),
    "cuda_runtime.h": (),
    "nvrtc.h": (),
}
# The only file of src/ that the command is built with. It includes nothing else of src/.
SHARED = "os/spawn"
# The public headers, and what each may include.
PUBLIC = {
    "base.h": {"stddef.h", "stdint.h"},
    "device.h": {"kiln/base.h"},
    "cache.h": {"kiln/base.h"},
    "daemon.h": {"kiln/base.h"},
    "source.h": {"kiln/base.h"},
    "kernel.h": {"kiln/base.h", "kiln/device.h", "kiln/source.h"},
    "tensor.h": {"kiln/kernel.h"},
    "dlpack.h": {"kiln/tensor.h", "dlpack/dlpack.h"},
    "tune.h": {"kiln/kernel.h"},
    "kiln.h": {"kiln/base.h", "kiln/cache.h", "kiln/daemon.h", "kiln/device.h", "kiln/kernel.h", "kiln/source.h", "kiln/tensor.h",
               "kiln/tune.h"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

root = Path(__file__).resolve().parents[2]
problems = []


def layer_of(path):
    """The layer of a path relative to src/: its first folder."""
    return path.split("/")[0]


def includes(path):
    for mark, name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        yield mark == '"', name


def breach(own, other):
    """Why a file of layer `own` must not use one of layer `other`; None where it may."""
    if own == other:
        return None
    if LAYERS.index(other) > LAYERS.index(own):
        return f"{other} is above {own}"
    if other not in NARROW.get(own, {other}):
        return f"{own} may use only {', '.join(sorted(NARROW[own]))}"
    return None


def check_quoted(relative, name):
    """An include of another file of src/, named from src/."""
    if not (root / "src" / name).is_file():
        return f"includes \"{name}\", which is not a file of src/ (name it from src/)"
    own, other = layer_of(relative), layer_of(name)
    for layer in (own, other):
        if layer not in LAYERS:
            return f"layer '{layer}' is unknown; layers are {' < '.join(LAYERS)}"
    reason = breach(own, other)
    return f"includes \"{name}\": {reason}" if reason else None


def check_reserved(path, name):
    if name in RESERVED and not path.startswith(RESERVED[name] or ("\0",)):
        return f"includes <{name}>, which is allowed in {', '.join(RESERVED[name]) or 'no file'}"
    return None


def check_source(path):
    relative = path.relative_to(root / "src").as_posix()
    for quoted, name in includes(path):
        problem = check_quoted(relative, name) if quoted else check_reserved(f"src/{relative}", name)
        if quoted and relative.startswith(f"{SHARED}.") and name != f"{SHARED}.h":
            problem = f"includes \"{name}\"; the command is built with this file alone"
        if problem:
            problems.append(f"src/{relative}: {problem}")


def check_file_calls(path):
    """A file that uses os/syscalls.h makes none of its calls past it, or the fault tests would miss them."""
    text = path.read_text(encoding="utf-8")
    if path.name == "syscalls.h" or '"os/syscalls.h"' not in text:
        return
    header = (root / "src/os/syscalls.h").read_text(encoding="utf-8")
    calls = "|".join(re.findall(r"\bX\((\w+),", header) + ["read"])
    for number, line in enumerate(text.splitlines(), 1):
        found = re.search(rf"(?<![\w>.\"])({calls})\(", line)
        if found and not line.lstrip().startswith(("/*", "*")):
            problems.append(f"{path.relative_to(root)}:{number}: calls {found[1]}: use kiln__sys_{found[1]}")


def check_command(path):
    relative = path.relative_to(root).as_posix()
    for quoted, name in includes(path):
        problem = None if quoted else check_reserved(relative, name)
        if quoted and name != f"{SHARED}.h" and not (root / "tools/kiln" / name).is_file():
            problem = f"includes \"{name}\"; the command uses <kiln/kiln.h> and \"{SHARED}.h\" only"
        if problem:
            problems.append(f"{relative}: {problem}")


def check_public_header(path):
    allowed = PUBLIC[path.name]
    for _, name in includes(path):
        if name not in allowed:
            problems.append(f"{path.relative_to(root)}: includes {name}; only {', '.join(sorted(allowed))} are allowed")


def files(directory):
    return sorted(path for path in (root / directory).rglob("*") if path.suffix in (".c", ".h"))


def main():
    for source in files("src"):
        check_source(source)
        check_file_calls(source)
    for source in files("tools/kiln"):
        check_command(source)
    headers = files("include")
    if sorted(header.name for header in headers) != sorted(PUBLIC):
        problems.append(f"include/kiln: expected {', '.join(sorted(PUBLIC))}")
    for header in headers:
        if header.name in PUBLIC:
            check_public_header(header)
    for line in problems:
        print(line, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
