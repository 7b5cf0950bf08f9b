"""NumPy's functions without NEP 18: what is called directly does not first ask its arguments who handles the call.

Arrays here are plain, so that nobody does. Asking takes 0.1 to 0.2 us: a third of a `concatenate` of small arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def undispatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """The C function behind a public one of NumPy's; that one itself where NumPy keeps none beside it."""
    return getattr(function, "_implementation", function)


concatenate = undispatched(np.concatenate)
copyto = undispatched(np.copyto)
putmask = undispatched(np.putmask)
where = undispatched(np.where)
dot: Callable[..., Any] = np.ndarray.dot
"""`np.dot` of two arrays."""
