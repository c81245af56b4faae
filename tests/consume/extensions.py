"""extensions.py SOURCE WORK: applies the diffs of docs/contributing.md to a copy of the tree in WORK, builds it and uses each.

A copy that an earlier run left is brought up to date, so that only the files that changed are compiled."""

import filecmp
import os
import re
import shutil
import subprocess
import sys

import numpy as np

PARTS = ("CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md",
         "docs", "include", "kernel_templates", "src", "tests", "tools")
DIFFS = ("op", "template", "subcommand", "store", "backend", "suite")
# The new suite and the new test of the command, and the suites that list ops and subcommands.
EXTENDED = "^(store_last|cli_targets|lang_op|cli_man)$"


def diffs(page):
    """The fenced diffs of the page, each under the last heading before it: {"an op": [text, ...]}."""
    found, heading = {}, ""
    for match in re.finditer(r"^## Add an? (.*?)$|^```diff\n(.*?)^```$", page, re.M | re.S):
        if match[1]:
            heading = match[1]
        else:
            found.setdefault(heading, []).append(match[2])
    return found


def files_below(directory):
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), directory)


def copy_tree(source, staged):
    """A fresh copy of the parts that a build needs."""
    shutil.rmtree(staged, ignore_errors=True)
    os.makedirs(staged)
    for part in PARTS:
        path = os.path.join(source, part)
        if os.path.isdir(path):
            shutil.copytree(path, os.path.join(staged, part), ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(path, staged)


def bring_up_to_date(staged, tree):
    """Makes `tree` equal to `staged`, and leaves alone each file that is equal already, times and all."""
    wanted = set(files_below(staged))
    for name in set(files_below(tree)) - wanted:
        os.remove(os.path.join(tree, name))
    for name in sorted(wanted):
        old, new = os.path.join(tree, name), os.path.join(staged, name)
        if not (os.path.isfile(old) and filecmp.cmp(old, new, shallow=False)):
            os.makedirs(os.path.dirname(old), exist_ok=True)
            shutil.copy(new, old)


def run(*command, cwd=None, env=None):
    result = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {result.returncode}\n{result.stdout}")
    return result.stdout


def apply_diffs(source, staged):
    with open(os.path.join(source, "docs/contributing.md"), encoding="utf-8") as page:
        found = diffs(page.read())
    for word in DIFFS:
        if not any(word in heading for heading in found):
            sys.exit(f"docs/contributing.md: no diff under a heading 'Add a ... {word}'")
    for heading, texts in found.items():
        for text in texts:
            result = subprocess.run(["patch", "-p1", "--fuzz=0", "--forward", "--no-backup-if-mismatch"], input=text,
                                    cwd=staged, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                sys.exit(f"docs/contributing.md, {heading}: the diff does not apply\n{result.stdout}{result.stderr}")


def use(build, work):
    """Each extension does what its section says."""
    environment = dict(os.environ, KILN_CACHE_DIR=os.path.join(work, "cache"))
    shutil.rmtree(environment["KILN_CACHE_DIR"], ignore_errors=True)
    kiln = os.path.join(build, "tools/kiln")
    x, y = np.arange(7, dtype=np.float32), np.arange(5, dtype=np.float32) - 2
    for name, array in ("x", x), ("y", y):
        np.save(os.path.join(work, name + ".npy"), array)

    run(kiln, "run", "op=halve dtype=f32 target=cpu", "--in", "x.npy", "--out", "half.npy", cwd=work, env=environment)
    np.testing.assert_array_equal(np.load(os.path.join(work, "half.npy")), x / 2)
    run(kiln, "show", "op=halve dtype=f16 target=sm_90", "--source", env=environment)
    run(kiln, "run", "template=outer dtype=f32 target=cpu", "--in", "x.npy", "--in", "y.npy", "--out", "outer.npy",
        cwd=work, env=environment)
    np.testing.assert_array_equal(np.load(os.path.join(work, "outer.npy")), np.outer(x, y))
    run(kiln, "warm", "template=outer dtype=f32", "--target", "sm_90", env=environment)
    if "sm_90\n" not in run(kiln, "targets", env=environment):
        sys.exit("kiln targets does not list sm_90")
    ran = run(kiln, "run", "op=relu6 target=nil", "--in", "x.npy", "--out", "nil.npy", cwd=work, env=environment)
    if "nil (nil)" not in ran:
        sys.exit(f"the backend nil has not run:\n{ran}")


def main():
    source, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    staged, tree, build = (os.path.join(work, name) for name in ("staged", "tree", "build"))
    os.makedirs(tree, exist_ok=True)
    copy_tree(source, staged)
    apply_diffs(source, staged)
    bring_up_to_date(staged, tree)
    run("cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0",
        "-DKILN_WERROR=ON")
    run("cmake", "--build", build, "--target", "kiln_command", "kiln_worker", "check_unit",
        "--parallel", str(len(os.sched_getaffinity(0))))
    for check in "layers.py", "docs.py":
        run(sys.executable, os.path.join(tree, "tools/checks", check))
    run(sys.executable, os.path.join(tree, "tools/checks/calls.py"), os.path.join(build, "src"))
    use(build, work)
    run("ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-R", EXTENDED)


if __name__ == "__main__":
    main()
