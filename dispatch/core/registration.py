"""Registration handles and listeners.

Source: ATen/core/dispatch/RegistrationHandleRAII.h, OpRegistrationListener.h.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .operator_entry import OperatorEntry


class RegistrationHandle:
    """Handle that undoes one registration at `close()` or at the end of a ``with`` block. Closing is idempotent."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = [undo]

    def close(self) -> None:
        """Undo the registration. Later registrations stay."""
        try:
            # The pop is atomic: if two threads close, only one undoes.
            undo = self._undo.pop()
        except IndexError:
            return
        undo()

    def __enter__(self) -> RegistrationHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class OpRegistrationListener(Protocol):
    """Listener for operator definitions and removals, called by the registering thread; see
    `Dispatcher.add_listener`.
    """

    def on_operator_registered(self, op: OperatorEntry) -> None:
        """Handle the definition of an operator."""

    def on_operator_deregistered(self, op: OperatorEntry) -> None:
        """Handle the coming removal of an operator's definition; the operator can still be found and called."""
