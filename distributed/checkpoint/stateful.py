"""`Stateful`: objects that give and take a state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """Protocol of objects that `save` and `load` handle by state
    (`torch.distributed.checkpoint.stateful.Stateful`).
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the state. `load` also calls it, for the tensors to fill."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state."""
        ...
