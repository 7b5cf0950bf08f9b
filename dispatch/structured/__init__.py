"""Structured operators: meta functions, stubs, and the planners that make every form of an operator from them.

`meta/` modules hold the meta functions and view geometries by family. Kernels do not belong here: they
register under stubs from `cpu_fallback` and `triton_kernels`.
"""
