"""parent.py SOURCE WORK: builds Kiln as a part of another project, by add_subdirectory and by FetchContent, runs a compile in a
worker from the build tree and from the parent's installed tree, and looks at what else the parent gets."""

import json
import os
import shutil
import subprocess
import sys
import tarfile

from extensions import PARTS, files_below, run

HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("KILN_") or name == "KILN_NVRTC"}
INSTALLED = {"bin/app_shared", "bin/app_static", "LIB/libkiln.so.0.2", "LIB/libkiln.so.0.2.0", "libexec/kiln/kiln-worker"}


def expect(right, message):
    if not right:
        sys.exit(f"parent.py: {message}")


def isolated(program):
    """The status and the output of a program that compiles in a worker."""
    result = subprocess.run([program, "isolated"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    return result.returncode, result.stdout


def expect_worker(program):
    status, said = isolated(program)
    expect(status == 0 and "in a worker:" in said, f"{program}: status {status}: {said}")


def expect_no_worker(program):
    status, said = isolated(program)
    expect(status != 0 and "found no compile worker" in said, f"{program} must find no worker: status {status}: {said}")


def configure(build, *options):
    run("cmake", "--fresh", "-S", os.path.join(HERE, "parent"), "-B", build, "-G", "Ninja", *options, env=ENVIRONMENT)


def install(build, prefix, *options):
    """Installs, and returns the names of the installed files; LIB is the directory of libraries."""
    shutil.rmtree(prefix, ignore_errors=True)
    run("cmake", "--install", build, "--prefix", prefix, *options)
    library = next((os.path.dirname(name) for name in files_below(prefix) if "libkiln" in name), "lib")
    return {name.replace(library + "/", "LIB/") for name in files_below(prefix)}


def check(build, programs):
    """Everything that holds for both ways of bringing Kiln in."""
    for program in "app_static", "app_shared":  # the worker is built with each program that needs it
        run("cmake", "--build", build, "--target", program, "--parallel", str(len(os.sched_getaffinity(0))))
        expect_worker(os.path.join(programs, program))
        shutil.rmtree(os.path.join(build, "libexec"), ignore_errors=True)
    run("cmake", "--build", build)
    listed = run("ctest", "--test-dir", build, "-N")
    expect("Total Tests: 1\n" in listed, f"the parent has one test, got\n{listed}")
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as cache:
        expect("\nCMAKE_BUILD_TYPE:STRING=\n" in cache.read(), "Kiln chooses the build type of its parent")
    expect(not any(name.endswith(("/kiln", "/check_unit")) for name in files_below(build)), "the command or a test was built")

    # Outside the build tree a program takes no worker from there, installed or not.
    strayed = shutil.copy(os.path.join(programs, "app_static"), os.path.join(os.path.dirname(build), "strayed"))
    expect_no_worker(strayed)
    prefix = build + "-prefix"
    names = install(build, prefix)
    expect(names == INSTALLED, f"the parent installs {sorted(names)}, expected {sorted(INSTALLED)}")
    moved = prefix + "-moved"
    shutil.rmtree(moved, ignore_errors=True)
    os.rename(prefix, moved)
    for program in "app_static", "app_shared":
        expect_worker(os.path.join(moved, "bin", program))
    os.remove(os.path.join(moved, "libexec/kiln/kiln-worker"))
    for program in "app_static", "app_shared":
        expect_no_worker(os.path.join(moved, "bin", program))


def main():
    source, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(work, exist_ok=True)

    added = os.path.join(work, "added")
    configure(added, f"-DKILN_SOURCE={source}")
    check(added, added)
    configure(added, f"-DKILN_SOURCE={source}", "-DKILN_INSTALL=ON")
    names = install(added, added + "-runtime", "--component", "kiln_runtime")
    expected = {name for name in INSTALLED if not name.startswith("bin/")} | {"share/doc/Kiln/LICENSE"}
    expect(names == expected, f"the component kiln_runtime has {sorted(names)}, expected {sorted(expected)}")

    archive = os.path.join(work, "kiln.tar")
    with tarfile.open(archive, "w") as tar:
        for part in PARTS:
            tar.add(os.path.join(source, part), os.path.join("kiln", part))
    fetched = os.path.join(work, "fetched")
    configure(fetched, f"-DKILN_ARCHIVE={archive}", "-DCMAKE_RUNTIME_OUTPUT_DIRECTORY=" + os.path.join(fetched, "out/bin"),
              "-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=" + os.path.join(fetched, "out/lib"))
    check(fetched, os.path.join(fetched, "out/bin"))

    # A packager's compiler may warn of more than Kiln's.
    for preset in "release", "static":
        build = os.path.join(work, preset)
        run("cmake", "--preset", preset, "-S", source, "-B", build, "-DKILN_BUILD_TESTS=OFF", cwd=source)
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as commands:
            expect(not any("-Werror" in row["command"] for row in json.load(commands)), f"the preset {preset} has -Werror")


if __name__ == "__main__":
    main()
