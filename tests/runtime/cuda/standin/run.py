"""Runner of a program over the executing stand-in: `python run.py PROGRAM.py ARGUMENTS`, or `-m MODULE`.

The program sees two devices of sm_80, or with ``TRITEN_EMULATE=90`` of sm_90, and triten's CUDA driver over
CuPy, as on a GPU. A fault of its kernels is written to stderr, and is a CUDA error in the program.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from pathlib import Path

from triten.tests.runtime.cuda.standin.install import install, prepare

READY = "STANDIN_READY"
"""Set in the process that runs the program: the dynamic linker has the library's folder there."""


def main() -> None:
    if os.environ.pop(READY, "") != "1":
        os.environ.pop("TRITON_INTERPRET", None)
        os.environ["TRITEN_CUDA"] = "cupy"
        with tempfile.TemporaryDirectory(prefix="standin-") as folder:
            prepare(Path(folder))
            os.environ[READY] = "1"
            status = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-P", __file__, *sys.argv[1:]])
        sys.exit(status)
    install()
    sys.argv = sys.argv[1:]
    if sys.argv[:1] == ["-m"]:
        sys.argv = sys.argv[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("run.py: expected a program, or -m and a module")
    main()
