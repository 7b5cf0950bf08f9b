"""`Stateful`: objects that give and take a state."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """What `save` asks for its state, and `load` gives it (`torch.distributed.checkpoint.stateful.Stateful`)."""

    def state_dict(self) -> dict[str, Any]:
        """The state; `load` calls it, too, for tensors to put values into."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state."""
        ...
