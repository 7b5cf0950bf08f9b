"""How many threads the BLAS of NumPy and of SciPy uses, which neither has a call for.

OpenBLAS has threads of its own, which wait for their next product by spinning for some 25 ms, on the cores that our
pool (dispatch/iterator/parallel.py) needs. So its products inside a parallel region have one thread each; outside it
keeps its own, which start sooner than a pool's that sleep. `set_num_threads` sets those too, as PyTorch's rules its
BLAS. Nothing is looked for before the first of both. Where NumPy has another BLAS, nothing is done.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

MAPS = "/proc/self/maps"
PREFIXES, SUFFIXES = ("scipy_openblas_", "openblas_"), ("64_", "")
"""As OpenBLAS itself has its calls, and as the builds in NumPy's and SciPy's wheels rename them."""
MATRIX_WORK = 1 << 18
"""Multiplications up to which OpenBLAS 0.3 has one thread multiply matrices whatever it is told (its own threshold)."""


class OpenBlas(NamedTuple):
    """The two calls of one library. They are as good as atomic: the GIL is held meanwhile."""

    get: Callable[[], int]
    set: Callable[[int], None]


_told: int | None = None
_numpys: OpenBlas | None = None
_is_found = False


def set_blas_threads(threads: int) -> bool:
    """Have every OpenBLAS of this process, SciPy's when it comes too, use a number of threads; False if there is none.

    Example:
        >>> from triten.runtime.blas_threads import set_blas_threads
        >>> set_blas_threads(1) in (True, False)
        True
    """
    global _told
    _told = threads
    return follow()


def follow() -> bool:
    """Tell the libraries that were loaded since what `set_blas_threads` was told, if it was."""
    found = [calls for path in loaded() if (calls := _calls(path)) is not None]
    if _told is not None:
        for calls in found:
            calls.set(_told)
    return bool(found)


def numpy_threads() -> int:
    """Return how many threads NumPy's BLAS has, for `hold` and `restore`; 1 if it is not an OpenBLAS.

    The caller asks before the ``try`` whose ``finally`` restores them, so that an interrupt in `hold` loses nothing.
    """
    calls = _numpys if _is_found else _find()
    return 1 if calls is None else calls.get()


def hold(threads: int) -> None:
    """Give NumPy's BLAS, which has so many threads, a single one.

    Each caller that finds several restores them, so that of holds that overlap in several threads none is the last one.
    """
    if threads != 1 and _numpys is not None:
        _numpys.set(1)


def restore(threads: int) -> None:
    """Give NumPy's BLAS the threads back that it had before `hold`."""
    if threads != 1 and _numpys is not None:
        _numpys.set(threads)


def _find() -> OpenBlas | None:
    """The BLAS that NumPy calls: of several that are loaded the one among NumPy's own files."""
    global _numpys, _is_found
    own = _numpys_folders()
    paths = loaded()
    mine = [path for path in paths if path.startswith(own)] or paths
    _numpys = next((calls for path in mine if (calls := _calls(path)) is not None), None)
    _is_found = True
    return _numpys


def loaded() -> list[str]:
    """The files of the OpenBLAS libraries in this process."""
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
    """NumPy's own, and that of the libraries which its wheel brings."""
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
