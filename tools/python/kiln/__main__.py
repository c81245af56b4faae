"""The command: python -m kiln run 'op=relu6' --in x.npy --out y.npy"""

import os
import sys

from . import _library


def main():
    """Becomes the command of the wheel, with the NVRTC that the module finds."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "kiln")
    path = os.environ.get("KILN_COMMAND") or beside
    nvrtc = _library.find_nvrtc()
    if nvrtc:
        os.environ["KILN_NVRTC"] = nvrtc
    try:
        os.execv(path, ["kiln", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"kiln: {path}: {error.strerror}")


if __name__ == "__main__":
    main()
