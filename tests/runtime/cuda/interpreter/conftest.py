"""Collection of the interpreter's tests, only where it runs kernels: its import ends the compilation of
kernels.
"""

import os

collect_ignore_glob = [] if os.environ.get("TRITEN_CUDA") == "interpret" else ["test_*.py"]
