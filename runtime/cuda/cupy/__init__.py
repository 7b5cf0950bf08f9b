"""Driver of a real GPU: CuPy's bindings of the runtime API, and libcuda for calls that CuPy lacks.

`driver` implements the interface of `runtime/cuda/driver.py`; the other modules are its parts. Only the choice of the
driver imports this folder.
"""
