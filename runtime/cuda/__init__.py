"""The CUDA runtime: one driver interface, filled by CuPy on a GPU and by Triton's interpreter without one.

`driver.py` is what the rest of triten talks to, `caching_allocator.py` gives out device memory (its parts are the
`memory_*` modules; `memory_inspection.py` answers what one may ask of it), `compile.py` turns Triton kernels into
cubins ahead of time. `stream.py`, `event.py` and `devices.py` are what users see as `tt.cuda`; `pinned_memory.py`
gives out page-locked host memory, `transfer.py` copies between host and devices, and `array_interface.py` shares
device memory with other libraries. `capture.py` has the rules of stream capture, `graph.py` what users see of graphs,
`graph_capture.py` what a graph collects besides work. The two implementations (`cupy/` and
`interpreter/`) are reached through `driver.driver()` only, so that
neither Triton nor CuPy is imported before the first use of a CUDA device. Kernels and operators do not belong here.
"""

import os
import sys

if os.environ.get("TRITEN_CUDA") == "interpret" and "triton" not in sys.modules:
    # Triton reads it at import, which a program with kernels of its own reaches before the first use of a device.
    os.environ["TRITON_INTERPRET"] = "1"
