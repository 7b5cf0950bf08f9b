"""Check triten on a GPU: see ``--help``, and `gpu_check`. Exit status 1: something failed; 2: no GPU.

Run with ``python -P`` and a folder on PYTHONPATH in which `triten` is this checkout, as ``make gpu-check`` does;
nothing has to be installed.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

NEEDED = ("numpy", "ml_dtypes", "triton", "triten")

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"{sys.executable} lacks {', '.join(missing)}; make gpu-check GPU_PYTHON=... names another",
            file=sys.stderr,
        )
        sys.exit(2)
    from gpu_check.command import main

    sys.exit(main())
