"""Triton programs of the CUDA backend and their launchers, a folder for each family of operators.

They register under stubs at import and reach users through the dispatcher only. A kernel is a factory: it sees the
`StructuredCall` once and returns the function over addresses that a plan calls. Modules are imported when one of
their kernels is first wanted (`dispatch/structured/kernel_packages.py`). That does not import Triton, and neither
does a launch whose kernel is in the store: modules here take `triton`, `tl` and `libdevice` from
`runtime/cuda/triton/lazy_triton.py`, never from Triton itself. Nothing here computes on the host.

`autotune` is for users, as `tt.triton_kernels.autotune`.
"""

from .tuning.autotune import autotune as autotune
