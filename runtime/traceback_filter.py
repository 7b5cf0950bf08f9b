"""Traceback filter: errors that leave the package lose its inner frames.

A call looks up its plan by subscript, and everything else, errors included, happens while the KeyError of that lookup
is handled. An unfiltered error would show the KeyError first, then a dozen frames of the package. `hide_inner_frames`
is called where an error leaves the package, in a handler that ends in a bare ``raise``::

    try: return plan(tensor)
    except BaseException: hide_inner_frames(); raise

On the same line as the guarded statement, ``try`` is no instruction, so that a call without an error has no overhead.
The handler's own frame goes too: a bare ``raise`` adds none.

The frames of the caller's code stay, callbacks included. At most one frame of the package stays: the function that
the caller called, if it has no handler of its own. It is marked ``__tracebackhide__``, which pytest omits, and
IPython too, unless the frame is the last. From the first error on, `sys.excepthook` and `threading.excepthook` omit
it as well, unless the program has set hooks of its own. A plan without a handler, such as a composite's, gets one for
its first run only. An error of a later run may show a frame or two more, if neither pytest nor a hook prints it.

``TRITEN_FULL_TRACEBACK=1`` in the environment, read when an error arises, keeps all frames. The idea is JAX's
(jax/_src/traceback_util.py).
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dis import opmap
from inspect import CO_OPTIMIZED
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar

from .errors import InternalAssertError

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE = __name__.partition(".")[0]
_CALLERS = frozenset({"examples", "perf", "tests"})
"""Subpackages that call the others as a program does."""

_LIBRARIES = sys.stdlib_module_names | {
    "cupy",
    "cupy_backends",
    "cupyx",
    "ml_dtypes",
    "numpy",
    "scipy",
    "triton",
}
"""Libraries that the package calls: their frames are inner frames if the package called them."""

HANDLER = "except BaseException: hide_inner_frames(); raise"
"""Handler in generated functions, with `hide_inner_frames` among their names."""

_LOOKUPS = f"{_PACKAGE}.dispatch.generated."
_RAISES = opmap["RAISE_VARARGS"]
_JUDGED = "_triten_judged"
_NOTE = f"(inner frames of {_PACKAGE} are hidden; TRITEN_FULL_TRACEBACK=1 shows them)"


def shows_full_tracebacks() -> bool:
    """Return True if ``TRITEN_FULL_TRACEBACK`` currently asks for every frame."""
    return os.environ.get("TRITEN_FULL_TRACEBACK", "0") not in ("", "0")


def hide_inner_frames() -> None:
    """Remove the package's frames and lookups from the handled error; a bare ``raise`` must follow.

    An error's cause and the contexts from the caller's code stay. An error that no ``raise`` of the package created
    is more likely a bug in the package than in its caller: a note says how to see where it arose.
    """
    error = sys.exception()
    if error is None:
        return
    full = shows_full_tracebacks()
    _clear_chain(error, full)
    _install_hooks()
    if full:
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        if frame.f_code.co_flags & CO_OPTIMIZED:  # A function's: a module's locals are its globals.
            frame.f_locals["__tracebackhide__"] = True
        frame = frame.f_back


def has_handler(function: Any) -> bool:
    """Return True if a function hides inner frames in a handler of its own."""
    code = getattr(function, "__code__", None)
    return code is not None and hide_inner_frames.__name__ in code.co_names


def api_boundary(function: Function) -> Function:
    """Wrap a public function so that its errors show no inner frames, at the cost of one more frame per call.

    Example:
        >>> from triten.runtime.traceback_filter import api_boundary
        >>> @api_boundary
        ... def half(x):
        ...     return x / 2
        >>> half(3)
        1.5
    """
    # Globals instead of free variables: a function mode exchanges the code of public functions.
    names = {
        "_function": function,
        "hide_inner_frames": hide_inner_frames,
        "__builtins__": __builtins__,
        "__name__": __name__,
    }
    public = FunctionType(_guarded.__code__, names, function.__name__)
    return functools.update_wrapper(public, function)  # type: ignore[return-value]


def _guarded(*args: Any, **kwargs: Any) -> Any:
    """Provide the code of every function from `api_boundary`; its globals are those of the wrapped function."""
    try:
        return _function(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821
    except BaseException:
        hide_inner_frames()
        raise


OWN, LIBRARY, CALLER = range(3)


@functools.lru_cache(maxsize=4096)
def _kind_of(module: str) -> int:
    """Classify the owner of a module by name; the package's own programs are callers."""
    package, _, rest = module.partition(".")
    if package == _PACKAGE:
        return CALLER if rest.partition(".")[0] in _CALLERS else OWN
    return LIBRARY if package in _LIBRARIES else CALLER


