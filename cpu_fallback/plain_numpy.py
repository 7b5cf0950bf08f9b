"""NumPy without NEP 18: functions that skip the `__array_function__` dispatch.

Arrays here are plain ndarrays, so no argument overrides a function. The dispatch takes 0.1 to 0.3 us: half of
a `copyto` of small arrays. The modules of this folder import `np` from here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy


def undispatched(function: Any) -> Any:
    """Return the implementation behind a public NumPy function, or the function itself if NumPy exposes none."""
    return getattr(function, "_implementation", function)


def _directly(module: ModuleType) -> Any:
    """Return a copy of a module whose functions are undispatched."""
    made = ModuleType(module.__name__, module.__doc__)
    for name, value in vars(module).items():
        setattr(made, name, undispatched(value) if callable(value) else value)
    return made


np: Any = _directly(numpy)
concatenate = np.concatenate
copyto = np.copyto
putmask = np.putmask
where = np.where
dot: Callable[..., Any] = numpy.ndarray.dot
"""`np.dot` of two arrays."""
