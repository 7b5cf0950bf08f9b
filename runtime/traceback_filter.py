"""Tracebacks of a caller's own frames: where an error leaves the package, its inner frames are taken out.

A call looks its plan up by subscript, and everything else, errors included, happens while that look-up's KeyError is
handled. So an error that leaves the package would show the KeyError first, then a dozen frames that are none of the
caller's. `hide_inner_frames` is called where it leaves, in a handler that ends in a bare ``raise``::

    try: return plan(tensor)
    except BaseException: hide_inner_frames(); raise

On one line with what it guards, ``try`` is no instruction, so that a call that raises nothing pays nothing. The
handler's own frame goes too: a bare ``raise`` adds none. What stays are the frames of the caller's code, callbacks
included, and at most the one frame of the package that the caller called, where that has no handler of its own; it
is marked ``__tracebackhide__``, which pytest leaves out (and IPython, unless it is the last), and `sys.excepthook` and
`threading.excepthook` leave it out from the first error on, unless the program has set hooks of its own. A plan without
a handler of its own, a composite above all, gets one for its first run alone: an error of a later one may show a
frame or two more where neither pytest nor a hook prints it.

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
"""What the package calls: their frames are inner ones where the package has called them."""

HANDLER = "except BaseException: hide_inner_frames(); raise"
"""The handler of functions that are written out as text, with `hide_inner_frames` among their names."""

_LOOKUPS = f"{_PACKAGE}.dispatch.generated."
_RAISES = opmap["RAISE_VARARGS"]
_JUDGED = "_triten_judged"
_NOTE = f"(inner frames of {_PACKAGE} are hidden; TRITEN_FULL_TRACEBACK=1 shows them)"


def shows_full_tracebacks() -> bool:
    """Whether ``TRITEN_FULL_TRACEBACK`` asks for every frame, now."""
    return os.environ.get("TRITEN_FULL_TRACEBACK", "0") not in ("", "0")


def hide_inner_frames() -> None:
    """Take the package's frames and look-ups out of the error that is handled; a bare ``raise`` is to follow.

    An error's cause and the contexts that come from the caller's code stay. One that no ``raise`` of the package made
    is the package's fault more likely than its caller's: a note tells how to see where it arose.
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
    """Whether a function hides inner frames itself, in a handler of its own."""
    code = getattr(function, "__code__", None)
    return code is not None and hide_inner_frames.__name__ in code.co_names


def api_boundary(function: Function) -> Function:
    """A public function whose errors show no inner frames; for those whose call may cost a frame more.

    Example:
        >>> from triten.runtime.traceback_filter import api_boundary
        >>> @api_boundary
        ... def half(x):
        ...     return x / 2
        >>> half(3)
        1.5
    """
    # Names of its own instead of free variables: a function mode exchanges the code of public functions.
    names = {
        "_function": function,
        "hide_inner_frames": hide_inner_frames,
        "__builtins__": __builtins__,
        "__name__": __name__,
    }
    public = FunctionType(_guarded.__code__, names, function.__name__)
    return functools.update_wrapper(public, function)  # type: ignore[return-value]


def _guarded(*args: Any, **kwargs: Any) -> Any:
    """The code of every function that `api_boundary` makes; its names are those of the one it belongs to."""
    try:
        return _function(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821
    except BaseException:
        hide_inner_frames()
        raise


OWN, LIBRARY, CALLER = range(3)


@functools.lru_cache(maxsize=4096)
def _kind_of(module: str) -> int:
    """Whose a module of this name is; the package's own programs are callers."""
    top, _, rest = module.partition(".")
    if top == _PACKAGE:
        return CALLER if rest.partition(".")[0] in _CALLERS else OWN
    return LIBRARY if top in _LIBRARIES else CALLER


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
    """The entries that are no inner ones: neither the package's nor those of a library that it called."""
    kept = []
    inside = False
    for entry in entries:
        kind = _kind(entry.tb_frame)
        if kind == OWN:
            inside = True
        elif kind == CALLER or not inside:
            inside = False
            kept.append(entry)
    return kept


def _joined(entries: list[TracebackType]) -> TracebackType | None:
    """A traceback of these entries."""
    made = None
    for entry in reversed(entries):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made


def _handled_here(error: BaseException) -> bool:
    """Whether the code that handles an error, whose frame is the outermost, is the package's."""
    trace = error.__traceback__
    return trace is not None and _is_own(trace.tb_frame)


def _clear_chain(error: BaseException, full: bool) -> None:
    """Take inner frames and inner errors out of an error, its causes and contexts; with `full` the look-ups' alone."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen or not _handled_here(each):
            continue
        seen.add(id(each))
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
            kept = _of_callers(entries)
            if len(entries) > 1 and (not kept or kept[-1] is not entries[-1]):
                _judge(each, entries[-1])
            if len(kept) < len(entries):
                each.__traceback__ = _joined(kept)
        waiting += [each.__cause__, context]


def _is_inner(context: BaseException, full: bool) -> bool:
    """Whether an error was raised and handled in the package, without callers between; with `full`: by a look-up."""
    if not _handled_here(context):
        return False
    entries = _entries(context.__traceback__)
    if not full:
        return not _of_callers(entries)
    name = entries[0].tb_frame.f_globals["__name__"]
    return isinstance(context, KeyError | AttributeError | TypeError) and name.startswith(_LOOKUPS)


def _judge(error: BaseException, raised: TracebackType) -> None:
    """Note on an error, once, how to see where it arose, unless a ``raise`` of the package speaks to the caller."""
    if error.__dict__.get(_JUDGED):
        return
    error.__dict__[_JUDGED] = True
    # One of a single frame comes from the call's arguments themselves.
    is_message = (
        _is_own(raised.tb_frame) and raised.tb_frame.f_code.co_code[raised.tb_lasti] == _RAISES
    ) and not isinstance(error, InternalAssertError)
    if not is_message and isinstance(error, Exception):
        error.add_note(_NOTE)


_hooks_installed = False


def _install_hooks() -> None:
    """Have uncaught errors printed without the last frame of the package, unless the program has hooks of its own."""
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
        # Python's own way to print does not ask `linecache`, which has the lines of what was written out.
        traceback.print_exception(kind, error, trace)
        return
    _hide_everywhere(error)
    sys.__excepthook__(kind, error, error.__traceback__)


def _print_uncaught_in_thread(given: threading.ExceptHookArgs) -> None:
    error = given.exc_value
    if error is not None and not shows_full_tracebacks():
        _hide_everywhere(error)
        given = threading.ExceptHookArgs((given.exc_type, error, error.__traceback__, given.thread))
    threading.__excepthook__(given)


def _hide_everywhere(error: BaseException) -> None:
    """Leave the callers' entries alone in the tracebacks of an error and of all that it is chained to."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        kept = _of_callers(_entries(each.__traceback__))
        if kept:
            each.__traceback__ = _joined(kept)
        waiting += [each.__cause__, each.__context__]
