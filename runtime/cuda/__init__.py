"""CUDA runtime: one driver interface, implemented by CuPy on a GPU and by Triton's interpreter without one.

- `driver.py` is the interface that the rest of triten uses; `choose.py` chooses the implementation.
- `cupy/` is the implementation on a GPU, `interpreter/` without one.
- `memory/` allocates device memory and page-locked host memory.
- `triton/` compiles kernels to cubins and caches them.
- `stream.py`, `event.py`, `devices.py` and `graph.py` are the public parts of `tt.cuda`.
- `transfer.py` copies between host and devices; `array_interface.py` shares device memory with other libraries.
- `capture.py` has the rules of stream capture, `graph_capture.py` the state of a graph besides its work.

Neither Triton nor CuPy is imported before the first use of a CUDA device. Kernels and operators do not belong here.
"""

import os
import sys

if os.environ.get("TRITEN_CUDA") == "interpret" and "triton" not in sys.modules:
    # Triton reads it at import, and a program with its own kernels imports Triton before it first uses a device.
    os.environ["TRITON_INTERPRET"] = "1"

from . import choose as choose
