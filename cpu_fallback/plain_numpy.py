"""NumPy without NEP 18: what is called directly does not first ask its arguments who handles the call.

Arrays here are plain, so that nobody does. Asking takes 0.1 to 0.3 us: half of a `copyto` of small arrays. The modules
of this folder take `np` from here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy


def undispatched(function: Any) -> Any:
    """The function behind a public one of NumPy's; that one itself where NumPy keeps none beside it."""
    return getattr(function, "_implementation", function)


def _directly(module: ModuleType) -> Any:
    """A module's public names, its functions undispatched."""
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
