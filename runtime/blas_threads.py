"""Thread counts of NumPy's and SciPy's BLAS, which neither library can set.

OpenBLAS has its own threads. They spin for some 25 ms before they sleep, on the cores that our pool
(runtime/parallel.py) needs. A matmul inside a parallel region therefore has one thread. Outside, OpenBLAS keeps its
own threads, which start sooner than sleeping pool threads. `set_num_threads` sets them too, as PyTorch's sets its
BLAS. The libraries are searched on first use. With another BLAS, nothing is done.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

R = TypeVar("R")

MAPS = "/proc/self/maps"
PREFIXES, SUFFIXES = ("scipy_openblas_", "openblas_"), ("64_", "")
"""Names of OpenBLAS's functions: its own, and as the builds in NumPy's and SciPy's wheels rename them."""
MATRIX_WORK = 1 << 18
"""Number of multiplications up to which OpenBLAS 0.3 uses one thread regardless of the setting (its own threshold)."""


ONE_THREAD_WORK = 1 << 21
"""Multiplications of a matmul up to which one thread is as quick as two (128x128x128 takes 60 us)."""


class OpenBlas(NamedTuple):
    """Functions of one library. They are effectively atomic, since the GIL is held."""

    get: Callable[[], int]
    set: Callable[[int], None]


_told: int | None = None
_numpys: OpenBlas | None = None
_is_found = False


def set_blas_threads(threads: int) -> bool:
    """Set the threads of every OpenBLAS here, including SciPy's once loaded; return False if there is none.

    Example:
        >>> from triten.runtime.blas_threads import set_blas_threads
        >>> set_blas_threads(1) in (True, False)
        True
    """
    global _told
    _told = threads
    return follow()


def follow() -> bool:
    """Apply the setting of `set_blas_threads`, if any, to libraries that were loaded since."""
    libraries = [calls for path in loaded() if (calls := _calls(path)) is not None]
    if _told is not None:
        for calls in libraries:
            calls.set(_told)
    return bool(libraries)


def numpy_threads() -> int:
    """Return the thread count of NumPy's BLAS, for `hold` and `restore`; 1 if it is not an OpenBLAS.

    The caller calls it before the ``try`` whose ``finally`` restores the count, so that an interrupt in `hold` loses
    nothing.
    """
    calls = _numpys if _is_found else _find()
    return 1 if calls is None else calls.get()


def hold(threads: int) -> None:
    """Set NumPy's BLAS from this number of threads to a single one.

    Each caller that finds several restores them, so overlapping holds in several threads need no last owner.
    """
    if threads != 1 and _numpys is not None:
        _numpys.set(1)


def restore(threads: int) -> None:
    """Restore the threads that NumPy's BLAS had before `hold`."""
    if threads != 1 and _numpys is not None:
        _numpys.set(threads)


def is_small(multiplications: int) -> bool:
    """Return True for a matmul that OpenBLAS would share among threads, though one thread is as quick.

    Threads that have helped spin for milliseconds. If other processes are busy, the caller also waits for threads
    that do not run.
    """
    return MATRIX_WORK < multiplications <= ONE_THREAD_WORK


def on_one_thread(function: Callable[..., R]) -> Callable[..., R]:
    """Return a function of positional arguments during whose calls NumPy's BLAS has one thread."""

    def run(*args: Any) -> R:
        threads = numpy_threads()
        try:
            hold(threads)
            return function(*args)
        finally:
            restore(threads)

    return run


def one_thread_if_small(function: Callable[..., R], multiplications: int) -> Callable[..., R]:
    """Return `on_one_thread` of a function whose matmuls have this many multiplications, if they are small."""
    return on_one_thread(function) if is_small(multiplications) else function


def _find() -> OpenBlas | None:
    """Return the BLAS that NumPy calls: of several loaded libraries, the one among NumPy's own files."""
    global _numpys, _is_found
    own = _numpys_folders()
    paths = loaded()
    mine = [path for path in paths if path.startswith(own)] or paths
    _numpys = next((calls for path in mine if (calls := _calls(path)) is not None), None)
    _is_found = True
    return _numpys


def loaded() -> list[str]:
    """Return the paths of the OpenBLAS libraries in this process."""
    if os.path.exists(MAPS):
        with open(MAPS) as maps:
            fields = (line.rstrip("\n").split(maxsplit=5) for line in maps if "openblas" in line.lower())
            paths = {parts[5] for parts in fields if len(parts) == 6}
        return sorted(path for path in paths if "openblas" in os.path.basename(path).lower())
    import glob

    package, libraries = _numpys_folders()
    folders = (glob.escape(libraries), glob.escape(os.path.join(package, ".dylibs")))
    return sorted(path for folder in folders for path in glob.glob(f"{folder}/*openblas*"))


def _numpys_folders() -> tuple[str, str]:
    """Return NumPy's own folder, and that of the libraries in its wheel."""
    package = os.path.dirname(np.__file__)
    return package, os.path.join(os.path.dirname(package), "numpy.libs")


@functools.cache
def _calls(path: str) -> OpenBlas | None:
    library = ctypes.PyDLL(path)
    for prefix in PREFIXES:
        for suffix in SUFFIXES:
            names = [f"{prefix}{verb}_num_threads{suffix}" for verb in ("get", "set")]
            if all(hasattr(library, name) for name in names):
                get, set_threads = (getattr(library, name) for name in names)
                get.argtypes, get.restype = [], ctypes.c_int
                set_threads.argtypes, set_threads.restype = [ctypes.c_int], None
                return OpenBlas(get, set_threads)
    return None
