"""The CUDA runtime: one driver interface, filled by CuPy on a GPU and by Triton's interpreter without one.

`driver.py` is what the rest of triten talks to, `caching_allocator.py` gives out device memory (its parts are the
`memory_*` modules; `memory_inspection.py` answers what one may ask of it), `compile.py` turns Triton kernels into
cubins ahead of time. The two implementations (`cupy_driver.py` and
`interpreter_driver.py` with its `interpreter_*` parts) are reached through `driver.driver()` only, so that
neither Triton nor CuPy is imported before the first use of a CUDA device. Kernels and operators do not belong
here.
"""
