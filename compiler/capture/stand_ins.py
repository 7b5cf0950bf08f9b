"""Stand-ins: replacements of attributes of modules and classes during a capture.

A capture must see calls of `print` or `time.time` in its thread. Other means of Python do not work: a profile function
would end that of `cProfile`; `sys.monitoring` begins with Python 3.12 and sees all threads; no audit event reports a
clock. So attributes are replaced. An interrupt may leave a stand-in in place, which two rules make harmless:

- It acts only beneath the ``with`` statement that installed it, which it looks for on the stack of its thread.
  Anywhere else it forwards the call.
- The first call in its thread that finds it left behind removes it, or else the next block of stand-ins.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_standing: list[StandIns] = []
"""Those that are in place, and those that an interrupt left there."""


class StandIns:
    """Context manager that replaces attributes by other objects inside its block.

    Example:
        >>> import math
        >>> from triten.compiler.capture.stand_ins import StandIns
        >>> stand_ins = StandIns()
        >>> stand_ins.replace_function(math, "sqrt", lambda original: lambda x: original(x) + 1)
        >>> with stand_ins:
        ...     math.sqrt(4)
        3.0
        >>> math.sqrt(4)
        2.0
    """

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str, Callable[[Any], Any]]] = []
        self._placed: list[tuple[Any, str, Any, bool, Any]] = []
        self._thread = threading.get_ident()
        self._frame: FrameType | None = None

    def replace(self, holder: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace an attribute by ``make(original)``, which calls `is_active` itself.

        Args:
            holder: A module or a class.
            name: The attribute's name.
            make: Factory, called when the block begins.
        """
        self._wanted.append((holder, name, make))

    def replace_function(
        self, holder: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        """Replace a function by ``make(original)``, beneath the block and in its thread.

        Args:
            holder: A module or a class.
            name: The attribute's name.
            make: Factory, called when the block begins.
        """

        def made(original: Callable[..., Any]) -> Callable[..., Any]:
            instead = make(original)

            def standing(*args: Any, **kwargs: Any) -> Any:
                return instead(*args, **kwargs) if self.is_active() else original(*args, **kwargs)

            return standing

        self.replace(holder, name, made)

    def is_active(self) -> bool:
        """Return True if this thread is beneath the block. Otherwise remove the stand-ins left behind in this
        thread."""
        if threading.get_ident() != self._thread:
            return False
        if self._is_beneath(sys._getframe(1)):
            return True
        self._remove()
        return False

    def __enter__(self) -> StandIns:
        self.begin(sys._getframe(1))
        return self

    def begin(self, frame: FrameType) -> None:
        """Put everything in place.

        Args:
            frame: the function that has the ``with`` statement.
        """
        for left in [each for each in _standing if not each._is_running()]:
            left._remove()
        self._thread, self._frame = threading.get_ident(), frame
        _standing.append(self)
        for holder, name, make in self._wanted:
            original = vars(holder)[name] if name in vars(holder) else getattr(holder, name)
            made = make(original)
            self._placed.append((holder, name, original, name in vars(holder), made))
            setattr(holder, name, made)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove(all_of_them=True)

    def _remove(self, all_of_them: bool = False) -> None:
        """Restore the originals, by default only where the stand-in is still in place."""
        for holder, name, original, is_own, made in reversed(self._placed):
            if not all_of_them and vars(holder).get(name) is not made:
                continue
            if is_own:
                setattr(holder, name, original)
            elif name in vars(holder):
                delattr(holder, name)
        self._frame = None
        _standing[:] = [each for each in _standing if each is not self]

    def _is_running(self) -> bool:
        """Return True if the thread of the block is beneath it."""
        return self._is_beneath(sys._current_frames().get(self._thread))

    def _is_beneath(self, frame: FrameType | None) -> bool:
        block = self._frame
        while frame is not None and frame is not block:
            frame = frame.f_back
        return frame is not None
