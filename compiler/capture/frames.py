"""Tracing of the Python code that a call runs: its names, its globals and the objects in its variables.

A trace function sees every Python function that starts. It skips code of the standard library, of NumPy and of this
package, except modules (`nn`) and optimizers, whose attributes programs set.
"""

from __future__ import annotations

import gc
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ...runtime.tensor_impl import TensorImpl
from .stand_ins import StandIns
from .unsupported import PACKAGE, is_own

OBSERVED_ROOMS = ("nn", "optim")
"""Folders of this package whose code reads attributes that programs set."""
STANDARD_LIBRARY = sysconfig.get_path("stdlib")
SITE_PACKAGES = sysconfig.get_path("purelib")
BY_STRING = frozenset({"getattr", "hasattr", "vars", "__dict__"})
"""Names that read attributes whose names need not appear in the code."""
PASSED_BY = ("numpy", "scipy", "ml_dtypes", "triton", "cupy", "llvmlite")
"""Installed packages whose code reads nothing of the program."""


class Watch:
    """A search for the line of a function during which something came to be that is seen at its end alone.

    Args:
        code: the function's.

    Attributes:
        is_there: whether it has come to be; asked for after every line.
        line: the line, None while it has not been found.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.is_there: Callable[[], bool] = bool
        self.line: int | None = None
        self._current: int | None = None

    def begin(self, line: int | None) -> None:
        """Record the start of a line; None at the function's end."""
        if self.line is None and self._current is not None and self.is_there():
            self.line = self._current
        self._current = line


class Frames:
    """Code that ran while a function was observed.

    Attributes:
        codes: The code objects that started.
        globals: For each code's module, by the id of its dict: the dict, and the names in the code.
        variables: Values of arguments and local variables, by id.
    """

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.globals: dict[int, tuple[dict[str, Any], set[str]]] = {}
        self.variables: dict[int, Any] = {}

    @property
    def names(self) -> set[str] | None:
        """Names of attributes and globals in the code that ran; None if it makes names at run time.

        Names in strings count, as `getattr` and `hasattr` take them.
        """
        identifiers: set[str] = set()
        for code in self.codes:
            identifiers.update(code.co_names)
            identifiers.update(
                each for each in code.co_consts if isinstance(each, str) and each.isidentifier()
            )
            if BY_STRING & set(code.co_names) and not is_own(code.co_filename):
                return None
        return identifiers

    @property
    def reads_grad(self) -> bool:
        """True if the code names the gradients of tensors."""
        return any("grad" in code.co_names or "grad" in code.co_consts for code in self.codes)

    def _enter(self, frame: FrameType) -> None:
        code = frame.f_code
        self.codes.add(code)
        known = self.globals.setdefault(id(frame.f_globals), (frame.f_globals, set()))
        known[1].update(code.co_names)
        self._keep(frame)

    def _keep(self, frame: FrameType) -> None:
        for value in frame.f_locals.values():
            if has_attributes(value):
                self.variables[id(value)] = value

    @contextmanager
    def observed(self, stand_ins: StandIns, watch: Watch | None = None) -> Iterator[Frames]:
        """Observe the code that runs in this thread inside the block.

        Args:
            stand_ins: Stand-ins around the block. A trace function that an interrupt leaves in place asks them if the
                block still runs, and ends.
            watch: Observer of a function line by line. Default: None.
        """

        def at_return(frame: FrameType, event: str, _: object) -> Any:
            if event == "return":
                self._keep(frame)
            return at_return

        def at_line(frame: FrameType, event: str, _: object) -> Any:
            assert watch is not None
            if event == "line":
                watch.begin(frame.f_lineno)
            elif event == "return":
                watch.begin(None)
                self._keep(frame)
            return at_line

        collector = _Collector()

        def at_call(frame: FrameType, event: str, _: object) -> Any:
            # Every function call reaches this line, and nearly all are skipped at once.
            if frame.f_code.co_filename in _passed_by:
                return None
            if event != "call" or collector.is_running or not is_observed(frame.f_code):
                return None
            if not stand_ins.is_active():
                sys.settrace(before)
                return None
            self._enter(frame)
            if watch is not None and frame.f_code is watch.code:
                return at_line
            frame.f_trace_lines = False
            return at_return

        before = sys.gettrace()
        if before is not None and threading.current_thread() is not threading.main_thread():
            before = None
        with collector.watched():
            try:
                sys.settrace(at_call)
                yield self
            finally:
                sys.settrace(before)


class _Collector:
    """State of the garbage collector in this thread: its callbacks and finalizers are not the program's code."""

    def __init__(self) -> None:
        self.is_running = False
        self._thread = threading.get_ident()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Track garbage collections while the block runs."""
        own = (self._begin, self._end)
        try:
            gc.callbacks.insert(0, self._begin)
            gc.callbacks.append(self._end)
            yield
        finally:
            gc.callbacks[:] = [each for each in gc.callbacks if each not in own]

    def _begin(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start" and threading.get_ident() == self._thread:
            self.is_running = True

    def _end(self, phase: str, _: dict[str, int]) -> None:
        if phase == "stop" and threading.get_ident() == self._thread:
            self.is_running = False


def has_attributes(value: object) -> bool:
    """Return True if a value is an object whose attributes may be read."""
    return not isinstance(value, TensorImpl) and (hasattr(value, "__dict__") or hasattr(value, "__slots__"))


def is_observed(code: CodeType) -> bool:
    """Return True if code may read values that a program sets."""
    return is_observed_file(code.co_filename)


_passed_by: set[str] = set()
"""Cache of skipped files."""


@cache
def is_observed_file(filename: str) -> bool:
    """Return True if a file's code may read values that a program sets."""
    is_observed = _is_observed_file(filename)
    if not is_observed:
        _passed_by.add(filename)
    return is_observed


def _is_observed_file(filename: str) -> bool:
    if filename.startswith("<"):
        # Text that was executed is the user's, unless this package wrote it or the import system did.
        return not filename.startswith(("<triten", "<frozen"))
    if is_own(filename):
        return Path(filename).relative_to(PACKAGE).parts[0] in OBSERVED_ROOMS
    if filename.startswith(SITE_PACKAGES):
        return Path(filename).relative_to(SITE_PACKAGES).parts[0] not in PASSED_BY
    return not filename.startswith(STANDARD_LIBRARY)
