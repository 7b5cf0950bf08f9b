"""Check triten on a GPU: see ``--help``, and `gpu_check`. Exit status 1: something failed; 2: no GPU.

Run with ``python -P`` and a folder on PYTHONPATH in which `triten` is this checkout, as ``make gpu-check`` does;
nothing has to be installed.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu_check.command import main

if __name__ == "__main__":
    sys.exit(main())
