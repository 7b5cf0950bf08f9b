"""Floating-point errors of NumPy: ignored while kernels run, regardless of the user's setting.

NumPy keeps its error state in a context variable, and `np.errstate` costs over a microsecond. Running a function in a
`contextvars.Context` with the state ``ignore`` costs almost nothing: ``run_quiet(ufunc, a, b)`` is about as fast as
the bare call. A context cannot be entered while another thread or a caller of this one is in it. Then a copy of the
context is entered, which takes a microsecond.

- Generated plans call `run_quiet`, and `run_quiet_copy` if the context is taken.
- Kernels are decorated with `quietly`; a plan that runs quietly itself takes the inner function (`unwrapped`).
- Functions that only kernels call leave it to them. The parts of `parallel_for` leave it to the caller: its threads run
  in copies of the caller's context.
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
"""Line length from which NumPy's buffer is limited to this length: see `quietly`."""

_quiet = contextvars.copy_context()
_quiet.run(np.seterr, all="ignore")
_quiet_lines = _quiet.copy()
_quiet_lines.run(np.setbufsize, LINE)
run_quiet: Callable[..., Any] = _quiet.run
"""``run_quiet(function, *args)``; raises RuntimeError before the call if the context is already entered."""


def is_taken(error: RuntimeError) -> bool:
    """Return True if `run_quiet` raised an error before the call, rather than the function itself."""
    return str(error).startswith("cannot enter context")


def run_quiet_copy(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call the function in a context copy, for when `run_quiet` is taken."""
    return _quiet.copy().run(function, *args, **named)


def quietly(function: Callable[..., Any], line: int = 0) -> Callable[..., Any]:
    """Return `function` with floating-point errors ignored; usable as a decorator.

    Args:
        function: Function of positional arguments.
        line: Length of the lines of arrays in which an operand broadcasts a value, or has one value for each line.
            NumPy copies such an operand into its buffer, which takes twice the time of the operation itself, unless
            the line is longer than the buffer. From `LINE` on, the buffer has that length.
    """
    context = _quiet_lines if line >= LINE else _quiet
    make = _makers_of_code.get(getattr(function, "__code__", None)) or _maker_for(function)
    called = make(function, context.run, context)
    if context is _quiet:
        called.alone = function  # type: ignore[attr-defined]
    return called


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the inner function of a `quietly` wrapper, for callers that already ignore errors; others unchanged."""
    alone: Callable[..., Any] = getattr(function, "alone", function)
    return alone


_Maker = Callable[..., Callable[..., Any]]

_makers: dict[int, _Maker] = {}
"""By the number of positional arguments, -1 for any."""

_makers_of_code: dict[CodeType | None, _Maker] = {}
"""By the code of a function: kernels are closures of the same code, created again for each plan."""

MAX_CODES = 4096


def _maker_for(function: Callable[..., Any]) -> _Maker:
    """Return the wrapper factory of a function, cached by its code."""
    if function.__class__ is not FunctionType or function.__defaults__:
        return _wrapper_maker(-1)
    code = function.__code__
    takes_more = code.co_flags & _VARIADIC or code.co_kwonlyargcount
    make = _wrapper_maker(-1 if takes_more else code.co_argcount)
    if len(_makers_of_code) >= MAX_CODES:
        _makers_of_code.clear()
    _makers_of_code[code] = make
    return make


def _wrapper_maker(count: int) -> _Maker:
    """Return the wrapper factory for a number of arguments, -1 for any number.

    The code is generated, since a tuple of arguments would cost 100 ns.
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
