"""readme.py SOURCE WORK: runs the lines of README.md's "Install it" in a copy of the tree, in an empty environment, with a directory
of WORK in place of /usr/local."""

import os
import re
import shutil
import subprocess
import sys

from extensions import bring_up_to_date, copy_tree

# Packages that tools/quickstart and tools/check want besides: for NumPy, wheels and pictures.
BESIDES = {"python3-venv", "python3-numpy", "gnuplot-nox"}


def packages(source):
    """The packages that tools/quickstart installs."""
    with open(os.path.join(source, "tools/lib/setup.sh"), encoding="utf-8") as script:
        rows = re.search(r"^readonly build_packages=\((.*?)\)", script.read(), re.M | re.S)[1]
    return {row.split()[-1] for row in re.findall(r'"(.*?)"', rows)}


def lines(source):
    with open(os.path.join(source, "README.md"), encoding="utf-8") as page:
        section = re.search(r"^## Install it$(.*?)^## ", page.read(), re.M | re.S)[1]
    return re.findall(r"^    (\S.*)$", section, re.M)


def check_image(source):
    """The image of docs/deployment.md has no tests, and else the same packages."""
    with open(os.path.join(source, "docs/deployment.md"), encoding="utf-8") as page:
        text = page.read().replace("\\\n", "")
    listed = set(re.search(r"apt-get install -y (.*)", text)[1].split())
    wanted = packages(source) - BESIDES - {"check", "libmpfr-dev", "python3", "python3-dev"}
    if listed != wanted:
        sys.exit(f"the image of docs/deployment.md has other packages than {sorted(wanted)}")
    if text.index("cmake --install") > text.index("RUN kiln "):
        sys.exit("the image of docs/deployment.md uses kiln before it installs it")


def main():
    source, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    check_image(source)
    tree, prefix, cache = (os.path.join(work, name) for name in ("tree", "prefix", "ld.so.cache"))
    shutil.rmtree(prefix, ignore_errors=True)
    copy_tree(source, os.path.join(work, "staged"))
    os.makedirs(tree, exist_ok=True)
    bring_up_to_date(os.path.join(work, "staged"), tree)
    build = os.path.join(work, "build")  # outside the copy, which loses what the tree has not
    os.makedirs(build, exist_ok=True)
    if not os.path.islink(os.path.join(tree, "build")):
        os.symlink(build, os.path.join(tree, "build"))
    with open(os.path.join(work, "ld.so.conf"), "w", encoding="utf-8") as conf:
        conf.write(os.path.join(prefix, "lib") + "\n")

    environment = {"HOME": work, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    loader = ["ldconfig", "-C", cache, "-f", os.path.join(work, "ld.so.conf")]
    done = set()
    for line in lines(source):
        command = ["bash", "-c", line.replace("/usr/local", prefix)]
        done.add(line.split()[0])
        if line.startswith("apt-get install "):
            if set(line.split()[2:]) != packages(source) - BESIDES:
                sys.exit(f"README.md lists other packages than tools/lib/setup.sh: {sorted(packages(source) - BESIDES)}")
            continue
        if line == "ldconfig":
            command = loader
        if line.startswith("ctest "):
            command[2] += " -R '^base_'"  # the other tests are those of the build that this test belongs to
        result = subprocess.run(command, cwd=tree, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, check=False)
        if result.returncode != 0:
            sys.exit(f"README.md: {line}: status {result.returncode}\n{result.stdout}")
    missing = {"apt-get", "cmake", "ctest", "ldconfig"} - done
    if missing:
        sys.exit(f"README.md: 'Install it' has no line of {sorted(missing)}")
    known = subprocess.run([*loader[:3], "-p"], env=environment, capture_output=True, text=True, check=True).stdout
    if os.path.join(prefix, "lib/libkiln.so.0.2") not in known:
        sys.exit(f"the loader does not know the installed library:\n{known}")
    subprocess.run([os.path.join(prefix, "bin/kiln"), "--version"], env=environment, check=True)


if __name__ == "__main__":
    main()
