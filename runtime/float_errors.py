"""NumPy's floating-point errors: ignored while kernels run, whatever the user has set.

NumPy keeps its error state in a context variable, and `np.errstate` costs over a microsecond. To run a function in a
`contextvars.Context` in which the state is ``ignore`` costs next to nothing: ``run_quiet(ufunc, a, b)`` is about as
quick as the bare call. But a context cannot be entered while somebody is in it, another thread or a caller of this one;
then a copy is, which takes a microsecond.

- Plans, whose text is written out, call `run_quiet`, and where that is taken `run_quiet_copy`.
- Kernels are decorated with `quietly`; a plan that runs quietly itself takes the function within (`unwrapped`).
- Functions that only kernels call leave it to them. So do the parts of `parallel_for`: its threads run in copies of
  the caller's context.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from .written_code import defined

_VARIADIC = CO_VARARGS | CO_VARKEYWORDS

LINE = 512
"""The length of lines from which NumPy's buffer is made no longer than that: see `quietly`."""

_quiet = contextvars.copy_context()
_quiet.run(np.seterr, all="ignore")
_quiet_lines = _quiet.copy()
_quiet_lines.run(np.setbufsize, LINE)
run_quiet: Callable[..., Any] = _quiet.run
"""``run_quiet(function, *args)``; raises RuntimeError, before the call, while somebody is inside."""


def is_taken(error: RuntimeError) -> bool:
    """Whether `run_quiet` raised an error before the call, rather than the function itself."""
    return str(error).startswith("cannot enter context")


def run_quiet_copy(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The same in a context of its own, for when `run_quiet` is taken."""
    return _quiet.copy().run(function, *args, **named)


def quietly(function: Callable[..., Any], line: int = 0) -> Callable[..., Any]:
    """`function`, called with floating-point errors ignored. It serves as a decorator.

    Args:
        function: of positional arguments.
        line: the length of the lines of arrays of which an operand repeats a value, or has one for each line. NumPy
            writes such an operand out into its buffer, at twice the time of the operation itself, unless the line is
            longer than the buffer: from `LINE` on the buffer has that length.
    """
    context = _quiet_lines if line >= LINE else _quiet
    make = _makers_of_code.get(getattr(function, "__code__", None)) or _maker_for(function)
    called = make(function, context.run, context)
    if context is _quiet:
        called.alone = function  # type: ignore[attr-defined]
    return called


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function within one that `quietly` has made, for callers that ignore errors already; others as they are."""
    alone: Callable[..., Any] = getattr(function, "alone", function)
    return alone


_Maker = Callable[..., Callable[..., Any]]

_makers: dict[int, _Maker] = {}
"""By the number of positional arguments, -1 for any."""

_makers_of_code: dict[CodeType | None, _Maker] = {}
"""By the code of a function: kernels are closures of the same code, made anew for each plan."""

MOST_CODES = 4096


def _maker_for(function: Callable[..., Any]) -> _Maker:
    """What makes the wrapper of a function, kept for all functions of its code."""
    if function.__class__ is not FunctionType or function.__defaults__:
        return _wrapper_maker(-1)
    code = function.__code__
    takes_more = code.co_flags & _VARIADIC or code.co_kwonlyargcount
    make = _wrapper_maker(-1 if takes_more else code.co_argcount)
    if len(_makers_of_code) >= MOST_CODES:
        _makers_of_code.clear()
    _makers_of_code[code] = make
    return make


def _wrapper_maker(count: int) -> _Maker:
    """What makes the wrapper of a function of so many arguments, -1 for any number.

    It is written out, since to take arguments as a tuple would cost 100 ns.
    """
    made: _Maker | None = _makers.get(count)
    if made is not None:
        return made
    parameters = "*args" if count < 0 else ", ".join([f"v{i}" for i in range(count)])
    text = f"""
def make(function, run, context):
    def called({parameters}):
        try:
            return run(function, {parameters})
        except RuntimeError as error:
            if not is_taken(error):
                raise
        return context.copy().run(function, {parameters})
    return called
"""
    names = {"__name__": __name__, "is_taken": is_taken}
    made = defined("make", text, f"quietly {parameters}", names)
    _makers[count] = made
    return made
