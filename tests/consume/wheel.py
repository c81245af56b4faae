"""wheel.py SOURCE WORK: installs the Python module into a fresh environment, as docs/python.md says, and uses it.

An environment of an earlier run is made anew; the build folder is kept, so that only files that changed are compiled."""

import os
import re
import shutil
import subprocess
import sys
import zipfile


def main(source, work):
    venv, wheels = os.path.join(work, "venv"), os.path.join(work, "wheels")
    for folder in (venv, wheels):
        shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(work, exist_ok=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "PYTHON"))}
    env.update(XDG_CACHE_HOME=os.path.join(work, "cache"), KILN_DEVICE="cpu")

    def run(*command, **options):
        return subprocess.run(command, check=True, env=env, text=True, **options)

    run(sys.executable, "-m", "venv", venv)
    python = os.path.join(venv, "bin", "python")
    pip = (python, "-m", "pip", "--disable-pip-version-check", "-q")
    run(*pip, "wheel", "--no-deps", "-w", wheels, f"--config-settings=build-dir={os.path.join(work, 'build')}",
        os.path.join(source, "tools", "python"))
    wheel, = os.listdir(wheels)
    version = re.search(r"^project\(Kiln VERSION (\S+)", open(os.path.join(source, "CMakeLists.txt")).read(), re.M)[1]
    assert wheel == f"kiln-{version}-py3-none-linux_x86_64.whl", wheel
    with zipfile.ZipFile(os.path.join(wheels, wheel)) as packed:
        names = packed.namelist()
    for name in ("lib/libkiln.so.0.2", "libexec/kiln/kiln-worker", "bin/kiln", "py.typed", "_call.abi3.so", "share/doc/Kiln/LICENSE"):
        assert f"kiln/{name}" in names, (name, names)
    assert not [name for name in names if re.search("nvidia|nvrtc|cuda", name)], names

    run(*pip, "install", "numpy", os.path.join(wheels, wheel))
    page = open(os.path.join(source, "README.md")).read()
    lines = re.search(r"```python\n(.*?)```", page, re.S)[1]
    check = "\nassert y.shape == x.shape and y.dtype == x.dtype and numpy.isfinite(y).all()\nprint(kiln.__version__)"
    assert run(python, "-c", lines + check, cwd=work, stdout=subprocess.PIPE).stdout == f"{version}\n"
    for command in ((python, "-m", "kiln"), (os.path.join(venv, "bin", "kiln"),)):
        assert run(*command, "--version", cwd=work, stdout=subprocess.PIPE).stdout == f"kiln {version}\n"
    needed = run("ldd", os.path.join(venv, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages",
                                     "kiln", "lib", "libkiln.so.0.2"), stdout=subprocess.PIPE).stdout
    for line in needed.splitlines():  # what is not of the C library comes from the wheel
        assert re.search(r"linux-vdso|ld-linux|lib(c|m|dl|pthread|rt)\.so|" + re.escape(venv), line), line


if __name__ == "__main__":
    main(*map(os.path.abspath, sys.argv[1:]))