def _kind(frame: FrameType) -> int:
    name = frame.f_globals.get("__name__")
    return _kind_of(name) if isinstance(name, str) else CALLER


def _is_own(frame: FrameType) -> bool:
    return _kind(frame) == OWN


def _entries(trace: TracebackType | None) -> list[TracebackType]:
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    return entries


def _of_callers(entries: list[TracebackType]) -> list[TracebackType]:
    """Return the entries without inner ones, which belong to the package or to a library that it called."""
    callers = []
    inside = False
    for entry in entries:
        kind = _kind(entry.tb_frame)
        if kind == OWN:
            inside = True
        elif kind == CALLER or not inside:
            inside = False
            callers.append(entry)
    return callers


def _joined(entries: list[TracebackType]) -> TracebackType | None:
    """Return a traceback of these entries."""
    made = None
    for entry in reversed(entries):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _handled_here(error: BaseException) -> bool:
    """Return True if the package's code handles an error, by the outermost frame."""
    trace = error.__traceback__
    return trace is not None and _is_own(trace.tb_frame)


def _clear_chain(error: BaseException, full: bool) -> None:
    """Remove inner frames and errors from an error, its causes and contexts; with `full`, only those of lookups."""
    visited: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in visited or not _handled_here(each):
            continue
        visited.add(id(each))
        context = each.__context__
        while context is not None and context is not each.__cause__ and _is_inner(context, full):
            context = context.__context__
        if context is not each.__context__:
            each.__context__ = context
        entries = _entries(each.__traceback__)
        is_callers = context is not None and each.__cause__ is None and not _handled_here(context)
        if is_callers and not each.__dict__.get(_JUDGED) and _is_own(entries[-1].tb_frame):
            # The package's own ``from None`` was not meant for an error of the caller's.
            each.__suppress_context__ = False
        if not full:
            callers = _of_callers(entries)
            if len(entries) > 1 and (not callers or callers[-1] is not entries[-1]):
                _judge(each, entries[-1])
            if len(callers) < len(entries):
                each.__traceback__ = _joined(callers)
        waiting += [each.__cause__, context]


def _is_inner(context: BaseException, full: bool) -> bool:
    """Return True if an error was raised and handled inside the package; with `full`, only by a lookup."""
    if not _handled_here(context):
        return False
    entries = _entries(context.__traceback__)
    if not full:
        return not _of_callers(entries)
    name = entries[0].tb_frame.f_globals["__name__"]
    return isinstance(context, KeyError | AttributeError | TypeError) and name.startswith(_LOOKUPS)


def _judge(error: BaseException, raised: TracebackType) -> None:
    """Add a note, once, on how to see where an error arose, unless a ``raise`` of the package addresses the caller."""
    if error.__dict__.get(_JUDGED):
        return
    error.__dict__[_JUDGED] = True
    # An error of a single frame comes from the call's arguments themselves.
    is_message = (
        _is_own(raised.tb_frame) and raised.tb_frame.f_code.co_code[raised.tb_lasti] == _RAISES
    ) and not isinstance(error, InternalAssertError)
    if not is_message and isinstance(error, Exception):
        error.add_note(_NOTE)


_hooks_installed = False


def _install_hooks() -> None:
    """Install hooks that print uncaught errors without the package's last frame, unless the program has its own."""
    global _hooks_installed
    if _hooks_installed:
        return
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_uncaught
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _print_uncaught_in_thread
    _hooks_installed = True


def _print_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if shows_full_tracebacks():
        # Python's default printer does not use `linecache`, which has the lines of generated code.
        traceback.print_exception(kind, error, trace)
        return
    _hide_everywhere(error)
    sys.__excepthook__(kind, error, error.__traceback__)


def _print_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    error = args.exc_value
    if error is not None and not shows_full_tracebacks():
        _hide_everywhere(error)
        args = threading.ExceptHookArgs((args.exc_type, error, error.__traceback__, args.thread))
    threading.__excepthook__(args)


def _hide_everywhere(error: BaseException) -> None:
    """Keep only the callers' entries in the tracebacks of an error and of all chained errors."""
    visited: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in visited:
            continue
        visited.add(id(each))
        callers = _of_callers(_entries(each.__traceback__))
        if callers:
            each.__traceback__ = _joined(callers)
        waiting += [each.__cause__, each.__context__]
