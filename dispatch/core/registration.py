"""What a registration gives back, and who is told of one.

Source: ATen/core/dispatch/RegistrationHandleRAII.h, OpRegistrationListener.h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .operator_entry import OperatorEntry


class RegistrationHandle:
    """Undoes one registration at `close()`, or at the end of a ``with`` block; closing twice is one closing."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = [undo]

    def close(self) -> None:
        """Take the registration back. What was registered after it stays."""
        try:
            # One step, so that of two threads that close only one undoes.
            undo = self._undo.pop()
        except IndexError:
            return
        undo()

    def __enter__(self) -> RegistrationHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class OpRegistrationListener(Protocol):
    """Is told when operators come and go, by the thread that registers; see `Dispatcher.add_listener`."""

    def on_operator_registered(self, op: OperatorEntry) -> None:
        """An operator was defined."""

    def on_operator_deregistered(self, op: OperatorEntry) -> None:
        """An operator's definition is about to be taken back; it can still be found and called."""
