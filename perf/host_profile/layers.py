"""Layers of a call, and the layer of each source file.

A sample belongs to the layer of its innermost frame in the package. Time in Python's or NumPy's own functions
belongs to their caller. A plan that only calls NumPy belongs to the kernel layer.
"""

from __future__ import annotations

import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]

WRAPPER, DISPATCH, AUTOGRAD, PLAN, ALLOCATION, KERNEL, OUTSIDE = (
    "wrapper",
    "dispatch",
    "autograd",
    "plan",
    "allocation",
    "kernel",
    "outside",
)
LAYERS = {
    WRAPPER: "public functions and methods, the fast path of a planned call, modules and optimisers",
    DISPATCH: "overloads, keys, modes and composites",
    AUTOGRAD: "recording of nodes, the engine, formulas of derivatives",
    PLAN: "what a kind of operands is given once, and calls: shapes and strides of results, iterators",
    ALLOCATION: "storages and tensors",
    KERNEL: "NumPy on the CPU, launches on a GPU",
    OUTSIDE: "the program itself and other libraries",
}

RECORDERS = "<triten record "
"""The names of the files of recorders, which `dispatch/autograd/recorder.py` writes at run time, begin so."""

# The longest beginning of a path decides.
_PLACES = {
    "": WRAPPER,
    "dispatch": DISPATCH,
    "dispatch/generated/functions": WRAPPER,
    "dispatch/generated/methods": WRAPPER,
    "dispatch/generated/autograd": AUTOGRAD,
    "dispatch/generated/forward": AUTOGRAD,
    "dispatch/tensor.py": WRAPPER,
    "dispatch/autograd": AUTOGRAD,
    "dispatch/methods": WRAPPER,
    "dispatch/plans": PLAN,
    "dispatch/structured": PLAN,
    "dispatch/iterator": PLAN,
    "dispatch/structured/allocation.py": ALLOCATION,
    "runtime": PLAN,
    "runtime/allocator.py": ALLOCATION,
    "runtime/parallel.py": KERNEL,
    "runtime/storage.py": ALLOCATION,
    "runtime/tensor_impl.py": ALLOCATION,
    "runtime/cpu": KERNEL,
    "runtime/cuda": KERNEL,
    "runtime/cuda/memory": ALLOCATION,
    "cpu_fallback": KERNEL,
    "triton_kernels": KERNEL,
}


@functools.cache
def layer_of(filename: str) -> str | None:
    """Return the layer of a source file; None if the file is not part of the package.

    Example:
        >>> from triten.perf.host_profile.layers import ROOT, layer_of
        >>> layer_of(f"{ROOT}/dispatch/autograd/engine.py"), layer_of(f"{ROOT}/cpu_fallback/pooling/pooling.py")
        ('autograd', 'kernel')
        >>> layer_of("/usr/lib/python3/json/decoder.py") is None
        True
    """
    if filename.startswith(RECORDERS):
        return AUTOGRAD
    path = Path(filename)
    if not path.is_relative_to(ROOT):
        return None
    inside = path.relative_to(ROOT).as_posix()
    if inside.startswith(("perf/", "tests/")):
        return None
    return _PLACES[max((prefix for prefix in _PLACES if inside.startswith(prefix)), key=len)]


@functools.cache
def names_operators(filename: str) -> bool:
    """Return True if the functions of a file are public operators: generated functions and methods."""
    path = Path(filename)
    return path.is_relative_to(ROOT) and path.relative_to(ROOT).as_posix().startswith(
        ("dispatch/generated/functions", "dispatch/generated/methods")
    )
