"""NumPy's floating-point error state: ignored around our kernels, whatever the user has set.

`np.errstate` costs over a microsecond; storing into the context variable under it costs a tenth of that, is
thread-safe and leaves the user's own state as it was. Where a whole kernel is to ignore errors, its plan runs it in a
context that does (`runtime/float_errors.py`), which is for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy._core.umath import _extobj_contextvar, _make_extobj  # NumPy >= 2.0 keeps its error state here

from ..runtime.float_errors import quietly

set_state = _extobj_contextvar.set
reset_state = _extobj_contextvar.reset
IGNORE = _make_extobj(all="ignore")
LINE = 512
IGNORE_IN_LINES = _make_extobj(all="ignore", bufsize=LINE)
"""The same for arrays whose lines have `LINE` elements and more, with a value or more of its own for each line.

An operand that repeats along an axis is written out into NumPy's buffer, at twice the time of the operation itself,
unless the axis is longer than the buffer.
"""


def ignoring(line: int) -> Any:
    """The state for arrays with lines of so many elements."""
    return IGNORE_IN_LINES if line >= LINE else IGNORE


def quiet(function: Callable[..., Any], state: Any = IGNORE) -> Callable[..., Any]:
    """`function`, called with floating-point errors ignored."""
    if state is IGNORE:
        return quietly(function)

    def called(*args: Any) -> Any:
        token = set_state(state)
        try:
            return function(*args)
        finally:
            reset_state(token)

    return called


def raises_flags(np_dtype: Any) -> bool:
    """Whether arithmetic on this dtype can raise floating-point flags."""
    return bool(np_dtype.kind in "fcV")
