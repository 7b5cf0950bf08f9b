"""NumPy's floating-point error state: ignored around kernels, whatever the user has set.

NumPy keeps the state in a context variable, and `np.errstate` costs over a microsecond. A `Context` in which
the state is ``ignore`` costs nothing to enter: ``run(ufunc, a, b)`` is as quick as the bare call. A context
cannot be entered twice at once (by two threads, or again from a finalizer): then a copy is.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import numpy as np

_quiet = contextvars.copy_context()
_quiet.run(np.seterr, all="ignore")
run_quiet: Callable[..., Any] = _quiet.run
"""``run_quiet(function, *args)``; raises RuntimeError, before the call, while another thread is inside."""


def is_taken(error: RuntimeError) -> bool:
    """Whether `run_quiet` raised an error before the call, rather than the function itself."""
    return str(error).startswith("cannot enter context")


def run_quiet_copy(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The same in a context of its own, for when `run_quiet` is taken."""
    return _quiet.copy().run(function, *args, **named)


def quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called with floating-point errors ignored; `alone`, an attribute of the result, is `function`.

    A plan that runs it quietly itself takes that one.
    """

    def called(*args: Any) -> Any:
        try:
            return run_quiet(function, *args)
        except RuntimeError as error:
            if not is_taken(error):
                raise
        return run_quiet_copy(function, *args)

    called.alone = function  # type: ignore[attr-defined]
    return called
