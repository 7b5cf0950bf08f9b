"""The driver without a GPU: simulated devices, memory, streams and graphs, and Triton's interpreter made strict.

`driver` fills the interface of `runtime/cuda/driver.py`; `semantics` is the one place where Triton's interpreter is
mended.
"""
