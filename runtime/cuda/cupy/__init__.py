"""The driver of a real GPU: CuPy's bindings of the runtime API, libcuda where CuPy lacks a call.

`driver` fills the interface of `runtime/cuda/driver.py`; the others are its parts. Nothing outside imports this folder
but the choice of the driver.
"""
