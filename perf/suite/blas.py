"""The number of threads of the BLAS that NumPy calls, which neither NumPy nor triten has a call for."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

MAPS = Path("/proc/self/maps")
# As OpenBLAS itself has it, and as the builds in NumPy's and SciPy's wheels rename it.
SYMBOLS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def set_blas_threads(threads: int) -> bool:
    """Hold every OpenBLAS in this process to a number of threads; False where there is none, or it has no such call.

    Example:
        >>> from triten.perf.suite.blas import set_blas_threads
        >>> set_blas_threads(1) in (True, False)
        True
    """
    calls = [call for path in _loaded() if (call := _setter(path)) is not None]
    for call in calls:
        call(threads)
    return bool(calls)


def _loaded() -> list[str]:
    if MAPS.exists():
        fields = (line.split(maxsplit=5) for line in MAPS.read_text().splitlines())
        paths = {parts[5] for parts in fields if len(parts) == 6}
        return sorted(path for path in paths if "openblas" in Path(path).name.lower())
    package = Path(np.__file__).parent
    folders = (package.with_name("numpy.libs"), package / ".dylibs")
    return sorted(str(path) for folder in folders for path in folder.glob("*openblas*"))


@functools.cache
def _setter(path: str) -> Callable[[int], None] | None:
    library = ctypes.CDLL(path)
    for symbol in SYMBOLS:
        if hasattr(library, symbol):
            found = getattr(library, symbol)
            found.argtypes, found.restype = [ctypes.c_int], None
            return lambda threads: found(threads)
    return None
