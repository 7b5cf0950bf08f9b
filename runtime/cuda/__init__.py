"""The CUDA runtime: one driver interface, filled by CuPy on a GPU and by Triton's interpreter without one.

`driver.py` is the interface that the rest of triten talks to, `choose.py` picks who fills it: `cupy/` on a GPU,
`interpreter/` without one. `memory/` gives out device memory and page-locked host memory, `triton/` turns kernels into
cubins and finds them again. `stream.py`, `event.py`, `devices.py` and `graph.py` are what users see as `tt.cuda`;
`transfer.py` copies between host and devices, `array_interface.py` shares device memory with other libraries;
`capture.py` has the rules of stream capture, `graph_capture.py` what a graph collects besides work. Neither Triton nor
CuPy is imported before the first use of a CUDA device. Kernels and operators do not belong here.
"""

import os
import sys

if os.environ.get("TRITEN_CUDA") == "interpret" and "triton" not in sys.modules:
    # Triton reads it at import, which a program with kernels of its own reaches before the first use of a device.
    os.environ["TRITON_INTERPRET"] = "1"

from . import choose as choose
